"""Placement groups: resources that are reserved together."""

import os
import time

import pytest

import miniray
from miniray.util import (get_current_placement_group, get_placement_group, placement_group, placement_group_table,
                          remove_placement_group)
from miniray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy


@pytest.fixture(scope="module")
def ray():
    miniray.shutdown()
    miniray.init(num_workers=4, resources={"slot": 2})
    yield miniray
    miniray.shutdown()


@pytest.fixture
def group():
    """Creates placement groups, and removes them afterwards."""
    made = []

    def make(*args, **kwargs):
        made.append(placement_group(*args, **kwargs))
        return made[-1]
    yield make
    for each in made:
        remove_placement_group(each)


def within(group, index=-1, **options):
    return {"scheduling_strategy": PlacementGroupSchedulingStrategy(group, index), **options}


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)


def test_ready_and_wait(ray, group):
    made = group([{"CPU": 1}, {"CPU": 1}])
    assert made.wait(60) and ray.get(made.ready(), timeout=60) == made
    assert made.bundle_specs == [{"CPU": 1.0}, {"CPU": 1.0}] and made.bundle_count == 2


def test_what_is_set_aside_is_not_free(ray, group):
    made = group([{"slot": 1}, {"slot": 1}])
    assert made.wait(60)
    assert "slot" not in ray.available_resources()
    remove_placement_group(made)
    until(lambda: ray.available_resources().get("slot") == 2.0)


def test_a_task_in_a_group(ray, group):
    made = group([{"slot": 2}])

    @ray.remote(num_cpus=0, resources={"slot": 1})
    def task():
        return os.getpid()
    assert ray.get(task.options(**within(made)).remote(), timeout=60) > 0
    assert ray.get(task.options(**within(made, 0)).remote(), timeout=60) > 0


def test_others_wait_until_it_is_removed(ray, group):
    made = group([{"slot": 2}])
    assert made.wait(60)

    @ray.remote(num_cpus=0, resources={"slot": 1})
    def task():
        return 1
    outside = task.remote()
    assert ray.wait([outside], timeout=0.2)[0] == []
    assert ray.get(task.options(**within(made)).remote(), timeout=60) == 1
    remove_placement_group(made)
    assert ray.get(outside, timeout=60) == 1


def test_actors_in_a_group(ray, group):
    made = group([{"CPU": 1}, {"CPU": 1}])

    @ray.remote(num_cpus=1)
    class Worker:
        def get(self):
            return 1
    workers = [Worker.options(**within(made, index)).remote() for index in range(2)]
    assert ray.get([worker.get.remote() for worker in workers], timeout=60) == [1, 1]
    third = Worker.options(**within(made, 0)).remote()
    assert ray.wait([third.get.remote()], timeout=0.2)[0] == []


def test_a_group_that_does_not_fit_waits(ray, group):
    first = group([{"slot": 2}])
    assert first.wait(60)
    second = group([{"slot": 1}])
    assert not second.wait(0.1) and ray.wait([second.ready()], timeout=0.1)[0] == []
    remove_placement_group(first)
    assert second.wait(60)


def test_all_or_none(ray, group):
    made = group([{"slot": 1}, {"slot": 1}, {"slot": 1}])
    assert not made.wait(0.1)
    assert ray.available_resources()["slot"] == 2.0


def test_what_runs_in_a_group_that_is_removed_is_ended(ray, group):
    made = group([{"CPU": 2}])

    @ray.remote(num_cpus=1, max_retries=0)
    def sleep():
        time.sleep(60)

    @ray.remote(num_cpus=1)
    class Sleeper:
        def get(self):
            return 1
    task, actor = sleep.options(**within(made)).remote(), Sleeper.options(**within(made)).remote()
    assert ray.get(actor.get.remote(), timeout=60) == 1
    remove_placement_group(made)
    with pytest.raises(ray.exceptions.RayError):
        ray.get(task, timeout=60)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(actor.get.remote(), timeout=60)


def test_a_group_travels(ray, group):
    made = group([{"slot": 1}])

    @ray.remote
    def use(made):
        @ray.remote(num_cpus=0, resources={"slot": 1})
        def inside():
            return 1
        return made, ray.get(inside.options(**within(made)).remote())
    assert ray.get(use.remote(made), timeout=60) == (made, 1)


@pytest.mark.parametrize("bundles", [[], [{}], [{"CPU": 0}], {"CPU": 1}, ["CPU"], [{"CPU": -1}], None])
def test_wrong_bundles(ray, bundles):
    with pytest.raises(ValueError):
        placement_group(bundles)


def test_wrong_options(ray, group):
    with pytest.raises(ValueError, match="PACK"):
        placement_group([{"CPU": 1}], strategy="SOMEHOW")
    with pytest.raises(ValueError, match="lifetime"):
        placement_group([{"CPU": 1}], lifetime="long")
    with pytest.raises(TypeError):
        placement_group([{"CPU": 1}], colour="red")
    with pytest.raises(TypeError):
        remove_placement_group("x")
    made = group([{"CPU": 1}])
    for index in (-2, 1, "0"):
        with pytest.raises(ValueError, match="bundle index"):
            PlacementGroupSchedulingStrategy(made, index)


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK"])
def test_strategies(ray, group, strategy):
    assert group([{"CPU": 1}, {"CPU": 1}], strategy=strategy).wait(60)


