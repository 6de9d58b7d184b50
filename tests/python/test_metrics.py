"""util.metrics: counters, gauges and histograms of the user."""

import pytest

from miniray.util import metrics
from miniray.util.metrics import Counter, Gauge, Histogram


def values(name):
    return metrics.snapshot()[name]["values"]


def test_a_counter_only_grows():
    counter = Counter("made", description="So many.", tag_keys=("kind",))
    counter.inc(tags={"kind": "a"})
    counter.inc(2.5, tags={"kind": "a"})
    counter.inc(tags={"kind": "b"})
    assert values("made") == {("a",): 3.5, ("b",): 1.0}
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="must be above 0"):
            counter.inc(wrong, tags={"kind": "a"})


def test_a_gauge_is_what_it_was_set_to():
    gauge = Gauge("level")
    gauge.set(3)
    gauge.set(2)
    gauge.set(None)
    assert values("level") == {(): 2.0}


def test_a_histogram_counts_by_boundaries():
    histogram = Histogram("sizes", boundaries=[1, 10])
    for value in (0.5, 1, 5, 100):
        histogram.observe(value)
    assert values("sizes") == {(): {"counts": [2, 1, 1], "sum": 106.5, "count": 4}}
    assert histogram.info["boundaries"] == [1.0, 10.0]


def test_wrong_boundaries_are_refused():
    for wrong in (None, [], [0, 1], [2, 1]):
        with pytest.raises(ValueError):
            Histogram("wrong", boundaries=wrong)


def test_default_tags_fill_in():
    counter = Counter("tagged", tag_keys=("a", "b")).set_default_tags({"a": "1"})
    counter.inc(tags={"b": "2"})
    counter.inc(tags={"a": "3", "b": "2"})
    assert values("tagged") == {("1", "2"): 1.0, ("3", "2"): 1.0}
    assert counter.info["default_tags"] == {"a": "1"}
    with pytest.raises(ValueError, match="Missing value for tag key"):
        counter.inc()


def test_wrong_tags_and_values_are_refused():
    counter = Counter("strict", tag_keys=("a",))
    with pytest.raises(ValueError, match="Unrecognized tag key"):
        counter.inc(tags={"x": "1"})
    with pytest.raises(TypeError):
        counter.inc(tags={"a": 1})
    with pytest.raises(TypeError):
        counter.inc("1", tags={"a": "1"})
    with pytest.raises(TypeError, match="must be a tuple"):
        Counter("strict", tag_keys=["a"])
    with pytest.raises(TypeError):
        Counter("strict", tag_keys=(1,))
    with pytest.raises(ValueError, match="name"):
        Counter("")


def test_a_metric_that_is_made_again_counts_on():
    Counter("again").inc()
    Counter("again").inc()
    assert values("again") == {(): 2.0}


def test_the_text_for_prometheus():
    Counter("shown", description="What is shown.", tag_keys=("a",)).inc(2, tags={"a": 'x"y'})
    histogram = Histogram("shown_sizes", boundaries=[1, 2])
    histogram.observe(1.5)
    text = metrics.exposition()
    assert '# HELP shown What is shown.\n# TYPE shown counter\nshown{a="x\\"y"} 2\n' in text
    assert 'shown_sizes_bucket{le="2.0"} 1\nshown_sizes_bucket{le="+Inf"} 1\n' in text
    assert "shown_sizes_sum 1.5\nshown_sizes_count 1\n" in text


def test_an_actor_counts_for_itself_and_tells_it(ray):
    @ray.remote
    class Server:
        def __init__(self):
            self.requests = Counter("requests", tag_keys=("actor",)).set_default_tags({"actor": "one"})

        def serve(self):
            self.requests.inc()

        def tell(self):
            return metrics.snapshot()["requests"]["values"]
    server = Server.remote()
    for _ in range(3):
        server.serve.remote()
    assert ray.get(server.tell.remote()) == {("one",): 3.0}


def test_a_metric_that_travels_counts_where_it_is_used(ray):
    counter = Counter("travelled", tag_keys=("a",)).set_default_tags({"a": "x"})

    @ray.remote
    def count():
        counter.inc()
        return metrics.snapshot()["travelled"]["values"]
    counter.inc()
    assert ray.get(count.remote()) == {("x",): 1.0} and values("travelled") == {("x",): 1.0}
