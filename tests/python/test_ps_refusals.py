"""miniray.ps with NumPy models: syncs that are refused; errors keep their type and are never silent."""

import os
import signal
import warnings

import numpy as np
import pytest

from miniray.ps import ParameterServer, SyncStrategy, create_parameter_server
from syncing import NAMES, blend, hire, mine, rows, weights_of  # noqa: F401  fixtures


def test_syncs_that_fail_leave_no_trace(ray, hire):
    """Models that workers export for a sync that is never aggregated stay exported; later models are sent in
    messages."""
    workers, ps = hire(*rows(0, 10, 20)), create_parameter_server()
    os.kill(ray.get(workers[2].pid.remote()), signal.SIGKILL)
    for _ in range(12):
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(ps.sync_from_workers.remote(workers))
    for version in range(1, 4):
        assert ray.get(ps.sync_from_workers.remote(workers[:2])) == version
        assert all((array == 5).all() for weights in weights_of(ray, workers[:2]) for array in weights)


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


def test_unknown_names_list_the_known(ray):
    with pytest.raises(ValueError) as caught:
        create_parameter_server("mean")
    assert all(name in str(caught.value) for name in NAMES)
    with pytest.raises(TypeError, match="AverageStrategy takes no momentum; it takes no options$"):
        create_parameter_server("average", momentum=0.5)
    with pytest.raises(TypeError, match="MomentumStrategy takes no mometum; did you mean momentum"):
        create_parameter_server("momentum", mometum=0.5)
    with pytest.raises(ValueError):
        create_parameter_server("momentum", momentum=1.0)
    with pytest.raises(NotImplementedError):
        SyncStrategy().aggregate([])


def test_a_function_says_what_it_takes(ray):
    with pytest.raises(TypeError, match="blend takes no part; it takes weight_lists, share"):
        create_parameter_server(blend, part=1)


@pytest.mark.parametrize("result, kind, text", [
    (None, TypeError, "should return a list of tensors, not NoneType"),
    ({"a": np.ones(3)}, TypeError, "should return a list of tensors, not dict"),
    ([], ValueError, "returned 0 tensors, not 1"),
    ([[1.0, 2.0]], TypeError, "tensor 0 that .*aggregate returned is a list"),
    ([np.ones(1)], ValueError, r"tensor 0 .* has the shape \[1\].*\[2, 3\]"),
    ([5.0], ValueError, r"tensor 0 .* has the shape \[\].*\[2, 3\]")])
def test_what_a_strategy_should_not_return(ray, hire, result, kind, text):
    class Wrong(SyncStrategy):
        def aggregate(self, weight_lists):
            return result
    for strategy in (Wrong, lambda lists: result):
        with pytest.raises(kind, match=text):
            ray.get(create_parameter_server(strategy).sync_from_workers.remote(hire([np.ones((2, 3))])))


def test_a_weight_without_effect_warns(ray):
    ps = create_parameter_server("average")
    with pytest.warns(UserWarning, match="AverageStrategy"):
        assert ray.get(ps.set_worker_weight.remote(0, 2)) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        create_parameter_server("weighted").set_worker_weight.remote(0, 2)


@pytest.mark.parametrize("name", ["average", "mine"])
def test_errors_are_never_silent(ray, hire, name, mine, capfd):
    workers, ps = hire(*rows(1, 3)), create_parameter_server(name)
    workers[1].fail.remote(KeyError("lost"))
    with pytest.raises(KeyError) as caught:  # get() raises the error, with its type
        ray.get(ps.sync_from_workers.remote(workers))
    assert caught.value.__notes__ == ["in worker 1 of the sync"]
    workers[1].fail.remote(None)
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1  # and only once

    workers[1].fail.remote(KeyError("lost"))
    ps.sync_from_workers.remote(workers)  # the future is dropped
    workers[1].fail.remote(None)
    assert "lost" in ray.get(ps.get_stats.remote())["last_error"]
    with pytest.raises(KeyError):
        ray.get(ps.sync_from_workers.remote(workers))
    assert ray.get(ps.sync_from_workers.remote(workers)) == 2
    assert capfd.readouterr().err.count("its result was released without a get") == 1

    workers[1].fail.remote(KeyError("lost"))
    ps.sync_from_workers.remote(workers)
    workers[1].fail.remote(None)
    with pytest.raises(KeyError):
        ray.get(ps.pull_weights.remote())
    assert ray.get(ps.pull_weights.remote()) is not None


class Lost(Exception):
    where = None