def test_strict_spread_needs_machines(ray, group):
    assert group([{"CPU": 1}], strategy="STRICT_SPREAD").wait(60)
    assert not group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD").wait(0.1)


def test_a_group_that_was_removed_is_still_known_by_what_it_was(ray, group):
    made = group([{"CPU": 1}, {"slot": 1}], strategy="SPREAD", name="gone")
    remove_placement_group(made)
    facts = ray.util.placement_group_table(made)
    assert facts == {"placement_group_id": made.id.hex(), "name": "gone", "bundles": {0: {"CPU": 1.0}, 1: {"slot": 1.0}},
                     "bundles_to_node_id": {}, "strategy": "SPREAD", "state": "REMOVED"}


def test_removing_twice(ray, group):
    made = group([{"CPU": 1}])
    remove_placement_group(made)
    remove_placement_group(made)


def test_the_old_way_to_name_a_group(ray, group):
    made = group([{"CPU": 1}])

    @ray.remote(num_cpus=1)
    def task():
        return 1
    assert ray.get(task.options(placement_group=made, placement_group_bundle_index=0).remote(), timeout=60) == 1
    assert ray.get(task.options(placement_group=None).remote(), timeout=60) == 1


def test_affinity_to_the_node(ray):
    @ray.remote
    def task():
        return 1
    strategy = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    assert ray.get(task.options(scheduling_strategy=strategy).remote()) == 1


NOBODY = "ab" * 16


def _task(ray):
    @ray.remote
    def task(x=1):
        return x
    return task


def test_affinity_to_a_node_that_is_not_there(ray):
    task = _task(ray)
    hard, soft = NodeAffinitySchedulingStrategy(NOBODY, False), NodeAffinitySchedulingStrategy(NOBODY, soft=True)
    assert ray.get(task.options(scheduling_strategy=soft).remote(2)) == 2
    refs = [task.options(scheduling_strategy=hard).remote(), *task.options(num_returns=2, scheduling_strategy=hard).remote()]
    for ref in refs:
        with pytest.raises(ray.exceptions.TaskUnschedulableError, match=f"no node {NOBODY}.*soft=False") as caught:
            ray.get(ref, timeout=60)
        assert type(caught.value) is ray.exceptions.TaskUnschedulableError
    with pytest.raises(ray.exceptions.TaskUnschedulableError):  # as the argument of another task
        ray.get(task.remote(refs[0]), timeout=60)
    with pytest.raises(TypeError, match="positional"):
        task.options(scheduling_strategy=soft).remote(1, 2)


def test_affinity_of_what_yields_to_a_node_that_is_not_there(ray):
    @ray.remote(scheduling_strategy=NodeAffinitySchedulingStrategy(NOBODY, False))
    def numbers():
        yield 1
    with pytest.raises(ray.exceptions.TaskUnschedulableError):
        for ref in numbers.remote():
            ray.get(ref, timeout=60)


def test_affinity_of_an_actor_to_a_node_that_is_not_there(ray):
    @ray.remote
    class Counter:
        def __init__(self, start):
            self.value = start

        def read(self):
            return self.value
    nowhere = Counter.options(scheduling_strategy=NodeAffinitySchedulingStrategy(NOBODY, False), max_restarts=2).remote(3)
    for _ in range(2):
        with pytest.raises(ray.exceptions.ActorUnschedulableError, match=f"The actor is not schedulable.*{NOBODY}"):
            ray.get(nowhere.read.remote(), timeout=60)
    anywhere = Counter.options(scheduling_strategy=NodeAffinitySchedulingStrategy(NOBODY, True)).remote(4)
    assert ray.get(anywhere.read.remote(), timeout=60) == 4


def test_affinity_to_a_node_that_has_too_little(ray):
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    with pytest.raises(ray.exceptions.TaskUnschedulableError, match="less unicorn than it needs"):
        ray.get(_task(ray).options(resources={"unicorn": 1}, scheduling_strategy=here).remote(), timeout=60)


def test_what_affinity_may_say(ray):
    NodeAffinitySchedulingStrategy(NOBODY, True, _spill_on_unavailable=True)
    NodeAffinitySchedulingStrategy(NOBODY, False, _fail_on_unavailable=True)
    for soft, wrong in ((False, "_spill_on_unavailable"), (True, "_fail_on_unavailable")):
        with pytest.raises(ValueError, match=wrong):
            NodeAffinitySchedulingStrategy(NOBODY, soft, **{wrong: True})
    with pytest.raises(TypeError):
        NodeAffinitySchedulingStrategy(NOBODY, False, spill=True)


