"""Actors that run several methods at once, and retried tasks."""

import asyncio
import os
import threading
import time

import pytest


@pytest.fixture
def Signal(ray):
    @ray.remote
    class Signal:
        """Waiting calls return when another call sends the signal."""

        def __init__(self):
            self.event = asyncio.Event()

        async def send(self):
            self.event.set()

        async def wait(self, x=None):
            await self.event.wait()
            return x
    return Signal


def test_coroutines_run_at_once(ray, Signal):
    signal = Signal.remote()
    waiting = [signal.wait.remote(i) for i in range(50)]
    assert ray.wait(waiting, timeout=0.1)[0] == []
    ray.get(signal.send.remote())
    assert ray.get(waiting) == list(range(50))
    ray.kill(signal)


@pytest.mark.parametrize("options", [{}, {"max_concurrency": 2}])
def test_static_and_class_methods_of_actors_that_run_several(ray, options):
    class Base:
        @staticmethod
        def double(x):
            return 2 * x

        @classmethod
        def called(cls, x=1):
            return cls.__name__, x

    class Threads(Base):
        pass

    class Coroutines(Base):
        async def wait(self):
            pass
    for cls in Threads, Coroutines:
        actor = ray.remote(cls).options(**options).remote()
        assert ray.get([actor.double.remote(4), actor.called.remote(x=3)]) == [8, (cls.__name__, 3)]
        ray.kill(actor)


def test_plain_methods_of_an_async_actor(ray):
    @ray.remote
    class Mixed:
        async def later(self, x):
            await asyncio.sleep(0.01)
            return x

        def now(self, x):
            return -x

        async def fail(self):
            raise KeyError("async")
    mixed = Mixed.remote()
    assert ray.get([mixed.later.remote(1), mixed.now.remote(2)]) == [1, -2]
    with pytest.raises(KeyError):
        ray.get(mixed.fail.remote())
    ray.kill(mixed)


def test_a_method_of_an_async_actor_may_give_back_a_reference(ray):
    @ray.remote
    class Mixed:
        def now(self):
            return ray.put("now")

        async def later(self):
            return ray.put("later")

        def promised(self):  # a plain method that returns a coroutine, as decorators make them
            return self.later()
    mixed = Mixed.remote()
    for name in ("now", "later"):
        ref = ray.get(getattr(mixed, name).remote())
        assert isinstance(ref, ray.ObjectRef) and ray.get(ref) == name
    assert ray.get(ray.get(mixed.promised.remote())) == "later"
    ray.kill(mixed)


def test_a_limit_on_coroutines(ray):
    @ray.remote(max_concurrency=2)
    class Limited:
        def __init__(self):
            self.now = self.most = 0

        async def work(self):
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0.01)
            self.now -= 1

        async def seen(self):
            return self.most
    limited = Limited.remote()
    ray.get([limited.work.remote() for _ in range(10)])
    assert ray.get(limited.seen.remote()) == 2
    ray.kill(limited)


def test_references_are_awaited_in_actors(ray):
    @ray.remote
    def slow(x):
        time.sleep(0.05)
        return x

    @ray.remote
    class Gather:
        async def all(self, count):
            return await asyncio.gather(*[slow.remote(i) for i in range(count)])
    gather = Gather.remote()
    assert ray.get(gather.all.remote(4)) == [0, 1, 2, 3]
    ray.kill(gather)


def test_the_loop_of_an_actor_is_a_whole_one(ray):
    """Timers, threads, pipes and processes work while calls arrive."""
    @ray.remote
    class Busy:
        def __init__(self):
            self.loop = asyncio.get_running_loop()
            self.ticks = 0
            self.ticker = self.loop.create_task(self.tick())

        async def tick(self):
            while True:
                await asyncio.sleep(0.001)
                self.ticks += 1

        async def count(self):
            return self.ticks

        async def in_thread(self):
            assert asyncio.get_running_loop() is self.loop
            return await self.loop.run_in_executor(None, threading.get_ident) != threading.get_ident()

        async def from_thread(self):
            there = self.loop.create_future()
            threading.Thread(target=lambda: self.loop.call_soon_threadsafe(there.set_result, 5)).start()
            return await there

        async def through_pipe(self, text):
            reading, writing = os.pipe()
            there = self.loop.create_future()
            self.loop.add_reader(reading, lambda: there.done() or there.set_result(os.read(reading, 100)))
            threading.Thread(target=os.write, args=(writing, text)).start()
            got = await there
            self.loop.remove_reader(reading)
            os.close(reading), os.close(writing)
            return got

        async def process(self):
            made = await asyncio.create_subprocess_exec("echo", "hello", stdout=asyncio.subprocess.PIPE)
            return (await made.communicate())[0]
    busy = Busy.remote()
    ticks = ray.get(busy.count.remote())
    for i in range(20):
        assert ray.get(busy.through_pipe.remote(b"%d" % i), timeout=20) == b"%d" % i
        assert ray.get([busy.from_thread.remote(), busy.in_thread.remote()], timeout=20) == [5, True]
    assert ray.get(busy.process.remote(), timeout=20) == b"hello\n"
    assert ray.get([busy.from_thread.remote() for _ in range(100)], timeout=20) == [5] * 100
    deadline = time.monotonic() + 20
    while ray.get(busy.count.remote()) < ticks + 20:
        assert time.monotonic() < deadline
    ray.kill(busy)


