"""Helpers of tests that were written for Ray: signals, conditions, and modules by Ray's names."""

import asyncio
import os
import subprocess

import pytest

from miniray._common import test_utils as common
from miniray._private.test_utils import (Semaphore, SignalActor, async_wait_for_condition, run_string_as_driver,
                                         run_string_as_driver_nonblocking, wait_for_condition, wait_for_pid_to_exit)


def test_those_who_wait_for_a_signal_go_on_when_it_is_sent(ray):
    signal = SignalActor.remote()
    waits = [signal.wait.remote() for _ in range(2)]
    wait_for_condition(lambda: ray.get(signal.cur_num_waiters.remote()) == 2, timeout=60)
    assert ray.wait(waits, timeout=0)[0] == []
    ray.get(signal.send.remote())
    assert ray.get([*waits, signal.wait.remote(should_wait=False)]) == [None] * 3
    assert common.SignalActor is SignalActor


def test_a_semaphore_lets_so_many_in(ray):
    semaphore = Semaphore.remote(value=1)
    ray.get(semaphore.acquire.remote())
    second = semaphore.acquire.remote()
    assert ray.get(semaphore.locked.remote()) and not ray.wait([second], timeout=0)[0]
    semaphore.release.remote()
    ray.get(second)


def test_a_condition_that_is_never_met_is_an_error():
    with pytest.raises(RuntimeError, match="wasn't met before the timeout"):
        wait_for_condition(lambda: False, timeout=0.01, retry_interval_ms=1)
    with pytest.raises(RuntimeError, match="wasn't met before the timeout"):
        asyncio.run(async_wait_for_condition(lambda: 1 / 0, timeout=0.01, retry_interval_ms=1))
    with pytest.raises(ZeroDivisionError):
        wait_for_condition(lambda: 1 / 0, raise_exceptions=True)


def test_a_condition_may_be_a_coroutine_and_take_arguments():
    async def met(x):
        return x
    asyncio.run(async_wait_for_condition(met, x=True))
    wait_for_condition(lambda x: x, x=True)


def test_the_end_of_a_process_is_waited_for(ray):
    @ray.remote
    class Actor:
        def pid(self):
            return os.getpid()
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    ray.kill(actor)
    wait_for_pid_to_exit(pid, timeout=60)


def test_a_program_as_text_is_run():
    assert run_string_as_driver("import miniray\nprint(miniray.is_initialized())") == "False\n"
    with pytest.raises(subprocess.CalledProcessError):
        run_string_as_driver("raise SystemExit(3)")
    begun = run_string_as_driver_nonblocking("import sys\nprint(1)\nprint(2, file=sys.stderr)\nraise SystemExit(3)")
    assert (begun.stdout.read(), begun.stderr.read(), begun.wait(60)) == (b"1\n", b"2\n", 3)


def test_a_runtime_env_is_an_object_too(ray):
    from miniray.runtime_env import RuntimeEnv
    read = ray.remote(lambda: os.environ.get("RUNTIME_ENV_TEST"))
    given = RuntimeEnv(env_vars={"RUNTIME_ENV_TEST": "there"}, working_dir=None)
    assert ray.get(read.options(runtime_env=given).remote()) == "there"
    assert given.to_dict() == {"env_vars": {"RUNTIME_ENV_TEST": "there"}}
    with pytest.raises(ValueError, match="pip"):
        RuntimeEnv(pip=["anything"])


def test_modules_are_there_without_being_imported(ray):
    strategies = ray.util.scheduling_strategies
    here = strategies.NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    labels = strategies.NodeLabelSchedulingStrategy(hard={"zone": strategies.In("a", "b")},
                                                    soft={"gpu": strategies.Exists()})
    for strategy in (here, labels, "SPREAD", "DEFAULT"):
        assert ray.get(ray.remote(lambda: 1).options(scheduling_strategy=strategy).remote()) == 1
    assert ray.util.accelerators.NVIDIA_TESLA_V100 == "V100"
    assert ray.internal.free([ray.put(1)]) is None
    with pytest.raises(AttributeError, match="no_such_module"):
        ray.util.no_such_module


def test_the_table_tells_the_strategy_of_a_group(ray):
    for strategy in ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"):
        group = ray.util.placement_group([{"CPU": 0.5}], strategy=strategy)
        assert group.wait(60)
        facts = ray.util.placement_group_table(group)
        assert (facts["strategy"], facts["state"]) == (strategy, "CREATED")
        assert facts["bundles_to_node_id"] == {0: ray.get_runtime_context().get_node_id()}
        ray.util.remove_placement_group(group)


def test_what_few_programs_name_is_there(ray):
    assert ray.util.log_once("a key of this test") and not ray.util.log_once("a key of this test")
    assert ray.LoggingConfig(encoding="JSON").encoding == "JSON"
    with pytest.raises(ValueError, match="Invalid encoding"):
        ray.LoggingConfig(encoding="XML")
    assert issubclass(ray.exceptions.RayChannelTimeoutError, TimeoutError)
    assert issubclass(ray.exceptions.ObjectReconstructionFailedLineageEvictedError, ray.exceptions.ObjectLostError)


def test_annotations_name_what_comes_back(ray):
    from miniray.actor import ActorClass, ActorHandle, ActorProxy
    from miniray.remote_function import RemoteFunction
    from miniray.types import ObjectRef

    class Counter:
        pass

    @ray.remote
    def f(handle: ActorHandle[Counter], cls: ActorClass[Counter], ref: ObjectRef[int]) -> ActorProxy[Counter]:
        return 1
    assert isinstance(f, RemoteFunction) and ray.get(f.remote(None, None, None)) == 1


def test_an_actor_that_is_not_found_is_named(ray):
    with pytest.raises(ValueError, match="Failed to look up actor with name 'nobody'"):
        ray.get_actor("nobody")


def test_more_that_tests_import(ray):
    from miniray._common import test_utils

    @ray.remote
    class Actor:
        def pid(self):
            return os.getpid()

    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    test_utils.kill_actor_and_wait_for_failure(actor)
    assert not os.path.exists(f"/proc/{pid}")
    assert test_utils.dicts_equal({"CPU": 1.0}, {"CPU": 1.00001})
    assert not test_utils.dicts_equal({"CPU": 1.0}, {"GPU": 1.0})
    assert not test_utils.client_test_enabled()


def test_the_old_name_of_state(ray):
    from miniray.experimental.state.api import list_actors
    import miniray.experimental.state.api as api
    assert list_actors is ray.util.state.list_actors and ray.experimental.state.api is api is ray.util.state


def test_names_of_rays_inner_module(ray):
    from miniray._raylet import ObjectRef, ObjectRefGenerator, StreamingObjectRefGenerator
    assert ObjectRef is ray.ObjectRef and StreamingObjectRefGenerator is ObjectRefGenerator is ray.ObjectRefGenerator