def test_a_group_is_found_by_its_name(ray, group):
    made = group([{"CPU": 1}, {"CPU": 0.5}], name="by its name")
    assert made.wait(60)
    found = get_placement_group("by its name")
    assert found == made and found.id.hex() == made.id.hex() and found.bundle_specs == made.bundle_specs

    @ray.remote
    def find():
        return get_placement_group("by its name")
    assert ray.get(find.options(placement_group=found).remote(), timeout=60) == made
    for wrong in ("nobody's", "", None):
        with pytest.raises(ValueError):
            get_placement_group(wrong)


def test_the_table_of_groups(ray, group):
    made, waiting = group([{"CPU": 1}], name="made"), group([{"CPU": 1000}])
    assert made.wait(60)
    facts = placement_group_table(made)
    assert facts == placement_group_table()[made.id.hex()]
    assert (facts["name"], facts["state"], facts["bundles"]) == ("made", "CREATED", {0: {"CPU": 1.0}})
    assert placement_group_table(waiting)["state"] == "PENDING"
    remove_placement_group(made)
    assert placement_group_table(made)["state"] == placement_group_table()[made.id.hex()]["state"] == "REMOVED"


def test_what_runs_in_a_group_knows_it(ray, group):
    made = group([{"CPU": 1}])

    @ray.remote
    def look():
        context = ray.get_runtime_context()
        return get_current_placement_group(), context.get_placement_group_id(), context.get_assigned_resources()
    assert ray.get(look.options(placement_group=made).remote(), timeout=60) == (made, made.id.hex(), {"CPU": 1.0})
    assert ray.get(look.remote(), timeout=60) == (None, None, {"CPU": 1.0})
    assert get_current_placement_group() is None


def current_group():
    here = get_current_placement_group()
    return None if here is None else here.id


def test_a_group_captures_what_is_started_in_it(ray, group):
    made = group([{"CPU": 1}])

    where = ray.remote(num_cpus=0)(current_group)

    @ray.remote(num_cpus=0)
    class Where:
        def where(self):
            return current_group()

    @ray.remote(num_cpus=0)
    def parent():
        elsewhere = where.options(scheduling_strategy=PlacementGroupSchedulingStrategy(None))
        inside = miniray.get_runtime_context().should_capture_child_tasks_in_placement_group
        actor = Where.remote()
        return inside, ray.get([where.remote(), actor.where.remote(), elsewhere.remote(),
                                where.options(scheduling_strategy="DEFAULT").remote()])

    def run(capture):
        strategy = PlacementGroupSchedulingStrategy(made, placement_group_capture_child_tasks=capture)
        return ray.get(parent.options(scheduling_strategy=strategy).remote())

    assert run(True) == (True, [made.id, made.id, None, None])
    assert run(False) == (False, [None] * 4)
    assert run(None) == (False, [None] * 4)
    assert ray.get(where.remote()) is None  # the worker does not keep the group


def test_an_actor_in_a_group_captures_what_it_starts(ray, group):
    made = group([{"CPU": 1}])

    where = ray.remote(num_cpus=0)(current_group)

    @ray.remote(num_cpus=0)
    class Parent:
        def run(self):
            return ray.get(where.remote())

    strategy = PlacementGroupSchedulingStrategy(made, placement_group_capture_child_tasks=True)
    assert ray.get(Parent.options(scheduling_strategy=strategy).remote().run.remote()) == made.id
    assert ray.get(Parent.options(scheduling_strategy=PlacementGroupSchedulingStrategy(made)).remote().run.remote()) is None


def test_what_needs_nothing_of_its_group_knows_it(ray, group):
    made = group([{"CPU": 1}])

    @ray.remote(num_cpus=0)
    def facts():
        return get_current_placement_group().id, miniray.get_runtime_context().get_assigned_resources()

    assert ray.get(facts.options(scheduling_strategy=PlacementGroupSchedulingStrategy(made)).remote()) == (made.id, {})


def test_a_group_that_was_never_there_is_removed(ray):
    from miniray.util.placement_group import PlacementGroup
    remove_placement_group(PlacementGroup(ray.PlacementGroupID.from_random()))
    with pytest.raises(ValueError, match="reserved"):
        placement_group([{"bundle": 1}])


def test_what_fits_into_no_bundle_is_refused_where_it_is_asked_for(stopped):
    ray = stopped
    ray.init(num_workers=2)
    group = ray.util.placement_group([{"CPU": 1}, {"CPU": 1}])

    @ray.remote
    def task():
        return "ran"
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
    for index, options in [(-1, {"num_cpus": 2}), (1, {"num_gpus": 1}), (0, {"resources": {"x": 1}})]:
        with pytest.raises(ValueError, match="cannot fit into any bundles"):
            task.options(scheduling_strategy=strategy(group, index), **options).remote()
    fits = task.options(scheduling_strategy=strategy(group, 1), num_cpus=1)
    assert ray.get(fits.remote()) == "ran"
    ray.util.remove_placement_group(group)
    with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved, match="was removed"):
        ray.get(fits.remote())
