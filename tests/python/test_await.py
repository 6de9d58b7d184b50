"""await ref, ref.future(), and async actors."""

import asyncio
import gc
import os
import threading
import time

import pytest


@pytest.fixture(scope="module")
def later(ray):
    @ray.remote
    def later(value, seconds=0.05):
        time.sleep(seconds)
        if isinstance(value, Exception):
            raise value
        return value
    return later


def test_await(ray, later):
    async def main():
        return await later.remote(3)
    assert asyncio.run(main()) == 3


def test_await_what_is_there(ray):
    async def main():
        return await ray.put(4)
    assert asyncio.run(main()) == 4


def test_await_raises_what_the_task_raised(ray, later):
    async def main():
        await later.remote(KeyError("gone"))
    with pytest.raises(KeyError) as caught:
        asyncio.run(main())
    assert isinstance(caught.value, ray.exceptions.RayTaskError)


def test_gather_and_wait(ray, later):
    async def main():
        values = await asyncio.gather(*[later.remote(i) for i in range(20)])
        tasks = [asyncio.ensure_future(later.remote(i)) for i in range(5)]
        done, pending = await asyncio.wait(tasks)
        return values, sorted(task.result() for task in done), pending
    assert asyncio.run(main()) == (list(range(20)), list(range(5)), set())


def test_as_completed(ray, later):
    async def main():
        return [await each for each in asyncio.as_completed([later.remote(1, 0.5), later.remote(2, 0)])]
    assert asyncio.run(main()) == [2, 1]


def test_waiting_takes_no_threads(ray, later):
    async def main():
        before = threading.active_count()
        waiting = [asyncio.ensure_future(later.remote(i)) for i in range(50)]
        await asyncio.sleep(0.01)
        during = threading.active_count()
        await asyncio.gather(*waiting)
        return during - before
    assert asyncio.run(main()) == 0


@pytest.fixture
def gate(ray):
    """An actor whose calls of wait() return when the gate is opened."""
    @ray.remote
    class Gate:
        def __init__(self):
            self.opened = asyncio.Event()

        async def wait(self, value):
            await self.opened.wait()
            return value

        async def open(self):
            self.opened.set()
    return Gate.remote()


def test_wait_for_gives_up_and_the_task_goes_on(ray, gate):
    ref = gate.wait.remote(5)

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ref, 0.01)
    asyncio.run(main())
    ray.get(gate.open.remote())
    assert ray.get(ref) == 5


def test_loops_that_end_while_something_is_awaited_leave_nothing(ray, gate):
    refs = [gate.wait.remote(number) for number in range(11)]

    async def main(ref):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ref, 0.001)
    asyncio.run(main(refs[0]))
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for ref in refs[1:]:
        asyncio.run(main(ref))
    ray.get(gate.open.remote())
    assert ray.get(refs) == list(range(11))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_loops_in_several_threads(ray, later):
    found = []

    def run(number):
        async def main():
            return await asyncio.gather(*[later.remote((number, i)) for i in range(5)])
        found.extend(asyncio.run(main()))
    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [(number, i) for number in range(4) for i in range(5)]


def test_one_reference_awaited_twice(ray, later):
    async def main():
        ref = later.remote(6)
        return await asyncio.gather(ref, ref)
    assert asyncio.run(main()) == [6, 6]


def test_the_loop_turns_while_it_waits(ray, gate):
    async def main():
        waiting = asyncio.ensure_future(gate.wait.remote(1))
        for _ in range(10):
            await asyncio.sleep(0.001)
            assert not waiting.done()
        await gate.open.remote()
        assert await waiting == 1
    asyncio.run(main())


def test_futures(ray, later):
    futures = [later.remote(i).future() for i in range(20)]
    assert [future.result(10) for future in futures] == list(range(20))
    with pytest.raises(KeyError):
        later.remote(KeyError(1)).future().result(10)


def test_futures_share_a_thread(ray, later):
    later.remote(0, 0).future().result()
    before = threading.active_count()
    futures = [later.remote(i).future() for i in range(20)]
    assert threading.active_count() == before
    assert [future.result() for future in futures] == list(range(20))


def test_a_future_in_a_loop(ray, later):
    async def main():
        return await asyncio.wrap_future(later.remote(7).future())
    assert asyncio.run(main()) == 7


def test_a_future_calls_back(ray, later):
    called = threading.Event()
    later.remote(1).future().add_done_callback(lambda future: called.set())
    assert called.wait(10)


def test_await_in_an_async_actor(ray, later):
    @ray.remote
    class Waiter:
        async def both(self, boxed):
            return await asyncio.gather(*boxed)

        async def threads(self, boxed):
            await asyncio.gather(*boxed)
            return threading.active_count()
    waiter = Waiter.remote()
    assert ray.get(waiter.both.remote([later.remote(1), later.remote(2)])) == [1, 2]
    before = ray.get(waiter.threads.remote([]))
    assert ray.get(waiter.threads.remote([later.remote(i) for i in range(10)])) == before


def test_await_after_fork(run_program):
    done = run_program("""
        import asyncio, os, miniray
        miniray.init(num_workers=1)
        @miniray.remote
        def one():
            return 1
        async def main():
            return await one.remote()
        assert asyncio.run(main()) == 1 and one.remote().future().result() == 1
        if os.fork() == 0:
            miniray.init(num_workers=1)
            assert asyncio.run(main()) == 1 and one.remote().future().result() == 1
            miniray.shutdown()
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        """)
    assert done.stdout == "7\n"


# ---- Concurrency groups


def test_groups_of_threads_do_not_wait_for_each_other(ray):
    @ray.remote(concurrency_groups={"io": 1, "compute": 2})
    class Grouped:
        def __init__(self):
            self.event = threading.Event()

        @ray.method(concurrency_group="io")
        def wait(self):
            return self.event.wait(10)

        @ray.method(concurrency_group="compute")
        def name(self):
            return threading.current_thread().name

        def free(self):
            self.event.set()
            return threading.current_thread().name
    grouped = Grouped.remote()
    waiting = grouped.wait.remote()
    assert ray.get(grouped.name.remote()).startswith("compute")
    assert ray.get(grouped.free.remote()).startswith("method") and ray.get(waiting)


def test_groups_of_coroutines(ray):
    @ray.remote(concurrency_groups={"one": 1})
    class Grouped:
        def __init__(self):
            self.inside = self.most = 0

        @ray.method(concurrency_group="one")
        async def alone(self):
            self.inside += 1
            self.most = max(self.most, self.inside)
            await asyncio.sleep(0.01)
            self.inside -= 1

        async def seen(self):
            return self.most
    grouped = Grouped.remote()
    ray.get([grouped.alone.remote() for _ in range(5)])
    assert ray.get(grouped.seen.remote()) == 1


def test_an_async_actor_runs_many_at_once(ray):
    @ray.remote
    class Gate:
        def __init__(self):
            self.inside, self.event = 0, asyncio.Event()

        async def enter(self):
            self.inside += 1
            if self.inside == 900:
                self.event.set()
            await self.event.wait()
            return self.inside
    gate = Gate.remote()
    assert set(ray.get([gate.enter.remote() for _ in range(900)])) == {900}
