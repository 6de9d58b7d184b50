"""local_mode: everything runs in the driver itself, with the same results."""

import os

import pytest

import miniray


@pytest.fixture(scope="module")
def local():
    miniray.shutdown()
    miniray.init(local_mode=True, num_workers=1)
    yield miniray
    miniray.shutdown()


def test_a_task_runs_here_at_the_call(local):
    ran = []

    @local.remote
    def task(x):
        ran.append(x)
        return os.getpid()

    ref = task.remote(1)
    assert ran == [1] and local.get(ref) == os.getpid()


def test_references_are_arguments(local):
    @local.remote
    def add(a, b=0):
        return a + b
    assert local.get(add.remote(local.put(1), b=add.remote(2, 3))) == 6


def test_a_task_may_give_back_references(local):
    @local.remote
    def one():
        return local.put("one")

    @local.remote
    def many():
        yield local.put("first")
        yield [local.put("second")]
    ref = local.get(one.remote())
    assert isinstance(ref, local.ObjectRef) and local.get(ref) == "one"
    first, second = (local.get(ref) for ref in many.remote())
    assert local.get(first) == "first" and local.get(second[0]) == "second"


def test_an_error_is_that_of_the_reference(local):
    @local.remote
    def fail():
        raise KeyError("here")
    ref = fail.remote()
    with pytest.raises(KeyError) as caught:
        local.get(ref)
    assert isinstance(caught.value, local.exceptions.RayTaskError) and "fail" in str(caught.value)


def test_an_error_passes_through(local):
    @local.remote
    def fail():
        raise KeyError("here")

    @local.remote
    def use(value):
        return value
    with pytest.raises(KeyError):
        local.get(use.remote(fail.remote()))


def test_several_returns(local):
    @local.remote(num_returns=2)
    def two():
        return 1, 2
    assert local.get(two.remote()) == [1, 2]

    @local.remote(num_returns=3)
    def short():
        return 1, 2
    with pytest.raises(ValueError, match="num_returns=3"):
        local.get(short.remote()[0])


def test_actors(local):
    @local.remote
    class Counter:
        def __init__(self, start):
            self.value = start

        def add(self, step=1):
            self.value += step
            return self.value

        def me(self):
            return local.get_runtime_context().get_actor_id()

    counter = Counter.options(name="counter").remote(local.put(5))
    assert local.get([counter.add.remote(), counter.add.remote(step=2)]) == [6, 8]
    assert local.get(local.get_actor("counter").add.remote()) == 9
    assert local.get(counter.me.remote()) == counter.__actor_id__
    with pytest.raises(TypeError):
        counter.add.remote(1, 2)
    with pytest.raises(ValueError):
        Counter.options(name="counter").remote(1)
    local.kill(counter)
    with pytest.raises(local.exceptions.ActorDiedError):
        local.get(counter.add.remote())
    with pytest.raises(ValueError):
        local.get_actor("counter")


def test_an_actor_whose_constructor_fails(local):
    @local.remote
    class Broken:
        def __init__(self):
            raise OSError("no")

        def use(self):
            return 1
    with pytest.raises(local.exceptions.ActorDiedError):
        local.get(Broken.remote().use.remote())


def test_handles_are_arguments(local):
    @local.remote
    class Box:
        def get(self):
            return 42

    @local.remote
    def use(box, boxes):
        return local.get(box.get.remote()) + local.get(boxes[0].get.remote())
    box = Box.remote()
    assert local.get(use.remote(box, [box])) == 84


def test_coroutines(local):
    @local.remote
    class Slow:
        async def get(self, x):
            import asyncio
            await asyncio.sleep(0)
            return x

        def ref(self):
            return local.put(4)
    slow = Slow.remote()
    assert local.get(slow.get.remote(3)) == 3
    assert local.get(local.get(slow.ref.remote())) == 4


def test_wait_and_arguments_are_checked(local):
    @local.remote
    def task(x):
        return x
    refs = [task.remote(i) for i in range(3)]
    ready, rest = local.wait(refs, num_returns=3)
    assert ready == refs and rest == []
    with pytest.raises(TypeError):
        task.remote()


def test_named_actors_are_listed_and_a_name_is_taken_once(local):
    @local.remote
    class Named:
        pass
    kept = Named.remote(), Named.options(name="one").remote(), Named.options(name="two", namespace="other").remote()
    assert local.util.list_named_actors() == ["one"]
    assert {each["name"] for each in local.util.list_named_actors(all_namespaces=True)} == {"one", "two"}
    with pytest.raises(local.exceptions.ActorAlreadyExistsError, match="The name one is already taken"):
        Named.options(name="one").remote()
    assert len(kept) == 3


def test_generators_with_await_in_them(local):
    @local.remote
    class Source:
        async def give(self, count):
            for i in range(count):
                yield i
            if count > 2:
                raise KeyError("too many")
    source = Source.remote()
    assert [local.get(ref) for ref in source.give.remote(2)] == [0, 1]
    first, second, third, last = source.give.remote(3)
    assert local.get([first, second, third]) == [0, 1, 2]
    with pytest.raises(KeyError, match="too many"):
        local.get(last)


def test_it_ends_with_shutdown(stopped):
    miniray.init(local_mode=True, num_workers=1)
    miniray.shutdown()
    miniray.init(num_workers=1)

    @miniray.remote
    def process():
        return os.getpid()
    assert miniray.get(process.remote()) != os.getpid()
