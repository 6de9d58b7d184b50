"""Generators as tasks and methods: their items arrive while they run."""

import asyncio
import os
import time

import numpy as np
import pytest


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.002)


@pytest.fixture(scope="module")
def count(ray):
    @ray.remote
    def count(number, fails_at=None):
        for i in range(number):
            if i == fails_at:
                raise ValueError(f"at {i}")
            yield i
    return count


@pytest.fixture(scope="module")
def Counter(ray):
    @ray.remote
    class Counter:
        def __init__(self):
            self.given = 0

        def count(self, number, fails_at=None):
            for i in range(number):
                if i == fails_at:
                    raise ValueError(f"at {i}")
                self.given += 1
                yield i

        def seen(self):
            return self.given
    return Counter


@pytest.fixture(scope="module")
def Threaded(ray, Counter):
    return Counter.options(max_concurrency=3)


@pytest.fixture(scope="module")
def Async(ray):
    @ray.remote
    class Async:
        def __init__(self):
            self.given, self.ended = 0, 0

        async def count(self, number, fails_at=None):
            try:
                for i in range(number):
                    await asyncio.sleep(0)
                    if i == fails_at:
                        raise ValueError(f"at {i}")
                    self.given += 1
                    yield i
            finally:
                self.ended += 1

        async def seen(self):
            return self.given

        async def over(self):
            return self.ended
    return Async


@pytest.fixture(params=["task", "actor", "threads", "loop"])
def source(request, ray, count, Counter, Threaded, Async):
    """count(number, fails_at) of every kind, as an object with .remote and .options."""
    if request.param == "task":
        yield count
        return
    actor = {"actor": Counter, "threads": Threaded, "loop": Async}[request.param].remote()
    yield actor.count


def test_a_generator_gives_references(ray, source):
    generator = source.remote(5)
    assert isinstance(generator, ray.ObjectRefGenerator)
    refs = list(generator)
    assert all(isinstance(ref, ray.ObjectRef) for ref in refs) and ray.get(refs) == [0, 1, 2, 3, 4]
    with pytest.raises(StopIteration):
        next(generator)


def test_an_empty_generator(ray, source):
    assert list(source.remote(0)) == []


def test_many(ray, source):
    assert [ray.get(ref) for ref in source.remote(3000)] == list(range(3000))


def test_an_error_is_that_of_the_last_reference(ray, source):
    generator = source.remote(5, fails_at=2)
    assert ray.get([next(generator), next(generator)]) == [0, 1]
    last = next(generator)
    with pytest.raises(ValueError, match="at 2"):
        ray.get(last)
    with pytest.raises(StopIteration):
        next(generator)


def test_an_error_at_once(ray, source):
    ref, = source.remote(5, fails_at=0)
    with pytest.raises(ValueError, match="at 0"):
        ray.get(ref)


def test_the_end_of_it_all(ray, source):
    generator = source.remote(3)
    for _ in generator:
        pass
    ray.get(generator.completed())
    assert generator.is_finished()
    generator = source.remote(3, fails_at=1)
    for _ in generator:
        pass
    with pytest.raises(ValueError, match="at 1"):
        ray.get(generator.completed())


def test_async_for(ray, source):
    async def main():
        return [await ref async for ref in source.remote(20)]
    assert asyncio.run(main()) == list(range(20))


def test_async_for_with_an_error(ray, source):
    async def main():
        found = []
        async for ref in source.remote(5, fails_at=2):
            try:
                found.append(await ref)
            except ValueError as error:
                found.append("at 2" in str(error))
        return found
    assert asyncio.run(main()) == [0, 1, True]


def test_values_come_while_it_runs(ray, tmp_path):
    @ray.remote
    def slow(folder):
        for i in range(3):
            yield i
            until((folder / str(i)).exists)
    for i, ref in enumerate(slow.remote(tmp_path)):
        assert ray.get(ref) == i
        (tmp_path / str(i)).write_text("go on")


def test_references_are_arguments(ray, count):
    @ray.remote
    def double(x):
        return 2 * x
    assert ray.get([double.remote(ref) for ref in count.remote(5)]) == [0, 2, 4, 6, 8]


def test_arrays(ray):
    @ray.remote
    def arrays(size):
        for i in range(4):
            yield np.full(size, i)
    for size in (10, 100_000):
        for i, ref in enumerate(arrays.remote(size)):
            found = ray.get(ref)
            assert found.shape == (size,) and found[0] == found[-1] == i


