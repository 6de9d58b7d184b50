"""miniray.ps with NumPy models: syncs and their order, strategies, errors that are never silent, dead workers."""

import os
import signal
import warnings

import numpy as np
import pytest

from miniray.ps import STRATEGIES, ParameterServer, SyncStrategy, create_parameter_server
from miniray.ps import strategies

NAMES = ["average", "weighted", "momentum", "median", "trimmed_mean", "max"]


class Worker:
    """A model of lists, dicts or both; a step adds to all its floats."""

    def __init__(self, weights):
        self.weights, self.error = weights, None

    def get_weights(self):
        if self.error is not None:
            raise self.error
        return self.weights

    def set_weights(self, weights):
        self.weights = weights

    def add(self, amount):
        for at, array in enumerate(self.weights):
            if array.flags.writeable:
                array += amount
            else:  # as it came with the constructor
                self.weights[at] = array + amount

    def fail(self, error):
        self.error = error

    def is_writable(self):
        return all(array.flags.writeable for array in self.weights)

    def pid(self):
        return os.getpid()


@pytest.fixture
def hire(ray):
    worker = ray.remote(Worker)
    return lambda *models: [worker.remote(model) for model in models]


def rows(*values):
    """Models of two tensors, all of whose floats are the same; the first is larger than what travels in messages."""
    return [[np.full((200, 200), value, np.float32), np.full(3, value, np.float64)] for value in values]


def weights_of(ray, workers):
    return ray.get([worker.get_weights.remote() for worker in workers])


# ---- Syncs.


def test_one_line(ray, hire):
    workers, ps = hire(*rows(0, 10, 20)), create_parameter_server("average")
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    for large, small in weights_of(ray, workers):
        assert large.dtype == np.float32 and large.shape == (200, 200) and (large == 10).all()
        assert small.dtype == np.float64 and (small == 10).all()
    assert ray.get(ps.sync_from_workers.remote(workers)) == 2


def test_before_the_first_sync(ray):
    ps = create_parameter_server()
    assert ray.get(ps.pull_weights.remote()) is None
    stats = ray.get(ps.get_stats.remote())
    assert stats["version"] == stats["num_syncs"] == 0 and stats["initialized"] is False
    assert stats["strategy"] == "AverageStrategy" and stats["last_error"] is None


def test_stats_and_pull(ray, hire):
    workers, ps = hire(*rows(1, 3)), ParameterServer.remote("average")
    for _ in range(10):
        ps.sync_from_workers.remote(workers)
    stats = ray.get(ps.get_stats.remote())
    assert stats["version"] == stats["num_syncs"] == 10 and stats["initialized"] is True
    assert stats["bytes"] == 200 * 200 * 4 + 3 * 8
    assert all(stats[name] >= 0 for name in ("gather_s", "aggregate_s", "scatter_s"))
    large, small = ray.get(ps.pull_weights.remote())
    assert (large == 2).all() and (small == 2).all()


def test_push(ray, hire):
    ps = create_parameter_server("momentum", momentum=0.5)
    assert ray.get(ps.push_weights.remote(rows(0)[0])) == 1
    workers = hire(*rows(4, 8))
    assert ray.get(ps.sync_from_workers.remote(workers)) == 2
    assert (ray.get(ps.pull_weights.remote())[0] == 3).all()
    with pytest.raises(ValueError):
        ray.get(ps.push_weights.remote(3))
    for wrong, kind in ((None, ValueError), (3, ValueError), ("text", ValueError), ([np.ones(2) * 1j], TypeError)):
        with pytest.raises(kind, match="tensor"):
            ps.push_weights.remote(wrong)


def test_steps_before_a_sync_are_in_it_and_steps_after_see_it(ray, hire):
    """Nobody waits until the end; any other order gives another number."""
    workers, ps, expected = hire(*rows(0, 10)), create_parameter_server("max"), [0.0, 10.0]
    for turn in range(1, 21):
        for number, worker in enumerate(workers):
            amount = turn if number == turn % 2 else -turn
            worker.add.remote(amount)
            expected[number] += amount
        ps.sync_from_workers.remote(workers)
        expected = [max(expected)] * 2
    for model, value in zip(weights_of(ray, workers), expected):
        assert (model[0] == value).all() and (model[1] == value).all()