def test_methods_in_threads(ray):
    @ray.remote(max_concurrency=3)
    class Threads:
        def __init__(self):
            self.barrier = threading.Barrier(3)

        def meet(self):
            self.barrier.wait(20)
            return threading.get_ident()

        def fail(self):
            raise IndexError("in a thread")
    threads = Threads.remote()
    assert len(set(ray.get([threads.meet.remote() for _ in range(3)]))) == 3
    with pytest.raises(IndexError):
        ray.get(threads.fail.remote())
    ray.kill(threads)


def test_one_method_at_a_time_otherwise(ray):
    @ray.remote
    class Single:
        def __init__(self):
            self.inside = False

        def work(self):
            assert not self.inside
            self.inside = True
            time.sleep(0.01)
            self.inside = False
            return threading.current_thread() is threading.main_thread()
    single = Single.remote()
    assert all(ray.get([single.work.remote() for _ in range(5)]))
    ray.kill(single)


def test_concurrency_is_checked(ray):
    with pytest.raises(ValueError):
        ray.remote(max_concurrency=0)(type("A", (), {}))


def test_exceptions_are_retried_if_asked_for(ray, tmp_path):
    def attempt(path, error):
        with open(path, "a") as file:
            file.write("x")
        if os.path.getsize(path) < 3:
            raise error
        return os.path.getsize(path)
    task = ray.remote(max_retries=5)(attempt)
    with pytest.raises(ValueError):
        ray.get(task.remote(str(tmp_path / "a"), ValueError()))
    assert ray.get(task.options(retry_exceptions=True).remote(str(tmp_path / "b"), ValueError())) == 3
    assert ray.get(task.options(retry_exceptions=[KeyError]).remote(str(tmp_path / "c"), KeyError())) == 3
    with pytest.raises(ValueError):
        ray.get(task.options(retry_exceptions=[KeyError]).remote(str(tmp_path / "d"), ValueError()))
    with pytest.raises(ValueError):
        ray.get(task.options(retry_exceptions=True, max_retries=1).remote(str(tmp_path / "e"), ValueError()))


def test_calls_are_sent_again_to_an_actor_that_was_started_again(ray, tmp_path):
    @ray.remote(max_restarts=1, max_task_retries=1)
    class Dies:
        def once(self, path):
            if not os.path.exists(path):
                open(path, "w").close()
                os._exit(1)
            return "second time"
    dies = Dies.remote()
    assert ray.get(dies.once.remote(str(tmp_path / "x"))) == "second time"
    ray.kill(dies)


def test_an_actor_knows_itself(ray):
    @ray.remote
    class Own:
        def who(self):
            context = ray.get_runtime_context()
            return context.get_actor_id(), context.current_actor
    own = Own.remote()
    name, handle = ray.get(own.who.remote())
    assert handle == own and name == own.__actor_id__
    assert ray.get_runtime_context().get_actor_id() is None
    with pytest.raises(RuntimeError):
        ray.get_runtime_context().current_actor
    ray.kill(own)


def test_the_concurrency_group_of_a_call_can_be_chosen(ray):
    @ray.remote(concurrency_groups={"io": 1, "compute": 1})
    class Threads:
        def __init__(self):
            self.gate = threading.Event()

        def wait(self):
            self.gate.wait()
            return threading.current_thread().name

        def open(self, set=True):
            if set:
                self.gate.set()
            return threading.current_thread().name
    actor = Threads.remote()
    waits = actor.wait.options(concurrency_group="io").remote()
    behind = actor.open.options(concurrency_group="io").remote(set=False)
    assert ray.get(actor.open.options(concurrency_group="compute").remote(set=False)).startswith("compute")
    last = actor.open.options(concurrency_group="io").options(concurrency_group="compute")  # the last option counts
    assert ray.get(last.remote(set=False)).startswith("compute")
    assert not ray.wait([behind], timeout=0)[0]
    with pytest.raises(ValueError, match=r"Threads has no concurrency group 'other', .* open\(\) .* \['compute', 'io'\]"):
        ray.get(actor.open.options(concurrency_group="other").remote())
    assert ray.get(actor.open.remote()).startswith("method")
    assert [name.partition("-")[0] for name in ray.get([waits, behind])] == ["io", "io"]


