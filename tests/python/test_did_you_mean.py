"""The error for a mistyped name names the name that was meant."""

import pytest

import miniray
from miniray import ps
from miniray.ps import create_parameter_server
from miniray.train import DataParallelTrainer
from miniray.util.placement_group import placement_group


@pytest.fixture(scope="module")
def named(ray):
    @ray.remote
    class Counter:
        def increment(self):
            pass
    counter = Counter.options(name="counter").remote()
    ray.get(counter.increment.remote())
    return counter


@pytest.fixture(scope="module")
def connection():
    with ps.start(num_servers=1, actors=False) as deployment, deployment.connect() as connection:
        yield connection


def assert_means(kind, name, call):
    with pytest.raises(kind) as caught:
        call()
    assert f"; did you mean {name}?" in str(caught.value)


@pytest.mark.parametrize("options, name", [
    ({"num_cpu": 1}, "num_cpus"), ({"cpus": 1}, "num_cpus"), ({"max_retry": 1}, "max_retries"), ({"num_return": 2}, "num_returns"),
    ({"scheduling_strategy": "SPRED"}, "SPREAD"), ({"scheduling_strategy": "spread"}, "SPREAD")])
def test_options_of_functions(options, name):
    @miniray.remote
    def f():
        pass
    assert_means(ValueError, name, lambda: f.options(**options))
    assert_means(ValueError, name, lambda: miniray.remote(**options)(lambda: None))


def test_options_of_actors_and_methods(ray, named):
    class Plain:
        pass
    assert_means(ValueError, "max_restarts", lambda: ray.remote(max_restart=1)(Plain))
    assert_means(ValueError, "num_returns", lambda: named.increment.options(num_return=2))


def test_an_option_that_is_like_none_lists_all():
    with pytest.raises(ValueError) as caught:
        miniray.remote(banana=1)(lambda: None)
    assert "did you mean" not in str(caught.value) and "num_cpus, num_gpus" in str(caught.value)


def test_actors_and_methods(ray, named):
    assert_means(ValueError, "counter", lambda: ray.get_actor("countr"))
    assert_means(AttributeError, "increment", lambda: named.incremnt)
    assert_means(AttributeError, "increment", lambda: ray.get_actor("counter").incremnt)
    with pytest.raises(ValueError) as caught:
        ray.get_actor("banana")
    assert "did you mean" not in str(caught.value)


def test_functions_of_the_package():
    assert_means(AttributeError, "get_actor", lambda: miniray.get_actr)
    assert_means(TypeError, "num_workers", lambda: miniray.init(num_worker=2))


def test_placement_strategies(ray):
    assert_means(ValueError, "STRICT_PACK", lambda: placement_group([{"CPU": 1}], strategy="STRICTPACK"))
    assert_means(TypeError, "strategy", lambda: placement_group([{"CPU": 1}], stratgy="PACK"))


def test_sync_strategies_and_their_options():
    assert_means(ValueError, "average", lambda: create_parameter_server("avarage"))
    assert_means(TypeError, "momentum", lambda: create_parameter_server("momentum", momntum=0.5))


def test_trainers():
    class Own(ps.SyncStrategy):
        def aggregate(self, lists):
            return lists[0]
    assert_means(TypeError, "num_workers", lambda: DataParallelTrainer(num_worker=2))
    assert_means(TypeError, "num_workers", lambda: DataParallelTrainer(num_worker=2, sync_strategy=Own()))
    assert_means(TypeError, "num_workers", lambda: DataParallelTrainer(init={"num_worker": 2}))
    assert_means(ValueError, "weighted", lambda: DataParallelTrainer(sync_strategy="wieghted"))


def test_tables(connection):
    table = connection.table("weights", arrays={"bias": 3})
    assert_means(ps.errors.TableNotFoundError, "weights", lambda: connection.table("weigths"))
    assert_means(KeyError, "bias", lambda: table.pull(["bais"]))


@pytest.mark.parametrize("options, kind, name", [
    ({"optimizer": "adm"}, ValueError, "adam"), ({"optimizer": "SGD"}, ValueError, "sgd"), ({"optimiser": "sgd"}, TypeError, "optimizer"),
    ({"compression": "in8"}, ValueError, "int8"), ({"optimizer": "sgd", "lr": 0.1, "schedule": "cosin:9"}, ValueError, "cosine")])
def test_options_of_tables(connection, options, kind, name):
    assert_means(kind, name, lambda: connection.table("wrong", dim=1, **options))


def test_keyword_arguments(ray, named):
    @ray.remote
    def f(first=1, second=2):
        pass
    assert_means(TypeError, "timeout", lambda: ray.get(f.remote(), timout=1))
    assert_means(TypeError, "num_returns", lambda: ray.wait([f.remote()], num_return=1))
    assert_means(TypeError, "second", lambda: f.remote(secnd=3))
    assert_means(TypeError, "no_restart", lambda: ray.kill(named, no_restrt=True))
    assert_means(TypeError, "worker_class", lambda: DataParallelTrainer(worker_clas=f))


def test_attributes(connection):
    table = connection.table("attributes", dim=1)
    for name, meant, value in (("tabel", "table", connection), ("psh", "push", table)):
        with pytest.raises(AttributeError, match=f"; did you mean {meant}"):
            getattr(value, name)


@pytest.mark.parametrize("call, name", [
    (lambda ray: miniray.util.collective.init_collective_group(1, 0, "glo"), "GLOO"),
    (lambda ray: create_parameter_server().sync_from_workers.remote([1], on_dead="skp"), "skip"),
    (lambda ray: DataParallelTrainer(display="quite"), "quiet"),
    (lambda ray: ray.remote(num_returns="stream")(print), "streaming"),
    (lambda ray: ray.remote(lifetime="detach")(type("A", (), {})), "detached"),
    (lambda ray: ray.remote(runtime_env={"env_var": {}})(print), "env_vars"),
    (lambda ray: ps.start(num_servers=1, consistency="bps"), "bsp")])
def test_values_of_options(ray, call, name):
    assert_means(ValueError, name, lambda: call(ray))


def test_start():
    assert_means(TypeError, "num_servers", lambda: ps.start(num_server=1))
