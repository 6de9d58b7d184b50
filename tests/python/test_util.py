"""ActorPool and Queue."""

import asyncio
import queue as standard
import time

import pytest

from miniray.util import ActorPool, as_completed, map_unordered
from miniray.util.queue import Empty, Full, Queue


@pytest.fixture
def Worker(ray):
    @ray.remote
    class Worker:
        def double(self, x):
            return 2 * x

        def slow(self, x):
            time.sleep(x)
            return x
    return Worker


@pytest.fixture
def pool(ray, Worker):
    actors = [Worker.remote() for _ in range(2)]
    yield ActorPool(actors)
    for actor in actors:
        ray.kill(actor)


def test_map_keeps_the_order(pool):
    assert list(pool.map(lambda a, v: a.double.remote(v), range(20))) == [2 * i for i in range(20)]


def test_map_unordered_gives_all(pool):
    assert sorted(pool.map_unordered(lambda a, v: a.double.remote(v), range(20))) == [2 * i for i in range(20)]


@pytest.mark.parametrize("name", ["map", "map_unordered"])
def test_an_error_is_raised_where_its_result_would_come_and_the_others_come_after_it(ray, name):
    @ray.remote
    class Divider:
        def divide(self, value):
            return 12 // value
    pool = ActorPool([Divider.remote()])
    results = getattr(pool, name)(lambda actor, value: actor.divide.remote(value), [1, 0, 2, 3])
    assert next(results) == 12
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert list(results) == [6, 4] and list(results) == []


def test_submit_and_get_next(pool):
    for i in range(5):
        pool.submit(lambda a, v: a.double.remote(v), i)
    got = []
    while pool.has_next():
        got.append(pool.get_next())
    assert got == [0, 2, 4, 6, 8]
    with pytest.raises(StopIteration):
        pool.get_next()


def test_get_next_unordered_gives_the_first_that_is_done(pool):
    pool.submit(lambda a, v: a.slow.remote(v), 0.5)
    pool.submit(lambda a, v: a.slow.remote(v), 0)
    assert pool.get_next_unordered() == 0
    assert pool.get_next_unordered() == 0.5


def test_a_pool_timeout(pool):
    pool.submit(lambda a, v: a.slow.remote(v), 0.3)
    with pytest.raises(TimeoutError):
        pool.get_next(timeout=0.01)
    assert pool.get_next() == 0.3


def test_an_actor_that_died_leaves_the_pool(ray):
    import os

    @ray.remote
    class Mortal:
        def work(self, value):
            if value < 0:
                os._exit(1)
            return value
    pool = ActorPool([Mortal.remote() for _ in range(2)])
    for value in (-1, 1, 2, 3):
        pool.submit(lambda actor, value: actor.work.remote(value), value)
    with pytest.raises(ray.exceptions.ActorDiedError):
        pool.get_next()
    assert [pool.get_next() for _ in range(3)] == [1, 2, 3]
    assert pool.pop_idle() is not None and pool.pop_idle() is None


def test_push_and_pop(ray, pool, Worker):
    assert pool.has_free()
    one, two = pool.pop_idle(), pool.pop_idle()
    assert one is not None and two is not None and pool.pop_idle() is None and not pool.has_free()
    pool.push(one)
    with pytest.raises(ValueError):
        pool.push(one)
    pool.push(two)


def test_a_queue_in_order(ray):
    queue = Queue()
    for i in range(10):
        queue.put(i)
    assert len(queue) == 10 and not queue.empty()
    assert [queue.get() for _ in range(10)] == list(range(10))
    assert queue.empty()
    queue.shutdown()


def test_a_queue_that_is_full_or_empty(ray):
    queue = Queue(maxsize=2)
    queue.put_nowait_batch([1, 2])
    assert queue.full()
    with pytest.raises(Full):
        queue.put_nowait(3)
    with pytest.raises(Full):
        queue.put(3, timeout=0.01)
    with pytest.raises(ValueError):
        queue.put(3, timeout=-1)
    assert queue.get_nowait_batch(2) == [1, 2]
    with pytest.raises(Empty):
        queue.get_nowait()
    with pytest.raises(Empty):
        queue.get(timeout=0.01)
    queue.shutdown()


def test_tasks_share_a_queue(ray):
    queue = Queue(maxsize=3)

    @ray.remote
    def produce(queue, count):
        for i in range(count):
            queue.put(i)
        return count

    @ray.remote
    def consume(queue, count):
        return sum(queue.get() for _ in range(count))
    produced, consumed = produce.remote(queue, 30), consume.remote(queue, 30)
    assert ray.get(consumed) == sum(range(30)) and ray.get(produced) == 30
    queue.shutdown()


def test_one_who_waits_for_a_queue_is_woken(ray):
    queue = Queue(maxsize=1)

    @ray.remote
    def take(queue):
        return queue.get()
    taken = take.remote(queue)
    assert ray.wait([taken], timeout=0.05)[0] == []
    queue.put("it")
    assert ray.get(taken, timeout=30) == "it"
    queue.shutdown(force=True)