def test_what_came_back_may_be_written_to(ray, hire):
    workers, ps = hire(*rows(0, 2)), create_parameter_server("average")
    ps.sync_from_workers.remote(workers)
    workers[0].add.remote(5)
    assert ray.get(workers[0].is_writable.remote())
    first, second = weights_of(ray, workers)
    assert (first[0] == 6).all() and (second[0] == 1).all()
    assert (ray.get(ps.pull_weights.remote())[0] == 1).all()


def test_a_worker_may_be_there_twice(ray, hire):
    (first, last), ps = hire(*rows(0, 30)), create_parameter_server()
    for version in range(1, 4):
        assert ray.get(ps.sync_from_workers.remote([first, last, first])) == version
        for weights in weights_of(ray, [first, last]):
            assert all((array == 10).all() for array in weights)


@pytest.mark.parametrize("size", [10, 90_000])
def test_a_worker_may_be_there_as_often_as_one_wants(ray, size):
    """Also if its weights are others each time: more models than it has places to lend from."""
    @ray.remote
    class Counts:
        def __init__(self):
            self.asked = self.got = 0

        def get_weights(self):
            self.asked += 1
            return [np.full(size, self.asked, np.float32)]

        def set_weights(self, weights):
            self.got = float(weights[0][-1])

        def seen(self):
            return self.asked, self.got
    worker, ps = Counts.remote(), create_parameter_server()
    for version in (1, 2):
        assert ray.get(ps.sync_from_workers.remote([worker] * 21)) == version
        assert ray.get(worker.seen.remote()) == (21 * version, 11 + 21 * (version - 1))


def test_syncs_that_fail_leave_no_trace(ray, hire):
    """What workers lend to a sync that is never aggregated stays lent; models are sent then."""
    workers, ps = hire(*rows(0, 10, 20)), create_parameter_server()
    os.kill(ray.get(workers[2].pid.remote()), signal.SIGKILL)
    for _ in range(12):
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(ps.sync_from_workers.remote(workers))
    for version in range(1, 4):
        assert ray.get(ps.sync_from_workers.remote(workers[:2])) == version
        assert all((array == 5).all() for weights in weights_of(ray, workers[:2]) for array in weights)


def test_handles_travel(ray, hire):
    @ray.remote
    def sync(ps, workers):
        return ray.get(ps.sync_from_workers.remote(workers))
    workers, ps = hire(*rows(0, 2)), create_parameter_server("average")
    assert ray.get(sync.remote(ps, workers)) == 1
    assert (ray.get(ps.pull_weights.remote())[0] == 1).all()


def test_a_server_may_have_a_name_and_be_killed(ray, hire):
    ps = ParameterServer.options(name="the model").remote("average")
    workers = hire(*rows(0, 2))
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    with pytest.raises(ValueError):
        ParameterServer.options(name="the model").remote("average")
    ray.kill(ps)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(ps.sync_from_workers.remote(workers))


# ---- Shapes of weights.


@pytest.mark.parametrize("model", [
    {"conv.weight": np.ones((3, 3), np.float32), "bn.num_batches_tracked": np.array(7), "bias": np.zeros(2)},
    {"G": [np.ones(3), np.ones((2, 2), np.float16)], "D": {"w": np.ones(4, np.float32)}},
    (np.ones(3), np.arange(3), np.array([True, False])),
    [np.float32(3), np.ones((2, 3), order="F"), np.ones(10)[::2]],
    [np.ones((0, 3)), np.array(2.5)],
    [],
    {},
])
def test_weights_of_any_shape(ray, hire, model):
    workers, ps = hire(model, model, model), create_parameter_server("average")
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    for got in (*weights_of(ray, workers), ray.get(ps.pull_weights.remote())):
        assert type(got) is type(model) and len(got) == len(model)
        same(got, model)


