"""miniray.ps with NumPy models: results and order of syncs, with weights of any shape and any strategy."""

import collections

import numpy as np
import pytest

from miniray.ps import STRATEGIES, ParameterServer, create_parameter_server, strategies
from syncing import NAMES, blend, hire, mine, rows, weights_of  # noqa: F401  fixtures


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
    """No sync is waited for until the end; any other order gives another number."""
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
    """The worker's weights may differ each time: there are more models than it has places for copies."""
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
    """A bias that is a plain float is averaged, not taken silently from the first worker."""
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


def test_a_generator(ray):
    @ray.remote
    class Odd:
        def __init__(self, value):
            self.value = value

        def get_weights(self):
            return (np.full(size, self.value) for size in (2, 3))

        def set_weights(self, weights):
            self.got = weights

        def seen(self):
            return self.got
    workers, ps = [Odd.remote(value) for value in (1.0, 3.0)], create_parameter_server()
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    got = ray.get(workers[0].seen.remote())
    assert type(got) is list and (got[1] == 2).all()


Layer = collections.namedtuple("Layer", "weight, bias")


class Named(dict):
    """Has more attributes than its items."""

    epoch = 0


class Row(list):
    pass


class Odd(tuple):
    """Cannot be created from items alone."""

    def __new__(cls, items, wanted):
        return super().__new__(cls, items)

    def __getnewargs__(self):
        return tuple(self), None


def named(value):
    made = Named(w=np.full(3, value), b=value)
    made.epoch = 7
    return made


def layer(value):
    return Layer(np.full((2, 2), value), np.full(2, value))


@pytest.mark.parametrize("make", [
    layer, named, lambda value: collections.OrderedDict(w=np.full(3, value), b=np.full(2, value)),
    lambda value: [layer(value), Row([np.full(3, value), value])], lambda value: {"G": (layer(value),), "D": named(value)},
    lambda value: collections.defaultdict(list, D=collections.OrderedDict(w=np.full(3, value)), G=[layer(value)]),
    lambda value: Layer(value, collections.OrderedDict(w=layer(value)))])
@pytest.mark.parametrize("name", ["average", "mine"])
def test_types_of_ones_own_come_back(ray, hire, mine, name, make):
    workers, ps = hire(make(2.0), make(6.0)), create_parameter_server(name)
    for version in (1, 2):
        assert ray.get(ps.sync_from_workers.remote(workers)) == version
        for got in weights_of(ray, workers):
            same_kind(got, make(4.0 if name == "average" else 2.0))


def same_kind(got, expected):
    assert type(got) is type(expected) and getattr(got, "epoch", 0) == getattr(expected, "epoch", 0)
    assert getattr(got, "default_factory", None) is getattr(expected, "default_factory", None)
    if isinstance(expected, dict):
        assert list(got) == list(expected)
        for key, item in expected.items():
            same_kind(got[key], item)
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for item, wanted in zip(got, expected):
            same_kind(item, wanted)
    else:
        np.testing.assert_array_equal(got, expected)


def test_a_type_that_cannot_be_made_again_comes_back_plain(ray, hire):
    workers, ps = hire(Odd([np.ones(3)], None), Odd([np.full(3, 3.0)], None)), create_parameter_server()
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    assert [type(got) for got in weights_of(ray, workers)] == [tuple, tuple]


def test_each_worker_has_its_own_types(ray, hire):
    """Weights keep the order of the first worker's model."""
    workers = hire(layer(1.0), tuple(layer(3.0)), list(layer(5.0)))
    assert ray.get(create_parameter_server().sync_from_workers.remote(workers)) == 1
    assert [type(got) for got in weights_of(ray, workers)] == [Layer, tuple, tuple]
    ray.get(workers[0].set_weights.remote([np.ones((2, 2)), np.ones(2)]))  # a list from now on
    assert ray.get(create_parameter_server().sync_from_workers.remote(workers)) == 1
    assert type(weights_of(ray, workers)[0]) is list


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


def test_the_other_order_of_bytes(ray, hire):
    workers, ps = hire([np.full(3, 2, ">f4")], [np.full(3, 4, ">f4")]), create_parameter_server()
    ray.get(ps.sync_from_workers.remote(workers))
    assert ray.get(ps.pull_weights.remote())[0].tolist() == [3, 3, 3]


# ---- Strategies.


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


def test_a_strategy_of_the_users_own(ray, hire, mine):
    ps, workers = create_parameter_server("mine"), hire(*rows(1, 5))
    ps.set_worker_weight.remote(1, 10)
    assert ray.get(ps.pull_weights.remote()) is None
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    assert (weights_of(ray, workers)[1][0] == 11).all()
    stats = ray.get(ps.get_stats.remote())
    assert stats["strategy"] == "Mine" and stats["version"] == 1 and stats["bytes"] == 200 * 200 * 4 + 3 * 8
    assert ray.get(ps.push_weights.remote(rows(0)[0])) == 2


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
    """Derived from nothing."""

    def aggregate(self, weight_lists):
        return weight_lists[-1]


@pytest.mark.parametrize("given, options, expected, name",
                         [(blend, {}, 2, "blend"), (blend, {"share": 0.25}, 2.5, "blend"), (Last, {}, 3, "Last"),
                          (Last(), {}, 3, "Last"), (lambda: Last(), {}, 3, "Last"), ("blend", {"share": 0}, 3, "blend")])
def test_functions_and_whatever_aggregates_are_strategies(ray, hire, monkeypatch, given, options, expected, name):
    monkeypatch.setitem(STRATEGIES, "blend", blend)
    workers, ps = hire(*rows(1, 3)), create_parameter_server(given, **options)
    ray.get(ps.sync_from_workers.remote(workers))
    assert (weights_of(ray, workers)[0][0] == expected).all() and ray.get(ps.get_stats.remote())["strategy"] == name


def test_what_has_no_dimensions_stays_an_array(ray, hire, mine):
    """In NumPy, the mean of such arrays is a number."""
    workers = hire([np.array(1.0), 1.0], [np.array(3.0), 3.0])
    ray.get(create_parameter_server(lambda lists: [np.mean(each) for each in zip(*lists)]).sync_from_workers.remote(workers))
    array, number = weights_of(ray, workers)[1]
    assert isinstance(array, np.ndarray) and array.shape == () and array == 2 and type(number) is float and number == 2


# ---- In one process.


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
        miniray.kill(workers[0])
        print(miniray.get(ps.sync_from_workers.remote(workers, on_dead="skip")))
        try:
            miniray.get(ps.sync_from_workers.remote(workers))
        except miniray.exceptions.ActorDiedError:
            print("dead")
    """)
    assert done.stdout.splitlines() == ["None 1", "{'w': array([2., 2., 2.])} MomentumStrategy", "2", "dead"]