def test_more_wait_for_a_queue_than_calls_of_an_actor_usually_run(ray):
    queue = Queue()
    waiting = [queue.actor.get.remote(None) for _ in range(1200)]
    queue.put_nowait_batch(range(1200))
    assert ray.get(waiting, timeout=60) == [[i] for i in range(1200)]
    queue.shutdown()


def test_a_queue_in_coroutines(ray):
    queue = Queue(maxsize=1)

    async def both():
        taken = asyncio.ensure_future(queue.get_async())
        await queue.put_async("one")
        assert await taken == "one"
        with pytest.raises(Empty):
            await queue.get_async(block=False)
        await queue.put_async("two", timeout=10)
        with pytest.raises(Full):
            await queue.put_async("three", timeout=0.01)
    asyncio.run(both())
    queue.shutdown()


def test_a_queue_says_what_it_takes(ray):
    queue = Queue(maxsize=2)
    for wrong, error in ((lambda: queue.put_nowait_batch(1), TypeError), (lambda: queue.get_nowait_batch("1"), TypeError),
                         (lambda: queue.get_nowait_batch(-1), ValueError), (lambda: queue.get(timeout=-1), ValueError),
                         (lambda: queue.put_nowait_batch([1, 2, 3]), Full), (lambda: queue.get_nowait_batch(1), Empty)):
        with pytest.raises(error):
            wrong()
    assert issubclass(Empty, standard.Empty) and issubclass(Full, standard.Full)
    queue.shutdown()


# ---- Results in order of completion.


def test_as_completed(ray):
    @ray.remote
    def double(x):
        return 2 * x
    refs = [double.remote(number) for number in range(25)]
    assert sorted(as_completed(refs)) == list(range(0, 50, 2))
    assert set(as_completed(refs, chunk_size=3, yield_obj_refs=True)) == set(refs)
    assert list(as_completed([])) == []
    with pytest.raises(ValueError):
        list(as_completed(refs, chunk_size=0))


def test_map_unordered(ray):
    @ray.remote
    def double(x):
        return 2 * x
    assert sorted(map_unordered(double, range(25), backpressure_size=4)) == list(range(0, 50, 2))
    assert sorted(map_unordered(double, iter([1, 2]), backpressure_size=None)) == [2, 4]
    refs = list(map_unordered(double, range(5), yield_obj_refs=True))
    assert sorted(ray.get(refs)) == [0, 2, 4, 6, 8]
    with pytest.raises(ValueError):
        list(map_unordered(double, [1], backpressure_size=0))


def test_a_pool_is_given_all_its_work_at_once(ray):
    @ray.remote
    class Counts:
        calls = 0

        def call(self, value):
            self.calls += 1
            return value

        def seen(self):
            return self.calls

    actors = [Counts.remote() for _ in range(2)]
    for name in ("map", "map_unordered"):
        before = sum(ray.get([actor.seen.remote() for actor in actors]))
        results = getattr(ActorPool(actors), name)(lambda actor, value: actor.call.remote(value), [1, 2])
        assert sum(ray.get([actor.seen.remote() for actor in actors])) == before + 2  # no result was requested
        assert sorted(results) == [1, 2]


def test_a_pool_takes_calls_with_several_returns(ray):
    @ray.remote
    class Pairs:
        @ray.method(num_returns=2)
        def pair(self, value):
            return value, value + 1

    pool = ActorPool([Pairs.remote() for _ in range(2)])
    assert list(pool.map(lambda actor, value: actor.pair.remote(value), range(5))) == [[n, n + 1] for n in range(5)]
    pool.submit(lambda actor, value: actor.pair.remote(value), 7)
    assert pool.get_next_unordered(timeout=20) == [7, 8]


def test_a_new_actor_takes_work_that_waits(ray):
    @ray.remote
    class Echo:
        def echo(self, value):
            return value

    first, second = Echo.remote(), Echo.remote()
    pool = ActorPool([first])
    for value in range(2):
        pool.submit(lambda actor, value: actor.echo.remote(value), value)
    assert not pool.has_free() and len(pool._pending_submits) == 1
    pool.push(second)
    assert not pool.has_free() and not pool._pending_submits
    assert [pool.get_next(), pool.get_next()] == [0, 1]


def test_marks_of_what_is_stable():
    from miniray.util.annotations import Deprecated, DeveloperAPI, PublicAPI

    @PublicAPI
    def plain():
        """Does nothing."""
        return 1

    @PublicAPI(stability="beta")
    class Thing:
        """Is nothing."""

    @DeveloperAPI
    @Deprecated(message="use another")
    def bare():
        return 2
    assert plain() == 1 and bare() == 2 and bare.__doc__ is None
    assert plain.__doc__.startswith("Does nothing.") and "PublicAPI" in plain.__doc__ and "PublicAPI" in Thing.__doc__