def same(got, expected):
    if isinstance(expected, (dict, list, tuple)):
        items = expected if isinstance(expected, dict) else range(len(expected))
        for key in items:
            same(got[key], expected[key])
    else:
        assert got.dtype == expected.dtype and got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)


def leaf(tree):
    return leaf(tree[0]) if isinstance(tree, list) else tree


@pytest.mark.parametrize("models", [([1.0, 5.0], [3.0, 9.0]), ([1.0, np.float64(5)], [np.float64(3), 9.0]),
                                    ([[1.0], {"b": 5.0}], [[3.0], {"b": 9.0}]),
                                    ([1.0, np.ones(3) * 5], [3.0, np.ones(3) * 9])])
def test_a_float_is_a_weight(ray, hire, models):
    """A bias that nobody made an array of is not the first worker's in silence."""
    workers, ps = hire(*models), create_parameter_server()
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    for got in (*weights_of(ray, workers), ray.get(ps.pull_weights.remote())):
        first, last = (got[0][0], got[1]["b"]) if isinstance(got[0], list) else got
        assert first == 2 and np.all(last == 7)
    assert type(leaf(weights_of(ray, workers)[0])) is float and leaf(ray.get(ps.pull_weights.remote())).shape == ()
    assert ray.get(ps.push_weights.remote([4.0])) == 2 and ray.get(ps.pull_weights.remote())[0] == 4


@pytest.mark.parametrize("now", [np.array(4.0), np.full(3, 4.0)])
def test_what_is_no_float_any_more_comes_back_as_it_is(ray, hire, now):
    workers, ps = hire([1.0, np.ones(2)], [3.0, np.ones(2)]), create_parameter_server()
    ray.get(ps.sync_from_workers.remote(workers))
    assert [type(weights[0]) for weights in weights_of(ray, workers)] == [float, float]
    ray.get([worker.set_weights.remote([now, np.ones(2)]) for worker in workers])
    ray.get(ps.sync_from_workers.remote(workers))
    for weights in weights_of(ray, workers):
        assert isinstance(weights[0], np.ndarray) and weights[0].shape == now.shape and (weights[0] == 4).all()


@pytest.mark.parametrize("keys", [(1, 2), ((1, "a"), (1, "b")), (None, True), (1.5, 2.5), (b"a", b"b"), (True, False)])
def test_keys_of_every_kind(ray, hire, keys):
    first, last = keys
    workers = hire({first: np.zeros(3), last: np.ones(3)}, {last: np.full(3, 3.0), first: np.full(3, 4.0)})
    ps = create_parameter_server()
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    got = ray.get(ps.pull_weights.remote())
    assert list(got) == [first, last] and (got[first] == 2).all() and (got[last] == 2).all()


def test_an_ordered_dict_and_a_generator(ray):
    import collections

    @ray.remote
    class Odd:
        def __init__(self, value, iterate):
            self.value, self.iterate = value, iterate

        def get_weights(self):
            named = collections.OrderedDict(a=np.full(2, self.value), b=np.full(3, self.value))
            return (each for each in named.values()) if self.iterate else named

        def set_weights(self, weights):
            self.got = weights

        def seen(self):
            return self.got
    for iterate in (False, True):
        workers, ps = [Odd.remote(value, iterate) for value in (1.0, 3.0)], create_parameter_server()
        assert ray.get(ps.sync_from_workers.remote(workers)) == 1
        got = ray.get(workers[0].seen.remote())
        assert (got[1] == 2).all() if iterate else (got["b"] == 2).all()


def test_an_async_worker(ray):
    @ray.remote
    class Async:
        def __init__(self, value):
            self.value = value

        async def get_weights(self):
            return [np.full(3, self.value)]

        async def set_weights(self, weights):
            self.value = float(weights[0][0])

        async def seen(self):
            return self.value
    workers, ps = [Async.remote(value) for value in (1.0, 3.0)], create_parameter_server()
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    assert ray.get(workers[1].seen.remote()) == 2