def test_objects_of_every_kind(ray):
    values = [None, {"a": [1, 2]}, (1, "x"), {3}, ValueError("x").args, b"x" * 100_000, [[]]]

    @ray.remote
    class Some:
        def give(self):
            yield from values
    for options in ({}, {"max_concurrency": 2}):
        assert [ray.get(ref) for ref in Some.options(**options).remote().give.remote()] == values


def test_next_ready(ray, tmp_path):
    @ray.remote
    def wait(path):
        until(path.exists)
        yield 1
    generator = wait.remote(tmp_path / "go")
    assert not generator.next_ready() and generator._next_sync(0.01) is None and not generator.is_finished()
    (tmp_path / "go").write_text("")
    until(generator.next_ready)
    assert ray.get(next(generator)) == 1


def test_wait_takes_generators(ray, tmp_path):
    @ray.remote
    def wait(path):
        until(path.exists)
        yield 1
    late, early = wait.remote(tmp_path / "late"), wait.remote(tmp_path / "early")
    assert ray.wait([late, early], timeout=0.01) == ([], [late, early])
    (tmp_path / "early").write_text("")
    assert ray.wait([late, early], timeout=60) == ([early], [late])
    (tmp_path / "late").write_text("")
    ready, rest = ray.wait([late, early, ray.put(1)], num_returns=3, timeout=60)
    assert len(ready) == 3 and ray.get([next(late), next(early)]) == [1, 1]


def test_get_of_a_generator_is_the_generator(ray, count):
    generator = count.remote(2)
    assert ray.get(generator) is generator and ray.get(list(generator)) == [0, 1]


def test_a_dropped_generator_is_told(ray, tmp_path):
    @ray.remote
    def endless(path):
        try:
            while True:
                yield 1
        finally:
            path.write_text("closed")
    generator = endless.remote(tmp_path / "note")
    assert ray.get(next(generator)) == 1
    del generator
    until((tmp_path / "note").exists)


def test_a_dropped_generator_of_an_actor_leaves_it_alive(ray, Counter, Async):
    for cls in (Counter, Counter.options(max_concurrency=2), Async):
        actor = cls.remote()
        generator = actor.count.remote(10**9)
        assert ray.get(next(generator)) == 0
        del generator
        assert ray.get(actor.seen.remote(), timeout=30) >= 1
        assert [ray.get(ref) for ref in actor.count.remote(3)] == [0, 1, 2]


def test_an_abandoned_async_generator_is_closed(ray, Async):
    actor = Async.remote()
    generator = actor.count.remote(10**9)
    next(generator)
    del generator
    until(lambda: ray.get(actor.over.remote()) == 1)


def test_a_generator_runs_to_its_end_though_nobody_takes(ray, source):
    generator = source.options(num_returns="streaming").remote(100)
    ray.get(generator.completed(), timeout=60)
    assert [ray.get(ref) for ref in generator] == list(range(100))


def test_a_generator_that_nobody_takes_does_not_stop_an_async_actor(ray, Async):
    actor = Async.remote()
    generator = actor.count.remote(10**6)
    until(lambda: ray.get(actor.seen.remote()) > 3)
    assert [ray.get(ref) for ref in actor.count.remote(3)] == [0, 1, 2]
    assert ray.get(next(generator)) == 0


def test_cancel_of_a_generator(ray, tmp_path):
    @ray.remote
    def endless(path):
        try:
            while True:
                yield 1
                time.sleep(0.001)
        finally:
            path.write_text("closed")
    generator = endless.remote(tmp_path / "note")
    next(generator)
    ray.cancel(generator)
    until((tmp_path / "note").exists)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(list(generator)[-1])


def test_back_pressure(ray, tmp_path):
    @ray.remote(_generator_backpressure_num_objects=2)
    def many(path):
        for i in range(50):
            path.write_text(str(i))
            yield i
    generator = many.remote(tmp_path / "note")
    ray.get(next(generator))
    time.sleep(0.1)
    assert int((tmp_path / "note").read_text()) < 10
    assert ray.get(list(generator)) == list(range(1, 50))


