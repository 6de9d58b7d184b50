"""Idioms of programs that were written for Ray."""

import os
import pickle
import signal
import sys
import time

import pytest

from miniray.exceptions import ActorDiedError, RayActorError, RayTaskError, WorkerCrashedError


def until(true):
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


# ---- Ends of tasks and actors.


def test_a_task_that_exits_ends_neither_the_driver_nor_quietly(ray, run_program):
    @ray.remote(max_retries=0)
    def leave():
        sys.exit(0)
    with pytest.raises(WorkerCrashedError, match="sys.exit|SystemExit"):
        ray.get(leave.remote())
    done = run_program("""
        import sys, miniray

        @miniray.remote
        def leave():
            sys.exit(0)
        miniray.get(leave.remote())
    """, code=1)
    assert "WorkerCrashedError" in done.stderr


def test_an_actor_that_exits_is_gone(ray):
    @ray.remote
    class Mortal:
        def leave(self):
            sys.exit(0)

        def here(self):
            return True
    mortal = Mortal.remote()
    assert ray.get(mortal.here.remote())
    with pytest.raises(ActorDiedError):
        ray.get(mortal.leave.remote())
    with pytest.raises(ActorDiedError):
        ray.get(mortal.here.remote())


@pytest.mark.parametrize("code", [1, None, "a text"])
def test_an_actor_that_exits_with_an_error_is_started_again_if_it_may_be(ray, tmp_path, code):
    @ray.remote(max_restarts=-1, max_task_retries=-1)
    class Immortal:
        def work(self):
            lives = len(list(tmp_path.iterdir()))
            (tmp_path / str(lives)).touch()
            if lives < 2:
                sys.exit(code)
            return lives

        def leave(self):
            sys.exit(0)
    immortal = Immortal.remote()
    assert ray.get(immortal.work.remote()) == 2
    for method in (immortal.leave, immortal.work):  # the actor exits by itself
        with pytest.raises(ActorDiedError):
            ray.get(method.remote())


def test_an_actor_whose_constructor_exits_is_gone(ray):
    @ray.remote
    class Unborn:
        def __init__(self):
            sys.exit(1)

        def here(self):
            return True
    with pytest.raises(RayActorError):
        ray.get(Unborn.remote().here.remote())


# ---- Errors that passed through other tasks.


def test_a_task_whose_argument_died_with_its_actor_fails_as_both(ray):
    @ray.remote
    class Mortal:
        def die(self):
            os._exit(1)

    @ray.remote
    def use(value):
        return value
    lost = Mortal.remote().die.remote()
    for kind in (RayTaskError, RayActorError):
        with pytest.raises(kind):
            ray.get(use.remote(lost))


def test_a_task_whose_argument_died_with_its_worker_fails_as_both(ray):
    @ray.remote(max_retries=0)
    def die():
        os._exit(1)

    @ray.remote
    def use(value):
        return value
    for kind in (RayTaskError, WorkerCrashedError):
        with pytest.raises(kind):
            ray.get(use.remote(die.remote()))


def test_an_actor_whose_argument_failed_is_dead(ray):
    @ray.remote
    def fail(wait):
        time.sleep(wait)
        raise ValueError("no argument")

    @ray.remote
    class Actor:
        def __init__(self, value):
            pass

        def here(self):
            return True
    failed = fail.remote(0)
    ray.wait([failed])
    for argument in (failed, fail.remote(0.1)):  # failed before the actor is requested, or after
        actor = Actor.remote(argument)
        with pytest.raises(ActorDiedError, match="no argument"):
            ray.get(actor.here.remote())


def test_an_error_with_a_long_text_keeps_its_class(ray):
    class TooLong(ValueError):
        pass

    @ray.remote
    def fail(kind):
        raise kind("x" * 1_000_000)
    for kind in (ValueError, TooLong):
        with pytest.raises(ValueError) as caught:
            ray.get(fail.remote(kind))
        assert isinstance(caught.value, RayTaskError) and len(str(caught.value)) < 100_000