@pytest.mark.parametrize("name", ["average", "mine"])
@pytest.mark.parametrize("on_dead", ["raise", "skip"])
@pytest.mark.parametrize("method", ["get_weights", "set_weights"])
def test_what_a_worker_raises_keeps_its_type(ray, hire, mine, name, on_dead, method):
    """Also if dead workers are skipped, and beside a dead worker."""
    workers, ps = hire(*rows(1, 3, 5)), create_parameter_server(name)
    if on_dead == "skip":
        ray.kill(workers[0])
    error = Lost("a key " * 100 + "is lost")
    error.where = "cellar"
    workers[1].fail.remote(error, method)
    with pytest.raises(Lost) as caught:
        ray.get(ps.sync_from_workers.remote(workers, on_dead=on_dead))
    assert isinstance(caught.value, ray.exceptions.RayTaskError)
    assert caught.value.cause.where == "cellar" and caught.value.__notes__ == ["in worker 1 of the sync"]
    assert "Traceback" in str(caught.value) and f"in {method}" in str(caught.value)
    told = ray.get(ps.get_stats.remote())["last_error"]
    assert "Lost" in told and "worker 1" in told and f"in {method}" in told and told.rstrip().endswith("is lost")
    workers[1].fail.remote(None)
    assert ray.get(ps.sync_from_workers.remote(workers, on_dead=on_dead)) == 1


def test_a_death_is_owed_also_to_who_skips_the_dead(ray, hire):
    workers, ps = hire(*rows(1, 3)), create_parameter_server("average")
    ray.kill(workers[0])
    ps.sync_from_workers.remote(workers)  # the future is dropped
    ray.get(ps.get_stats.remote())
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(ps.sync_from_workers.remote(workers, on_dead="skip"))
    assert ray.get(ps.sync_from_workers.remote(workers, on_dead="skip")) == 1
    ray.kill(workers[1])
    with pytest.raises(ray.exceptions.ActorDiedError, match="no worker is alive \(0 of 2\)"):
        ray.get(ps.sync_from_workers.remote(workers, on_dead="skip"))


def test_a_failure_that_was_looked_at_is_not_printed(ray, hire, capfd):
    workers, ps = hire(*rows(1, 3, 5)), create_parameter_server("average")
    ray.get([worker.pid.remote() for worker in workers])
    capfd.readouterr()
    for worker in workers[1:]:
        ray.kill(worker)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(ps.sync_from_workers.remote(workers))
    ray.get(ps.get_stats.remote())
    assert "released without a get" not in capfd.readouterr().err


def weighed(run_program, workers, rounds):
    """The output of a program that syncs `count` workers; before each round it sets the weights of (worker, weight)."""
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
    assert printed.count("weights are set for only 1 of 3 workers; the others have weight 1") == 1


def test_a_weight_of_nobody_is_warned_of(run_program):
    printed = weighed(run_program, 2, [[(2, 5)], []])
    assert printed.count("a weight is set for worker 2, but there are only 2 workers") == 1


class Module:
    """Has tensors, but is no tensor."""


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
    with pytest.raises(ray.exceptions.RayActorError, match=r"^worker 0 died, because .*killed by signal 9"):
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


@pytest.mark.parametrize("name", ["average", "mine"])
def test_an_error_begins_with_the_worker_or_the_tensor(ray, hire, mine, name, capfd):
    def texts(workers):
        """The error of a sync, of the next pull after a sync whose future was dropped, and the kept text."""
        ps = create_parameter_server(name)
        with pytest.raises(Exception) as first:
            ray.get(ps.sync_from_workers.remote(workers))
        ps.sync_from_workers.remote(workers)
        kept = ray.get(ps.get_stats.remote())["last_error"]
        with pytest.raises(Exception) as second:
            ray.get(ps.pull_weights.remote())
        return str(first.value), str(second.value), kept
    wrong = "tensor 0 of worker 1 is float64[4], that of worker 0 is float64[3]"
    assert texts(hire([np.ones(3)], [np.ones(4)])) == (wrong,) * 3
    workers = hire(*rows(1, 3))
    workers[1].fail.remote(KeyError("lost"))
    for text in texts(workers):
        assert text.startswith("worker 1: ") and "lost" in text and "publish" not in text and "__ray_" not in text
    printed = capfd.readouterr().err
    assert printed.count("its result was released without a get: ") == 2  # each once
    assert f"without a get: {wrong}" in printed and "without a get: worker 1 failed in get_weights, because KeyError" in printed
    assert printed.count("Traceback") == 1 and "__ray_" not in printed
