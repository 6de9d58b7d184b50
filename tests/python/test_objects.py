"""put, get, wait and cancel."""

import asyncio
import threading
import time

import numpy as np
import pytest


@pytest.fixture
def sleep(ray):
    @ray.remote
    def sleep(seconds):
        time.sleep(seconds)
        return seconds
    return sleep


def test_put_and_get(ray):
    assert ray.get(ray.put({"a": 1})) == {"a": 1}


def test_get_keeps_the_order_of_a_list(ray, sleep):
    refs = [sleep.remote(0.1), ray.put(5), sleep.remote(0)]
    assert ray.get(refs) == [0.1, 5, 0]
    assert ray.get([]) == []


def test_the_same_reference_twice(ray):
    ref = ray.put(3)
    assert ray.get([ref, ref]) == [3, 3]


@pytest.mark.parametrize("wrong", [1, "x", None, (1, 2), [1], {"a": 1}], ids=repr)
def test_get_takes_references_only(ray, wrong):
    with pytest.raises((TypeError, ValueError)):
        ray.get(wrong)


def test_get_with_a_timeout(ray, sleep):
    ref = sleep.remote(1.0)
    start = time.monotonic()
    with pytest.raises(ray.exceptions.GetTimeoutError, match=r"get\(\) timed out after 0.1 s waiting for task .*`miniray why o"):
        ray.get(ref, timeout=0.1)
    assert time.monotonic() - start < 0.9
    with pytest.raises(TimeoutError):
        ray.get([ref], timeout=0)
    assert ray.get(ref, timeout=20) == 1.0
    with pytest.raises(ValueError):
        ray.get(ref, timeout=-1)


def test_put_takes_no_reference(ray):
    with pytest.raises(TypeError):
        ray.put(ray.put(1))


def test_references_print_compare_and_hash(ray):
    a, b = ray.put(1), ray.put(1)
    assert repr(a) == f"ObjectRef({a.hex()})" and len(a.hex()) == 32
    assert a == a and a != b and a != 1
    assert len({a, b, a}) == 2
    assert len(a.binary()) == 16
    assert a.job_id().hex() == ray.get_runtime_context().get_job_id()


def test_references_cannot_be_made_by_hand(ray):
    with pytest.raises(TypeError):
        ray.ObjectRef()


def test_wait_gives_what_is_ready(ray, sleep):
    quick, slow = sleep.remote(0), sleep.remote(1)
    ready, rest = ray.wait([slow, quick])
    assert ready == [quick] and rest == [slow]
    ray.cancel(slow)


def test_wait_gives_no_more_than_was_asked_for(ray):
    refs = [ray.put(i) for i in range(4)]
    ready, rest = ray.wait(refs, num_returns=2)
    assert ready == refs[:2] and rest == refs[2:]


def test_wait_with_a_timeout(ray, sleep):
    ref = sleep.remote(0.5)
    assert ray.wait([ref], timeout=0) == ([], [ref])
    assert ray.wait([ref], timeout=0.05) == ([], [ref])
    assert ray.wait([ref], timeout=20) == ([ref], [])


def test_wait_checks_its_arguments(ray):
    a = ray.put(1)
    for wrong in (lambda: ray.wait(a), lambda: ray.wait([a, a]), lambda: ray.wait([a], num_returns=2),
                  lambda: ray.wait([a], num_returns=0), lambda: ray.wait([1]), lambda: ray.wait([a], timeout=-1),
                  lambda: ray.wait([a], no_such=1)):
        with pytest.raises((TypeError, ValueError)):
            wrong()
    assert ray.wait([]) == ([], [])


def test_wait_counts_failures_as_ready(ray):
    @ray.remote
    def fail():
        raise ValueError
    ref = fail.remote()
    assert ray.wait([ref], timeout=20) == ([ref], [])
    with pytest.raises(ValueError):
        ray.get(ref)


def test_wait_on_many(ray):
    refs = [ray.put(i) for i in range(1000)]
    assert ray.wait(refs, num_returns=1000)[0] == refs


def test_cancel_a_task_that_waits(ray, sleep):
    gate = sleep.remote(0.5)

    @ray.remote
    def after(x):
        return x
    ref = after.remote(gate)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    assert ray.get(gate) == 0.5


def test_cancel_of_what_is_done_does_nothing(ray):
    ref = ray.put(1)
    ray.cancel(ref)
    assert ray.get(ref) == 1
    with pytest.raises(TypeError):
        ray.cancel(1)