def test_a_large_model_of_many_tensors(ray, hire):
    chance = np.random.default_rng(1)
    models = [[chance.normal(size=50_001).astype(np.float32) for _ in range(30)] for _ in range(3)]
    ps = create_parameter_server("average")
    ray.get(ps.sync_from_workers.remote(hire(*models)))
    for got, expected in zip(ray.get(ps.pull_weights.remote()), strategies.AverageStrategy().aggregate(models)):
        np.testing.assert_array_equal(got, expected)


def test_counters_are_the_first_workers(ray, hire):
    workers = hire([np.array(5), np.array([True])], [np.array(9), np.array([False])])
    ps = create_parameter_server("average")
    ps.sync_from_workers.remote(workers)
    count, flag = ray.get(ps.pull_weights.remote())
    assert count == 5 and flag[0]


@pytest.mark.parametrize("name", ["average", "mine"])
def test_what_differs_is_named(ray, hire, name, mine):
    ps = create_parameter_server(name)
    cases = [([[np.ones(3)], [np.ones(4)]], "tensor 0 of worker 1 is float64[4], that of worker 0 is float64[3]"),
             ([[np.ones(3)], [np.ones(3, np.float32)]], "tensor 0 of worker 1 is float32[3]"),
             ([{"a": np.ones(3)}, {"b": np.ones(3)}], "worker 1 has no tensor a"),
             ([{"a": np.ones(3)}, {"a": np.ones((3, 1))}], "tensor a of worker 1"),
             ([[np.ones(3)], [np.ones(3), np.ones(3)]], "worker 1 has 2 tensors, worker 0 has 1"),
             (["text", "text"], "the weights of worker 0")]
    for models, text in cases:
        with pytest.raises(ValueError) as caught:
            ray.get(ps.sync_from_workers.remote(hire(*models)))
        assert text in str(caught.value)


@pytest.mark.parametrize("odd", [np.ones(2, complex), np.ones((1,) * 9), np.array([{}], object),
                                 np.ones(2, np.longdouble)])
def test_numbers_that_only_strategies_in_python_take(ray, hire, odd, mine):
    if str(odd.dtype) == "float64" and odd.ndim < 9:
        pytest.skip("this machine has no longer doubles")
    with pytest.raises(TypeError, match="tensor 1 is "):
        ray.get(create_parameter_server().sync_from_workers.remote(hire([np.ones(1), odd], [np.ones(1), odd])))


def test_the_other_order_of_bytes(ray, hire):
    workers, ps = hire([np.full(3, 2, ">f4")], [np.full(3, 4, ">f4")]), create_parameter_server()
    ray.get(ps.sync_from_workers.remote(workers))
    assert ray.get(ps.pull_weights.remote())[0].tolist() == [3, 3, 3]


# ---- Strategies.


class Mine(SyncStrategy):
    """The first worker's, and what was set."""

    seen = None

    def aggregate(self, weight_lists):
        return [sum(self.worker_weights.values()) + each for each in weight_lists[0]]


@pytest.fixture
def mine():
    STRATEGIES["mine"] = Mine
    yield
    del STRATEGIES["mine"]


def test_unknown_names_list_the_known(ray):
    with pytest.raises(ValueError) as caught:
        create_parameter_server("mean")
    assert all(name in str(caught.value) for name in NAMES)
    with pytest.raises(TypeError, match="AverageStrategy takes no momentum$"):
        create_parameter_server("average", momentum=0.5)
    with pytest.raises(TypeError, match="MomentumStrategy takes no mometum; it takes momentum"):
        create_parameter_server("momentum", mometum=0.5)
    with pytest.raises(ValueError):
        create_parameter_server("momentum", momentum=1.0)
    with pytest.raises(NotImplementedError):
        SyncStrategy().aggregate([])


