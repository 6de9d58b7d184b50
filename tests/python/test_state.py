"""util.state: lists of actors, tasks, objects and workers, in the form of Ray's state API."""

import os
import threading
import time

import pytest

from miniray.util.state import (get_actor, get_node, get_objects, get_placement_group, get_task, get_worker, list_actors,
                                list_jobs, list_nodes, list_objects, list_placement_groups, list_tasks, list_workers,
                                summarize_actors, summarize_objects, summarize_tasks)


@pytest.fixture
def Named(ray):
    @ray.remote
    class Named:
        def pid(self):
            return os.getpid()

        def wait(self):
            threading.Event().wait()
    return Named


def until(found):
    """The result of the call, once it is not empty."""
    end = time.monotonic() + 60
    while not (result := found()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return result


def test_an_actor_is_listed_with_its_facts(ray, Named):
    actor = Named.options(name="listed").remote()
    pid = ray.get(actor.pid.remote())
    state = get_actor(actor._actor_id.hex())
    assert (state.class_name, state["name"], state.state, state.pid) == ("Named", "listed", "ALIVE", pid)
    assert state in list_actors(filters=[("name", "=", "listed")])
    assert state.node_id == ray.get_runtime_context().get_node_id()
    assert state.ray_namespace == ray.get_runtime_context().namespace
    ray.kill(actor)


def test_an_actor_that_was_killed_is_dead(ray, Named):
    actor = Named.remote()
    ray.get(actor.pid.remote())
    ray.kill(actor)
    assert until(lambda: get_actor(actor._actor_id.hex()).state == "DEAD")


def test_filters_keep_and_leave_out(ray, Named):
    actors = [Named.options(name=name).remote() for name in ("one", "two")]
    ray.get([actor.pid.remote() for actor in actors])
    assert [each.name for each in list_actors(filters=[("name", "=", "one"), ("state", "=", "alive")])] == ["one"]
    assert "one" not in [each.name for each in list_actors(filters=[("name", "!=", "one")])]
    with pytest.raises(ValueError, match="unknown field of a filter 'stat'; .*; did you mean state?"):
        list_actors(filters=[("stat", "=", "ALIVE")])
    with pytest.raises(TypeError, match="unexpected keyword argument 'filter'"):
        list_actors(filter=[("state", "=", "ALIVE")])
    with pytest.raises(ValueError, match="a filter is .*, not .'name', '<', 'one'"):
        list_actors(filters=[("name", "<", "one")])
    assert len(list_actors(limit=1)) == 1


def test_a_task_that_runs_and_those_that_wait(ray):
    @ray.remote
    def blocked(*args):
        threading.Event().wait()
    first = blocked.remote()
    behind = blocked.remote(first)
    until(lambda: get_task(first).state == "RUNNING")
    state = get_task(first.task_id().hex())
    assert (state.name, state.type, state.required_resources) == ("blocked", "NORMAL_TASK", {"CPU": 1.0})
    assert state.worker_pid in [worker.pid for worker in list_workers()]
    assert get_task(behind).state == "PENDING_ARGS_AVAIL"
    assert summarize_tasks()["cluster"]["summary"]["blocked"]["state_counts"]["RUNNING"] == 1
    for ref in (behind, first):
        ray.cancel(ref, force=True)


def test_tasks_that_are_over_are_listed(ray):
    @ray.remote
    def done():
        return 1

    @ray.remote
    def failed():
        raise ValueError
    ray.get([done.remote() for _ in range(3)])
    with pytest.raises(ValueError):
        ray.get(failed.remote())
    until(lambda: len(list_tasks(filters=[("name", "=", "done"), ("state", "=", "FINISHED")], limit=1000)) == 3)
    state, = until(lambda: list_tasks(filters=[("name", "=", "failed"), ("state", "=", "FAILED")], limit=1000))
    assert state.error_type == "TASK_FAILED" and state.end_time_ms >= state.start_time_ms


def test_a_call_of_an_actor_is_a_task(ray, Named):
    actor = Named.remote()
    call = actor.wait.remote()
    until(lambda: get_task(call).state == "RUNNING")
    state = get_task(call)
    assert (state.type, state.name, state.actor_id) == ("ACTOR_TASK", "Named.wait", actor._actor_id.hex())
    assert [each.state for each in list_tasks(limit=1000) if each.name == "Named.wait"] == ["RUNNING"]
    ray.kill(actor)


def test_an_object_is_listed_with_its_size(ray):
    ref = ray.put(b"x" * 300_000)
    state, = get_objects(ref.hex())
    assert state.object_size >= 300_000 and state.pid == os.getpid() and state.type == "DRIVER"
    assert state in list_objects()
    assert summarize_objects()["cluster"]["total_size_mb"] > 0.25


def test_nodes_workers_and_jobs_are_listed(ray):
    node, = list_nodes()
    assert node.state == "ALIVE" and node.is_head_node and node.resources_total["CPU"] == 2.0
    assert get_node(node.node_id) == node and get_node("none") is None
    drivers = list_workers(filters=[("worker_type", "=", "DRIVER")])
    assert [driver.pid for driver in drivers] == [os.getpid()]
    assert get_worker(drivers[0].worker_id).is_alive
    assert [job.job_id for job in list_jobs()] == [ray.get_runtime_context().get_job_id()]


def test_placement_groups_are_listed(ray):
    group = ray.util.placement_group([{"CPU": 1}], name="listed group")
    assert group.wait(60)
    state = get_placement_group(group.id.hex())
    assert (state.name, state.state) == ("listed group", "CREATED")
    assert state in list_placement_groups()
    ray.util.remove_placement_group(group)


def test_actors_are_counted_by_class(ray, Named):
    actor = Named.options(name="counted").remote()
    ray.get(actor.pid.remote())
    summary = summarize_actors()["cluster"]
    assert summary["summary"]["Named"]["state_counts"]["ALIVE"] >= 1
    assert summary["total_actors"] >= 1


def test_a_state_is_a_mapping_with_attributes(ray):
    node, = list_nodes()
    assert node["node_id"] == node.node_id and dict(node) == node.asdict()
    with pytest.raises(AttributeError, match="no_such_field"):
        node.no_such_field