def test_a_worker_that_dies(ray):
    @ray.remote(max_retries=0)
    def dying():
        yield 1
        os._exit(3)
    generator = dying.remote()
    assert ray.get(next(generator)) == 1
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(next(generator))


def test_streaming_has_to_be_a_generator(ray):
    @ray.remote(num_returns="streaming")
    def plain():
        return 1
    ref, = plain.remote()
    with pytest.raises(TypeError, match="generator"):
        ray.get(ref)


def test_a_function_that_returns_a_generator(ray):
    @ray.remote(num_returns="streaming")
    def plain():
        return (i for i in range(3))
    assert ray.get(list(plain.remote())) == [0, 1, 2]


def test_so_many_returns_from_a_generator(ray, count):
    first, second = count.options(num_returns=2).remote(2)
    assert ray.get([first, second]) == [0, 1]
    with pytest.raises(ValueError, match="num_returns=3"):
        ray.get(count.options(num_returns=3).remote(2)[2])


def test_an_error_fails_only_what_was_not_yielded(ray, count, Counter):
    @ray.remote
    def use(value):
        return value
    for source in (count, Counter.remote().count):
        refs = source.options(num_returns=4).remote(4, fails_at=2)
        assert ray.get(refs[:2]) == [0, 1]
        assert ray.wait(refs, num_returns=4)[1] == []
        for ref in refs[2:]:
            with pytest.raises(ValueError, match="at 2") as raised:
                ray.get(ref)
            assert isinstance(raised.value, ray.exceptions.RayTaskError)
            with pytest.raises(ValueError, match="at 2"):
                ray.get(use.remote(ref))
        assert ray.get(use.remote(refs[1])) == 1


def test_a_generator_that_ends_early_fails_the_rest(ray, count):
    first, second, third = count.options(num_returns=3).remote(2)
    assert ray.get([first, second]) == [0, 1]
    with pytest.raises(ValueError, match="Task returned 2 objects, but num_returns=3"):
        ray.get(third)
    with pytest.raises(ValueError, match="Task returned 0 objects, but num_returns=2"):
        ray.get(count.options(num_returns=2).remote(0))


def test_an_endless_generator_gives_as_many_as_are_wanted(ray):
    @ray.remote(num_returns=3)
    def numbers():
        number = 0
        while True:
            yield number
            number += 1
    assert ray.get(numbers.remote()) == [0, 1, 2]


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_method_that_yields_with_one_return(ray, Counter, concurrency):
    counter = Counter.options(max_concurrency=concurrency).remote()
    assert ray.get(counter.count.options(num_returns=1).remote(3)) == 0
    assert len(ray.get(counter.count.options(num_returns="dynamic").remote(3))) == 3
    with pytest.raises(ValueError, match="Task returned 0 objects"):
        ray.get(counter.count.options(num_returns=1).remote(0))


def test_a_method_may_be_dynamic_by_its_decorator(ray):
    @ray.remote
    class Source:
        @ray.method(num_returns="dynamic")
        def count(self, number):
            yield from range(number)

        @ray.method(num_returns=1)
        def first(self, number):
            yield from range(number)
    for options in ({}, {"max_concurrency": 2}):
        source = Source.options(**options).remote()
        assert [ray.get(ref) for ref in ray.get(source.count.remote(3))] == [0, 1, 2]
        assert ray.get(source.first.remote(3)) == 0


def test_dynamic(ray, count, Counter):
    for source in (count, Counter.remote().count):
        ref = source.options(num_returns="dynamic").remote(4)
        assert isinstance(ref, ray.ObjectRef)
        found = ray.get(ref)
        assert isinstance(found, ray.DynamicObjectRefGenerator) and len(found) == 4
        assert [ray.get(each) for each in found] == [0, 1, 2, 3]


def test_dynamic_as_an_argument(ray, count):
    @ray.remote
    def total(refs):
        return sum(ray.get(ref) for ref in refs)
    assert ray.get(total.remote(count.options(num_returns="dynamic").remote(5))) == 10


def test_dynamic_with_an_error(ray, count):
    first, second, last = ray.get(count.options(num_returns="dynamic").remote(5, fails_at=2))
    assert ray.get([first, second]) == [0, 1]
    with pytest.raises(ValueError):
        ray.get(last)

    @ray.remote(num_returns="dynamic")
    def no_generator():
        return [1, 2]

    with pytest.raises(TypeError, match="generator"):
        ray.get(no_generator.remote())