def twin(strategy, models):
    return strategy.aggregate([list(model) for model in models])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_the_twins_have_the_same_bits(ray, hire, name, workers):
    chance = np.random.default_rng(workers)
    kwargs = {"momentum": {"momentum": 0.75}, "trimmed_mean": {"trim": 0.3}}.get(name, {})
    ps, here = create_parameter_server(name, **kwargs), STRATEGIES[name](**kwargs)
    if name == "weighted":
        here.worker_weights = {worker: worker + 0.5 for worker in range(workers)}
        for worker, weight in here.worker_weights.items():
            ps.set_worker_weight.remote(worker, weight)
    for _ in range(3):
        models = [[chance.normal(size=(7, 5)).astype(kind) for kind in (np.float32, np.float64, np.float16)] +
                  [chance.integers(0, 9, 4)] for _ in range(workers)]
        models[0][0][0, 0] = np.nan
        hired = hire(*models)
        ray.get(ps.sync_from_workers.remote(hired))
        for got, expected in zip(ray.get(ps.pull_weights.remote()), twin(here, models)):
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)


def test_twins_take_plain_numbers():
    assert strategies.AverageStrategy().aggregate([[1.0, 7], [3.0, 9]]) == [2.0, 7]
    assert strategies.MedianStrategy().aggregate([[1.0], [9.0], [2.0]]) == [2.0]
    with pytest.raises(ValueError):
        strategies.AverageStrategy().aggregate([])
    with pytest.raises(ValueError):
        strategies.AverageStrategy().aggregate([[1.0], [2.0, 3.0]])


def test_momentum(ray, hire):
    ps = create_parameter_server("momentum", momentum=0.9)
    ray.get(ps.sync_from_workers.remote(hire(*rows(1, 3))))
    assert (ray.get(ps.pull_weights.remote())[1] == 2).all()
    ray.get(ps.sync_from_workers.remote(hire(*rows(11, 13))))
    assert np.allclose(ray.get(ps.pull_weights.remote())[1], 0.9 * 2 + 0.1 * 12)
    still = create_parameter_server("momentum", momentum=0.0)
    ray.get(still.sync_from_workers.remote(hire(*rows(1))))
    ray.get(still.sync_from_workers.remote(hire(*rows(5))))
    assert (ray.get(still.pull_weights.remote())[1] == 5).all()


def test_weighted(ray, hire):
    ps, workers = create_parameter_server("weighted"), hire(*rows(0, 30))
    ray.get(ps.set_worker_weight.remote(0, 1000))
    ray.get(ps.set_worker_weight.remote(np.int64(1), 2000))
    ray.get(ps.sync_from_workers.remote(workers))
    assert np.allclose(ray.get(ps.pull_weights.remote())[1], 20)
    ps.set_worker_weight.remote(0, 1)
    ps.set_worker_weight.remote(1, -1)
    with pytest.raises(ValueError, match="add up to 0"):
        ray.get(ps.sync_from_workers.remote(workers))
    for worker, weight in ((-1, 1), ("0", 1), (0, float("nan"))):
        with pytest.raises(ValueError):
            ps.set_worker_weight.remote(worker, weight)


def test_a_weight_without_effect_warns(ray):
    ps = create_parameter_server("average")
    with pytest.warns(UserWarning, match="AverageStrategy"):
        assert ray.get(ps.set_worker_weight.remote(0, 2)) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        create_parameter_server("weighted").set_worker_weight.remote(0, 2)


def test_a_strategy_of_the_users_own(ray, hire, mine):
    ps, workers = create_parameter_server("mine"), hire(*rows(1, 5))
    ps.set_worker_weight.remote(1, 10)
    assert ray.get(ps.pull_weights.remote()) is None
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    assert (weights_of(ray, workers)[1][0] == 11).all()
    stats = ray.get(ps.get_stats.remote())
    assert stats["strategy"] == "Mine" and stats["version"] == 1 and stats["bytes"] == 200 * 200 * 4 + 3 * 8
    assert ray.get(ps.push_weights.remote(rows(0)[0])) == 2


@pytest.mark.parametrize("given, kind, text", [(None, TypeError, "should return a list of tensors, not NoneType"),
                                               ([], ValueError, "returned 0 tensors, not 1"),
                                               ([np.ones(1)], ValueError, r"tensor 0 .* has the shape \[1\].*\[2, 3\]"),
                                               ([5.0], ValueError, r"tensor 0 .* has the shape \[\].*\[2, 3\]")])