def test_an_actor_without_concurrency_groups_rejects_them(ray):
    @ray.remote
    class Plain:
        def open(self):
            return 1
    actor = Plain.remote()
    for options in ({}, {"max_task_retries": 1}):
        with pytest.raises(ValueError, match=r"Plain has no concurrency group 'io', which a call of open\(\) names"):
            ray.get(actor.open.options(concurrency_group="io", **options).remote())
    assert ray.get(actor.open.remote()) == 1


def test_the_concurrency_group_of_a_coroutine_can_be_chosen(ray):
    @ray.remote(concurrency_groups={"one": 1})
    class Loop:
        is_open = False

        async def wait(self):
            while not self.is_open:  # groups have separate loops, and an asyncio.Event belongs to one loop
                await asyncio.sleep(0.001)
            return "waited"

        async def open(self):
            self.is_open = True
            return "opened"
    actor = Loop.remote()
    waits = actor.wait.options(concurrency_group="one").remote()
    behind = actor.open.options(concurrency_group="one").remote()
    assert not ray.wait([behind], timeout=0.1)[0]
    with pytest.raises(ValueError, match=r"Loop has no concurrency group 'two'"):
        ray.get(actor.open.options(concurrency_group="two").remote())
    assert ray.get([actor.open.remote(), waits, behind]) == ["opened", "waited", "opened"]


def test_a_method_in_a_group_that_its_actor_does_not_have_is_told_of(ray):
    @ray.remote
    class Forgotten:
        @ray.method(concurrency_group="io")
        def read(self):
            pass
    with pytest.raises(ValueError, match=r"Forgotten.read\(\) is in the concurrency group 'io', which"):
        Forgotten.remote()


def test_each_concurrency_group_of_coroutines_has_a_loop(ray):
    """A method that blocks delays only its own group."""
    @ray.remote(concurrency_groups={"io": 2, "compute": 1})
    class Groups:
        def __init__(self):
            self.loop, self.gate = asyncio.get_running_loop(), threading.Event()

        @ray.method(concurrency_group="io")
        async def read(self):
            await asyncio.sleep(0)
            return id(asyncio.get_running_loop()), threading.current_thread().name

        @ray.method(concurrency_group="io")
        def read_now(self):
            return id(asyncio.get_running_loop()), threading.current_thread().name

        @ray.method(concurrency_group="compute")
        async def compute(self):
            self.gate.wait()  # blocks the loop, as no coroutine should
            return "computed"

        def open(self):
            assert asyncio.get_running_loop() is self.loop
            self.gate.set()
            return id(self.loop), threading.current_thread().name
    groups = Groups.remote()
    computed = [groups.compute.remote() for _ in range(2)]
    read, read_now, again = ray.get([groups.read.remote(), groups.read_now.remote(), groups.read.remote()], timeout=60)
    assert read == read_now == again and read[1] == "io"
    assert not ray.wait(computed, timeout=0)[0]
    opened = ray.get(groups.open.remote(), timeout=60)
    assert opened[0] != read[0] and opened[1] == "method"
    assert ray.get(computed, timeout=60) == ["computed"] * 2
    ray.kill(groups)


def test_coroutines_in_concurrency_groups_wait_stream_fail_and_are_cancelled(ray):
    @ray.remote
    def double(x):
        return 2 * x

    @ray.remote(concurrency_groups={"io": 10})
    class Groups:
        def __init__(self):
            self.cancelled = 0

        @ray.method(concurrency_group="io")
        async def doubled(self, x):
            return await double.remote(x)

        @ray.method(concurrency_group="io")
        async def count(self, end):
            for i in range(end):
                yield i

        @ray.method(concurrency_group="io")
        async def fail(self):
            raise KeyError("async")

        @ray.method(concurrency_group="io")
        async def sleep(self):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise

        async def seen(self):
            return self.cancelled
    groups = Groups.remote()
    sleeping = groups.sleep.remote()
    assert ray.get([groups.doubled.remote(i) for i in range(20)], timeout=60) == [2 * i for i in range(20)]
    assert [ray.get(ref) for ref in groups.count.remote(3)] == [0, 1, 2]
    with pytest.raises(KeyError):
        ray.get(groups.fail.remote())
    ray.cancel(sleeping)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(sleeping)
    deadline = time.monotonic() + 60
    while ray.get(groups.seen.remote()) == 0:
        assert time.monotonic() < deadline
    ray.kill(groups)


def test_a_constructor_of_an_actor_with_groups_may_fail(ray):
    @ray.remote(concurrency_groups={"io": 1})
    class Broken:
        def __init__(self):
            raise OSError("no disk")

        async def read(self):
            pass
    with pytest.raises(ray.exceptions.ActorDiedError, match="no disk"):
        ray.get(Broken.remote().read.remote())