# ---- Classes, names and numbers.


def test_attributes_and_functions_of_an_actor_class_are_read_as_of_the_class(ray):
    class Base:
        SIZE = 2

        @staticmethod
        def twice(x):
            return 2 * x

    @ray.remote
    class Actor(Base):
        NAME = "actor"

        @classmethod
        def name(cls):
            return cls.NAME

        def all(self):
            return Actor.SIZE, Actor.NAME, Actor.name(), Actor.twice(4)
    assert (Actor.SIZE, Actor.NAME, Actor.name(), Actor.twice(4)) == (2, "actor", "actor", 8)
    assert ray.get(Actor.remote().all.remote()) == (2, "actor", "actor", 8)
    with pytest.raises(AttributeError):
        Actor.nothing


def test_an_actor_knows_itself_in_its_constructor(ray):
    @ray.remote
    class Actor:
        def __init__(self):
            self.me = ray.get_runtime_context().current_actor
            self.id = ray.get_runtime_context().get_actor_id()

        def both(self):
            return self.me, self.id
    actor = Actor.remote()
    me, its_id = ray.get(actor.both.remote())
    assert me == actor and its_id == actor._actor_id.hex() and isinstance(actor._actor_id, ray.ActorID)


def test_the_address_of_this_machine_is_that_of_its_node(ray):
    assert ray.util.get_node_ip_address() == ray.nodes()[0]["NodeManagerAddress"]


def test_the_bytes_of_a_reference_are_those_of_its_text(ray):
    ref = ray.put(1)
    assert ref.binary() == bytes.fromhex(ref.hex()) and ray.TaskID.from_hex(ref.hex()) == ref.task_id()


def test_a_machine_without_cpus_still_has_what_needs_none(stopped):
    ray = stopped
    ray.init(num_cpus=0, resources={"x": 1})

    @ray.remote
    def needs_one():
        return 1
    assert ray.get(ray.put(2)) == 2
    assert ray.get(needs_one.options(num_cpus=0, resources={"x": 1}).remote(), timeout=30) == 1
    assert ray.wait([needs_one.remote()], timeout=0.1)[0] == []
    assert "CPU" not in ray.cluster_resources()


# ---- Several references at once.


def test_get_of_many_fails_as_soon_as_one_does(ray):
    @ray.remote
    class Actor:
        def wait(self):
            time.sleep(600)

        def fail(self):
            raise ValueError("not later")
    slow, quick = Actor.remote(), Actor.remote()
    waits = slow.wait.remote()
    with pytest.raises(ValueError, match="not later"):
        ray.get([waits, quick.fail.remote()], timeout=120)
    ray.kill(slow)
    with pytest.raises(RayActorError):
        ray.get([ray.put(1), waits])


# ---- Actors that call themselves.


def test_an_actor_calls_itself(ray):
    @ray.remote
    class Actor:
        def __init__(self):
            self.seen, self.me = [], ray.get_runtime_context().current_actor

        def begin(self, count):
            return [self.me.note.remote(i, of=ray.put(-i)) for i in range(count)]

        def note(self, number, of):
            self.seen.append((number, of))
            return number

        def fail(self):
            return self.me.raise_it.remote()

        def raise_it(self):
            raise KeyError("by itself")

        def both(self):
            return self.me.two.options(num_returns=2).remote()

        def two(self):
            return 1, 2

        def all(self):
            return self.seen
    actor = Actor.remote()
    assert ray.get(ray.get(actor.begin.remote(20)), timeout=60) == list(range(20))
    assert ray.get(actor.all.remote()) == [(i, -i) for i in range(20)]
    with pytest.raises(KeyError, match="by itself"):
        ray.get(ray.get(actor.fail.remote()))
    assert ray.get(ray.get(actor.both.remote())) == [1, 2]