def test_a_strategy_that_gives_no_weights(ray, hire, given, kind, text):
    class Wrong(SyncStrategy):
        def aggregate(self, weight_lists):
            return given
    with pytest.raises(kind, match=text):
        ray.get(create_parameter_server(Wrong).sync_from_workers.remote(hire([np.ones((2, 3))], [np.ones((2, 3))])))


def test_what_a_strategy_of_ones_own_gives_may_be_written_to(ray, mine):
    @ray.remote
    class Large:
        def get_weights(self):
            return [np.ones(100_000)]

        def set_weights(self, weights):
            weights[0][:] = 7
    ps = create_parameter_server("mine")
    ray.get(ps.sync_from_workers.remote([Large.remote(), Large.remote()]))
    pulled, again = ray.get([ps.pull_weights.remote(), ps.pull_weights.remote()])
    pulled[0][:] = 5
    assert (again[0] != 5).all() and (again[0] != 7).all()


def test_a_users_entry_wins_over_a_builtin_one(ray, hire):
    class AverageStrategy(strategies.AverageStrategy):  # derived: not exactly the built-in one
        def aggregate(self, weight_lists):
            return [each + 1 for each in super().aggregate(weight_lists)]
    builtin, STRATEGIES["average"] = STRATEGIES["average"], AverageStrategy
    try:
        ps = create_parameter_server("average")
    finally:
        STRATEGIES["average"] = builtin
    ray.get(ps.sync_from_workers.remote(hire(*rows(1, 3))))
    assert (ray.get(ps.pull_weights.remote())[0] == 3).all()


def test_classes_and_instances_are_strategies_too(ray, hire):
    for given in (strategies.MaxStrategy, strategies.MaxStrategy()):
        ps = create_parameter_server(given)
        ray.get(ps.sync_from_workers.remote(hire(*rows(1, 3))))
        assert (ray.get(ps.pull_weights.remote())[0] == 3).all()


class Last:
    """Not derived from anything."""

    def aggregate(self, weight_lists):
        return weight_lists[-1]


def blend(weight_lists, share=0.5):
    return [share * first + (1 - share) * last for first, *_, last in zip(*weight_lists)]


@pytest.mark.parametrize("given, options, expected, name",
                         [(blend, {}, 2, "blend"), (blend, {"share": 0.25}, 2.5, "blend"), (Last, {}, 3, "Last"),
                          (Last(), {}, 3, "Last"), (lambda: Last(), {}, 3, "Last"), ("blend", {"share": 0}, 3, "blend")])
def test_functions_and_whatever_aggregates_are_strategies(ray, hire, monkeypatch, given, options, expected, name):
    monkeypatch.setitem(STRATEGIES, "blend", blend)
    workers, ps = hire(*rows(1, 3)), create_parameter_server(given, **options)
    ray.get(ps.sync_from_workers.remote(workers))
    assert (weights_of(ray, workers)[0][0] == expected).all() and ray.get(ps.get_stats.remote())["strategy"] == name


def test_a_function_says_what_it_takes(ray):
    with pytest.raises(TypeError, match="blend takes no part; it takes weight_lists, share"):
        create_parameter_server(blend, part=1)


def test_what_has_no_dimensions_stays_an_array(ray, hire, mine):
    """Of NumPy, the mean of such arrays is a number."""
    workers = hire([np.array(1.0), 1.0], [np.array(3.0), 3.0])
    ray.get(create_parameter_server(lambda lists: [np.mean(each) for each in zip(*lists)]).sync_from_workers.remote(workers))
    array, number = weights_of(ray, workers)[1]
    assert isinstance(array, np.ndarray) and array.shape == () and array == 2 and type(number) is float and number == 2


@pytest.mark.parametrize("result, text", [({"a": np.ones(3)}, "should return a list of tensors, not dict"),
                                          ([[1.0, 2.0]], "tensor 0 that .*aggregate returned is a list"),
                                          ([np.ones(2)], "returned has the shape")])