def test_a_generator_with_a_number_of_returns(ray):
    def yields(number):
        yield from range(number)

    class Actor:
        def yields(self, number):
            yield from range(number)

    task = ray.remote(yields)
    for source in (task, ray.remote(Actor).remote().yields):
        three = source.options(num_returns=3)
        assert ray.get(three.remote(3)) == ray.get(three.remote(5)) == [0, 1, 2]
        with pytest.raises(ValueError, match="num_returns=3"):
            ray.get(three.remote(2))
    assert ray.get(task.options(num_returns=1).remote(4)) == 0
    with pytest.raises(ValueError, match="num_returns=1"):
        ray.get(task.options(num_returns=1).remote(0))
    assert [ray.get(ref) for ref in task.remote(2)] == [0, 1]


def test_an_async_generator_as_a_task(ray):
    @ray.remote
    async def count(number):
        for i in range(number):
            await asyncio.sleep(0)
            yield i
    assert ray.get(list(count.remote(5))) == [0, 1, 2, 3, 4]


def test_method_says_streaming(ray):
    @ray.remote
    class Some:
        @ray.method(num_returns="streaming")
        def items(self):
            return iter([1, 2])
    assert ray.get(list(Some.remote().items.remote())) == [1, 2]


def test_a_handle_from_elsewhere_knows_its_generators(ray, Counter):
    @ray.remote
    def use(counter):
        return [ray.get(ref) for ref in counter.count.remote(3)]
    assert ray.get(use.remote(Counter.remote())) == [0, 1, 2]


def test_tasks_and_actors_take_from_generators(ray, count):
    @ray.remote
    def total(number):
        return sum(ray.get(ref) for ref in count.remote(number))

    @ray.remote
    class Total:
        async def total(self, number):
            return sum([await ref async for ref in count.remote(number)])
    assert ray.get([total.remote(10), Total.remote().total.remote(10)]) == [45, 45]


def test_a_generator_that_yields_from_another(ray, count):
    @ray.remote
    def twice(number):
        for ref in count.remote(number):
            yield 2 * ray.get(ref)
    assert ray.get(list(twice.remote(4))) == [0, 2, 4, 6]


def test_generators_are_not_sent(ray, count):
    with pytest.raises(TypeError, match="cannot be passed to another process"):
        ray.put(count.remote(1))


def test_a_generator_with_an_environment(ray):
    @ray.remote(runtime_env={"env_vars": {"INSIDE": "yes"}})
    def read():
        yield os.environ.get("INSIDE")
        yield os.environ.get("INSIDE")
    assert ray.get(list(read.remote())) == ["yes", "yes"]


def test_generators_in_local_mode(run_program):
    done = run_program("""
        import miniray as ray
        ray.init(local_mode=True, num_workers=1)
        @ray.remote
        def count(number):
            yield from range(number)
            raise KeyError("end")
        refs = list(count.remote(3))
        print(ray.get(refs[:3]))
        try:
            ray.get(refs[3])
        except KeyError:
            print("raised")
        """)
    assert done.stdout == "[0, 1, 2]\nraised\n"


def test_a_generator_that_is_tried_again_goes_on_where_it_was(ray, tmp_path):
    @ray.remote(retry_exceptions=[ValueError], max_retries=3)
    def fails_twice():
        for number in range(5):
            if number == 3:
                with open(tmp_path / "tries", "a") as file:
                    file.write("x")
                if len((tmp_path / "tries").read_text()) < 3:
                    raise ValueError("not yet")
            yield number

    assert [ray.get(ref) for ref in fails_twice.remote()] == [0, 1, 2, 3, 4]
    assert (tmp_path / "tries").read_text() == "xxx"

    @ray.remote(retry_exceptions=[KeyError], max_retries=3)
    def fails():
        yield 1
        raise ValueError("for good")

    first, last = fails.remote()
    assert ray.get(first) == 1
    with pytest.raises(ValueError, match="for good"):
        ray.get(last)


def test_a_generator_that_is_returned_is_told_of(ray):
    @ray.remote
    def squares():
        return (x * x for x in range(3))
    with pytest.raises(TypeError, match=r"squares\(\) returned a generator, which cannot be sent: return a list, or yield"):
        ray.get(squares.remote())