def test_a_coroutine_of_an_actor_awaits_another_of_its_own(ray):
    @ray.remote
    class Actor:
        async def outer(self):
            return await ray.get_runtime_context().current_actor.inner.remote(20) + 1

        async def inner(self, x):
            return 2 * x
    assert ray.get(Actor.remote().outer.remote(), timeout=60) == 41


# ---- References and handles that the user pickles.


def test_a_reference_or_handle_is_pickled_by_itself_and_loaded_again(ray):
    @ray.remote
    class Actor:
        def here(self):
            return True
    ref, actor = ray.put("it"), Actor.remote()
    data = pickle.dumps({"ref": ref, "actor": actor}), ray.cloudpickle.dumps([ref])
    del ref
    loaded = pickle.loads(data[0])
    assert ray.get(loaded["ref"]) == "it" and ray.get(loaded["actor"].here.remote()) and loaded["actor"] == actor
    assert ray.get(ray.cloudpickle.loads(data[1])) == ["it"]



def test_what_is_pickled_by_itself_is_loaded_in_other_processes(ray):
    @ray.remote
    class Actor:
        def double(self, x):
            return 2 * x

    @ray.remote
    def load(data, x):
        loaded = pickle.loads(data)
        return [ray.get(ref) for ref in loaded["refs"]] + [ray.get(loaded["actor"].double.remote(x))]

    @ray.remote
    def make():
        return pickle.dumps(ray.put([1, 2, 3]))
    large = b"x" * 300_000
    late = load.remote(pickle.dumps({"refs": [], "actor": Actor.remote()}), 4)
    refs, actor = [ray.put(large), ray.put("it"), late], Actor.remote()
    data = pickle.dumps({"refs": refs, "actor": actor})
    del late, refs, actor
    assert ray.get(load.remote(data, 21), timeout=60) == [large, "it", [8], 42]
    assert ray.get(pickle.loads(ray.get(make.remote(), timeout=60)), timeout=60) == [1, 2, 3]


def test_what_another_program_pickled_is_refused(ray):
    data = pickle.dumps(ray.put(1))
    data = data.replace(data[data.index(b"ObjectRef(") + 10:][:16], b"0" * 16)
    with pytest.raises(TypeError, match="was pickled by another driver"):
        pickle.loads(data)


# ---- Names.


def test_named_actors_are_listed(ray):
    from miniray.util import list_named_actors

    @ray.remote
    class Actor:
        def here(self):
            return True
    one, two = Actor.options(name="one of mine").remote(), Actor.options(name="there", namespace="elsewhere").remote()
    assert ray.get([one.here.remote(), two.here.remote(), Actor.remote().here.remote()]) == [True] * 3
    assert list_named_actors() == ["one of mine"]
    assert {"name": "there", "namespace": "elsewhere"} in list_named_actors(all_namespaces=True)
    ray.kill(one)
    until(lambda: list_named_actors() == [])


# ---- Handles that only an actor has.


def test_a_handle_that_was_made_for_a_constructor_stays_with_the_actor(ray):
    @ray.remote
    class Inner:
        def here(self):
            return os.getpid()

    @ray.remote(max_restarts=1, max_task_retries=2)
    class Outer:
        def __init__(self, inner, *, more):
            self.inner, self.more = inner, more["list"][0]

        def both(self):
            return ray.get([self.inner.here.remote(), self.more.here.remote()])

        def die(self):
            if not ray.get_runtime_context().was_current_actor_reconstructed:
                os._exit(1)
    for made in (Outer, Outer.options(max_concurrency=2)):
        outer = made.remote(Inner.remote(), more={"list": [Inner.remote()]})
        before = ray.get(outer.both.remote(), timeout=60)
        ray.get(outer.die.remote(), timeout=60)
        assert ray.get(outer.both.remote(), timeout=60) == before  # after a restart, with the same arguments
        ray.kill(outer)
        until(lambda: not any(os.path.exists(f"/proc/{process}") for process in before))