def test_what_a_strategy_should_not_return(ray, hire, result, text):
    ps = create_parameter_server(lambda lists: result)
    with pytest.raises((TypeError, ValueError), match=text):
        ray.get(ps.sync_from_workers.remote(hire([np.ones(3)])))


# ---- Errors.


@pytest.mark.parametrize("name", ["average", "mine"])
def test_errors_are_never_silent(ray, hire, name, mine, capfd):
    workers, ps = hire(*rows(1, 3)), create_parameter_server(name)
    workers[1].fail.remote(KeyError("lost"))
    with pytest.raises(KeyError) as caught:  # who looks is told, with the type
        ray.get(ps.sync_from_workers.remote(workers))
    assert caught.value.__notes__ == ["in worker 1 of the sync"]
    workers[1].fail.remote(None)
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1  # and only once

    workers[1].fail.remote(KeyError("lost"))
    ps.sync_from_workers.remote(workers)  # dropped
    workers[1].fail.remote(None)
    assert "lost" in ray.get(ps.get_stats.remote())["last_error"]
    with pytest.raises(KeyError):
        ray.get(ps.sync_from_workers.remote(workers))
    assert ray.get(ps.sync_from_workers.remote(workers)) == 2
    assert capfd.readouterr().err.count("nobody asked for this result") == 1

    workers[1].fail.remote(KeyError("lost"))
    ps.sync_from_workers.remote(workers)
    workers[1].fail.remote(None)
    with pytest.raises(KeyError):
        ray.get(ps.pull_weights.remote())
    assert ray.get(ps.pull_weights.remote()) is not None


def test_a_failure_that_was_looked_at_is_not_printed(ray, hire, capfd):
    workers, ps = hire(*rows(1, 3, 5)), create_parameter_server("average")
    ray.get([worker.pid.remote() for worker in workers])
    capfd.readouterr()
    for worker in workers[1:]:
        ray.kill(worker)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(ps.sync_from_workers.remote(workers))
    ray.get(ps.get_stats.remote())
    assert "nobody asked" not in capfd.readouterr().err


def weighed(run_program, workers, rounds):
    """What a program prints that syncs so many workers; before each round it sets the weights of (worker, weight)."""
    done = run_program(f"""
        import miniray, numpy
        from miniray.ps import create_parameter_server

        @miniray.remote
        class Worker:
            def get_weights(self):
                return [numpy.zeros(3)]
            def set_weights(self, weights):
                pass

        miniray.init(num_workers=2)
        workers, ps = [Worker.remote() for _ in range({workers})], create_parameter_server("weighted")
        for chosen in {rounds}:
            for worker, weight in chosen:
                ps.set_worker_weight.remote(worker, weight)
            miniray.get(ps.sync_from_workers.remote(workers))
        miniray.shutdown()
    """)
    return done.stdout + done.stderr


def test_weights_of_some_are_warned_of_once(run_program):
    printed = weighed(run_program, 3, [[], [(1, 2)], [(1, 2)], [(0, 2), (2, 2)]])
    assert printed.count("the weights of only 1 of 3 workers are set; the others count as 1") == 1


def test_a_weight_of_nobody_is_warned_of(run_program):
    printed = weighed(run_program, 2, [[(2, 5)], []])
    assert printed.count("the weight of worker 2 is set; there are 2 workers") == 1


class Module:
    """No tensors, though it has some."""


@pytest.mark.parametrize("name", ["average", "mine"])
@pytest.mark.parametrize("weights, what", [(None, "None"), (Module(), "Module")])
def test_what_are_no_weights_is_told_by_whom(ray, hire, mine, name, weights, what):
    with pytest.raises(TypeError, match=f"Worker.get_weights returned {what}: a list or a dict of tensors is needed") as caught:
        ray.get(create_parameter_server(name).sync_from_workers.remote(hire(weights)))
    assert caught.value.__notes__ == ["in worker 0 of the sync"]