def test_threads_may_wait_at_once(ray, sleep):
    results = []

    def wait(seconds):
        results.append(ray.get(sleep.remote(seconds)))
    threads = [threading.Thread(target=wait, args=(i / 100,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [i / 100 for i in range(8)]


def test_other_threads_run_while_one_waits(ray, sleep):
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(1)
            time.sleep(0.005)
    thread = threading.Thread(target=tick)
    thread.start()
    ray.get(sleep.remote(0.5))
    stop.set()
    thread.join()
    assert len(ticks) > 10


def test_await_a_reference(ray, sleep):
    import asyncio

    async def main():
        return await asyncio.gather(sleep.remote(0.05), sleep.remote(0))

    async def fail():
        await ray.remote(lambda: 1 / 0).remote()
    assert asyncio.run(main()) == [0.05, 0]
    with pytest.raises(ZeroDivisionError):
        asyncio.run(fail())


def test_a_reference_as_a_future(ray, sleep):
    assert sleep.remote(0.01).future().result(20) == 0.01


def test_references_inside_of_values(ray, sleep):
    refs = [ray.put(i) for i in range(3)]
    got = ray.get(ray.put({"refs": refs, "one": (refs[0],)}))
    assert got["refs"] == refs and ray.get(got["refs"]) == [0, 1, 2] and ray.get(got["one"][0]) == 0


def test_references_inside_of_arguments_stay_references(ray):
    @ray.remote
    def look(items, plain):
        return isinstance(items[0], ray.ObjectRef), ray.get(items), plain
    refs = [ray.put("a"), ray.put("b")]
    assert ray.get(look.remote(refs, refs[0])) == (True, ["a", "b"], "a")


def test_references_inside_of_objects_that_are_pickled(ray):
    class Box:
        def __init__(self, *refs):
            self.refs = refs
    box = ray.get(ray.put(Box(ray.put(1), ray.put([2]))))
    assert ray.get(list(box.refs)) == [1, [2]]

    @ray.remote
    def open_box(box):
        return ray.get(list(box.refs))
    assert ray.get(open_box.remote(Box(ray.put("x")))) == ["x"]


def test_a_task_may_return_references(ray):
    @ray.remote
    def inner(x):
        return x * 2

    @ray.remote
    def outer():
        return [inner.remote(1), inner.remote(2), ray.put("put")]
    assert ray.get(ray.get(outer.remote())) == [2, 4, "put"]


def test_a_task_may_return_one_reference(ray):
    @ray.remote
    def inner():
        return 5

    @ray.remote
    def outer():
        return inner.remote()
    ref = ray.get(outer.remote())
    assert isinstance(ref, ray.ObjectRef) and ray.get(ref) == 5


def test_references_in_closures(ray):
    ref = ray.put("captured")

    @ray.remote
    def read():
        return ray.get(ref)
    assert ray.get([read.remote(), read.remote()]) == ["captured"] * 2


def test_an_actor_keeps_a_reference(ray):
    @ray.remote
    class Keeper:
        def keep(self, items):
            self.items = items

        def read(self):
            return ray.get(self.items[0])
    keeper = Keeper.remote()
    ray.get(keeper.keep.remote([ray.put("kept")]))
    assert ray.get(keeper.read.remote()) == "kept"
    ray.kill(keeper)


def test_an_object_with_many_references(ray):
    refs = [ray.put(i) for i in range(2000)]
    assert ray.get(ray.get(ray.put(refs))) == list(range(2000))


def test_a_large_argument_is_not_copied_and_outlives_the_call(ray):
    import numpy as np

    @ray.remote
    class Keeper:
        def keep(self, array, small):
            self.array, self.small = array, small
            return array.flags.owndata, array.flags.writeable, type(array.base).__name__

        def total(self):
            return float(self.array.sum()), self.small
    keeper = Keeper.remote()
    assert ray.get(keeper.keep.remote(np.ones(500_000), [1])) == (False, False, "Memory")
    for _ in range(5):
        ray.get(ray.put(np.zeros(500_000)))
    assert ray.get(keeper.total.remote()) == (500_000.0, [1])
    ray.kill(keeper)


def test_references_come_back_to_who_made_them(ray):
    @ray.remote
    class Maker:
        def make(self, value):
            return [ray.put(value), {"other": ray.put([value])}]

        def use(self, refs):
            return ray.get(refs[0]), ray.get(refs[1]["other"])

        def keep(self, refs):
            self.refs = refs

        def kept(self):
            return self.use(self.refs)
    maker, other = Maker.remote(), Maker.remote()
    for value in (1, "x" * 5000, np.zeros(100_000).tobytes()):
        made = maker.make.remote(value)
        for user in (maker, other):
            assert ray.get(user.use.remote(made)) == (value, [value])
            assert ray.get(user.use.remote(ray.get(made))) == (value, [value])
        ray.get(maker.keep.remote(made))
        del made
        assert ray.get(maker.kept.remote()) == (value, [value])


# ---- Arguments and attributes of Ray's functions and references.


def test_arguments_by_their_names(ray):
    ref = ray.put(value=3)
    assert ray.get(object_refs=ref) == 3 and ray.get(object_refs=[ref], timeout=60) == [3]
    assert ray.wait(object_refs=[ref]) == ([ref], []) == ray.wait(ray_waitables=[ref], num_returns=1)
    assert ray.get(ray.put(4, _owner=None)) == 4
    for wrong in (lambda: ray.get(), lambda: ray.get(ref, object_refs=ref), lambda: ray.get(ref, ref),
                  lambda: ray.wait(), lambda: ray.wait([ref], object_refs=[ref]),
                  lambda: ray.put(), lambda: ray.put(1, 2), lambda: ray.put(1, value=2), lambda: ray.put(1, owner=2)):
        with pytest.raises(TypeError):
            wrong()


def test_a_reference_as_a_future_of_asyncio(ray, sleep):
    async def main():
        late = sleep.remote(0.05).as_future()
        done, waiting = await asyncio.wait([late, ray.put(1).as_future()])
        return len(done), len(waiting), await ray.put(2).as_future()
    assert asyncio.run(main()) == (2, 0, 2)


def test_a_function_that_is_called_with_what_is_there(ray):
    import queue
    came = queue.Queue()
    ray.put(5)._on_completed(came.put)
    assert came.get(timeout=60) == 5

    @ray.remote(max_retries=0)
    def fail():
        raise KeyError("no")
    fail.remote()._on_completed(came.put)
    assert isinstance(came.get(timeout=60), KeyError)


def test_a_signal_while_a_put_waits_for_memory(run_program):
    done = run_program("""
        import signal
        import numpy
        import miniray

        class Whim(Exception):
            pass

        def raise_whim(*_):
            raise Whim

        miniray.init(num_cpus=1, object_store_memory=64 << 20)
        signal.signal(signal.SIGALRM, raise_whim)
        seen = []
        try:
            while True:  # what is looked at stays in memory: soon there is none, and it is waited for
                signal.setitimer(signal.ITIMER_REAL, 1)
                seen.append(miniray.get(miniray.put(numpy.zeros(1 << 20))))
        except Whim as whim:
            print(whim.__context__)  # that there was no room, if it came only after the wait
    """)
    assert done.stdout == "None\n"


def test_a_reference_by_its_bytes(ray):
    ref = ray.put([1, 2])
    again = ray.ObjectRef(ref.binary())
    assert again == ref == ray.ObjectRef.from_hex(ref.hex()) and again is not ref and not ref.is_nil()
    del ref
    assert ray.get(again) == [1, 2] and len(again.binary()) == ray.ObjectRef.size()
    with pytest.raises(ValueError, match="16 bytes, not 3"):
        ray.ObjectRef(b"abc")
    with pytest.raises(ValueError):
        ray.ObjectRef(b"x" * 16)
    with pytest.raises(TypeError):
        ray.ObjectRef()


def test_a_reference_to_nothing(ray):
    nil = ray.ObjectRef.nil()
    assert nil.is_nil() and nil == ray.ObjectRef.nil() and nil.hex() == "0" * 32 and nil.call_site() == ""
    with pytest.raises(ValueError):
        ray.get(nil)


# ---- Arrays that their receiver owns and may write to.

def test_what_is_written_into_one_is_not_seen_in_another(ray):
    """The same holds for torch tensors of that size, which are in shared memory (test_torch.py)."""
    import numpy as np

    @ray.remote
    def make():
        from miniray import _core
        _core.give_arrays()
        return [np.ones(100_000), np.ones(50_000)]
    ref = make.remote()
    one, other = ray.get(ref), ray.get(ref)
    assert one[0].flags.writeable and other[0].flags.writeable
    one[0][:] = 0
    third = ray.get(ref)  # while the written one is alive
    assert (other[0] == 1).all() and (third[0] == 1).all() and (third[1] == 1).all()
    other[0][:] = 2
    third[0][:] = 3
    assert (one[0] == 0).all() and (other[0] == 2).all() and (ray.get(ref)[0] == 1).all()
    where, kept = one[0].ctypes.data, one[1]
    del one, other, third
    again = ray.get(ref)  # the cached value has the content of the written one
    assert (again[0] == 1).all() and again[0].ctypes.data != where and (kept == 1).all()
    del again, kept
    last = ray.get(ref)
    assert (last[0] == 1).all() and last[0].ctypes.data == where