# ---- References that an actor is created with.


@pytest.fixture
def Holder(ray):
    @ray.remote(max_restarts=1, max_task_retries=2)
    class Holder:
        def __init__(self, plain, refs, *, more=None):
            self.plain, self.refs = plain, refs + list((more or {}).values())

        def get(self):
            return self.plain, [ray.get(ref)[0] for ref in self.refs]

        def process(self):
            return os.getpid()
    return Holder


@pytest.mark.parametrize("size", [1, 5_000, 1_000_000])
def test_references_inside_of_a_constructors_arguments(ray, Holder, size):
    holder = Holder.remote(ray.put("plain"), [ray.put([1] * size)], more={"b": ray.put([2] * size)})
    assert ray.get(holder.get.remote(), timeout=60) == ("plain", [1, 2])
    os.kill(ray.get(holder.process.remote()), signal.SIGKILL)
    assert ray.get(holder.get.remote(), timeout=60) == ("plain", [1, 2])  # available after a restart


def test_references_to_what_is_still_to_come_inside_of_a_constructors_arguments(ray, Holder):
    @ray.remote
    def slow(value):
        time.sleep(0.2)
        return value
    holder = Holder.remote(slow.remote("plain"), [slow.remote([1]), slow.remote([2])])
    assert ray.get(holder.get.remote(), timeout=60) == ("plain", [1, 2])


def test_references_inside_of_objects_that_a_constructor_gets(ray):
    class Box:
        def __init__(self, ref):
            self.ref = ref

    @ray.remote
    class Actor:
        def __init__(self, box):
            self.box = box

        async def get(self):
            return await self.box.ref
    assert ray.get(Actor.remote(Box(ray.put("inside"))).get.remote(), timeout=60) == "inside"


def test_a_reference_that_the_class_of_an_actor_knows(ray):
    ref = ray.put("known")

    @ray.remote
    class Actor:
        def get(self):
            return ray.get(ref)
    assert ray.get(Actor.remote().get.remote(), timeout=60) == "known"


# ---- Methods that are run again.


@pytest.fixture
def Flaky(ray):
    @ray.remote(max_task_retries=2)
    class Flaky:
        def __init__(self):
            self.count = 0

        @ray.method(retry_exceptions=True)
        def third_time(self, text, *, more=""):
            self.count += 1
            if self.count < 3:
                raise ValueError(self.count)
            return text + more

        @ray.method(retry_exceptions=[KeyError])
        def wrong_kind(self):
            self.count += 1
            raise ValueError(self.count)

        @ray.method(retry_exceptions=True, max_task_retries=4)
        def never(self):
            self.count += 1
            raise ValueError(self.count)

        def counted(self):
            return self.count
    return Flaky


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_method_is_run_again_when_it_raises(ray, Flaky, concurrency):
    flaky = Flaky.options(max_concurrency=concurrency).remote()
    assert ray.get(flaky.third_time.remote("at", more=" last")) == "at last"
    assert ray.get(flaky.counted.remote()) == 3


def test_a_method_is_run_again_only_for_what_it_names_and_so_often(ray, Flaky):
    flaky = Flaky.remote()
    with pytest.raises(ValueError):
        ray.get(flaky.wrong_kind.remote())
    assert ray.get(flaky.counted.remote()) == 1
    with pytest.raises(ValueError):
        ray.get(flaky.never.remote())
    assert ray.get(flaky.counted.remote()) == 6


def test_a_coroutine_is_run_again_when_it_raises(ray):
    @ray.remote
    class Flaky:
        def __init__(self):
            self.count = 0

        @ray.method(retry_exceptions=True, max_task_retries=-1)
        async def fifth_time(self):
            self.count += 1
            if self.count < 5:
                raise ValueError(self.count)
            return self.count
    assert ray.get(Flaky.remote().fifth_time.remote()) == 5