@pytest.mark.parametrize("name", ["average", "mine"])
def test_models_of_one_tensor_that_differ(ray, hire, mine, name):
    with pytest.raises(ValueError, match=r"the model of worker 1 is float64\[4\], that of worker 0 is float64\[3\]"):
        ray.get(create_parameter_server(name).sync_from_workers.remote(hire(np.ones(3), np.ones(4))))


def test_a_list_is_no_dict(ray, hire):
    with pytest.raises(ValueError, match="the model of worker 1 is a map, that of worker 0 a list"):
        ray.get(create_parameter_server().sync_from_workers.remote(hire([np.ones(3)], {"0": np.ones(3)})))


def test_what_cannot_be_synced_is_told_at_once(ray, hire):
    @ray.remote
    class Half:
        def get_weights(self):
            return []
    ps = create_parameter_server("average")
    with pytest.raises(AttributeError, match="worker 1.*set_weights"):
        ps.sync_from_workers.remote([*hire([]), Half.remote()])
    with pytest.raises(ValueError):
        ps.sync_from_workers.remote([])
    with pytest.raises(TypeError, match="worker 0"):
        ps.sync_from_workers.remote([3])
    with pytest.raises(ValueError):
        ps.sync_from_workers.remote(hire([]), on_dead="ignore")
    with pytest.raises(TypeError):
        ps.sync_from_workers([])
    for given in ((), ("average",)):
        with pytest.raises(TypeError, match="use 'ParameterServer.remote"):
            ParameterServer(*given)
    with pytest.raises(TypeError, match="the workers should be a list of actors, not Actor"):
        ps.sync_from_workers.remote(hire([])[0])


@pytest.mark.parametrize("name", ["average", "mine"])
def test_dead_workers(ray, hire, name, mine):
    workers, ps = hire(*rows(5, 1, 3)), create_parameter_server(name)
    pid = ray.get(workers[0].pid.remote())
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(workers[0].pid.remote())
    with pytest.raises(ray.exceptions.RayActorError, match=r"\(worker 0\)"):
        ray.get(ps.sync_from_workers.remote(workers))
    assert "worker 0" in ray.get(ps.get_stats.remote())["last_error"]
    assert ray.get(ps.sync_from_workers.remote(workers, on_dead="skip")) == 1
    for model in weights_of(ray, workers[1:]):
        assert (model[0] == (2 if name == "average" else 1)).all()


def test_a_caller_that_dies_midway_leaves_no_half_of_a_sync(ray, hire):
    @ray.remote(max_retries=0)
    def sync_and_die(ps, workers):
        ps.sync_from_workers.remote(workers)
        os.kill(os.getpid(), signal.SIGKILL)
    workers, ps = hire(*rows(0, 4)), create_parameter_server("average")
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(sync_and_die.remote(ps, workers))
    version = ray.get(ps.get_stats.remote())["version"]
    model = ray.get(ps.pull_weights.remote())
    assert (version, model) == (0, None) or (version == 1 and (model[0] == 2).all())
    assert ray.get(ps.sync_from_workers.remote(workers)) == version + 1
    assert all((each[0] == 2).all() for each in weights_of(ray, workers))


def test_local_mode(run_program):
    done = run_program("""
        import numpy as np, miniray
        from miniray.ps import create_parameter_server

        @miniray.remote
        class Worker:
            def __init__(self, value):
                self.weights = {"w": np.full(3, value)}
            def get_weights(self):
                return self.weights
            def set_weights(self, weights):
                self.weights = weights

        miniray.init(local_mode=True)
        ps, workers = create_parameter_server("momentum", momentum=0.5), [Worker.remote(value) for value in (1.0, 3.0)]
        print(miniray.get(ps.pull_weights.remote()), miniray.get(ps.sync_from_workers.remote(workers)))
        print(miniray.get(workers[0].get_weights.remote()), miniray.get(ps.get_stats.remote())["strategy"])
    """)
    assert done.stdout.splitlines() == ["None 1", "{'w': array([2., 2., 2.])} MomentumStrategy"]
