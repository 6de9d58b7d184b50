"""Waiting in get: signals, failures of a list, processes that sleep meanwhile, and tasks that wait for tasks."""

import asyncio
import os
import pathlib
import signal
import threading
import time

import pytest

LATER = 0.1
SWITCHES_MAX = 10 * 2  # a second: ten times the bar


@pytest.fixture(scope="module")
def sleep(ray):
    @ray.remote
    def sleep(seconds):
        time.sleep(seconds)
        return seconds
    return sleep


@pytest.fixture
def kicked():
    """kicked(function): a signal arrives after LATER seconds, and its handler calls the function. Returns the times."""
    threads, times, before = [], [], signal.getsignal(signal.SIGUSR1)

    def kick(function=lambda: None, thread=None):
        def handle(number, frame):
            times.append(time.monotonic())
            function()

        def send():
            time.sleep(LATER)
            if thread is None:
                os.kill(os.getpid(), signal.SIGUSR1)
            else:
                signal.pthread_kill(thread.ident, signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, handle)
        threads.append(threading.Thread(target=send))
        threads[-1].start()
        return times
    yield kick
    for thread in threads:
        thread.join()
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_interrupts_get(ray, sleep, kicked):
    def stop():
        raise InterruptedError("enough")
    ref = sleep.remote(1.5)
    start = time.monotonic()
    kicked(stop)
    with pytest.raises(InterruptedError, match="enough"):
        ray.get(ref)
    assert time.monotonic() - start < 2
    kicked(stop)
    with pytest.raises(InterruptedError, match="enough"):
        ray.wait([ref])
    kicked(stop)
    with pytest.raises(InterruptedError, match="enough"):
        ray.get([ref, ref])
    assert ray.get(ref) == 1.5


def test_a_signal_handled_by_another_thread_interrupts_get(ray, sleep, kicked):
    other = threading.Thread(target=time.sleep, args=(1.5,))
    other.start()
    times, start = kicked(thread=other), time.monotonic()
    assert ray.get(sleep.remote(1)) == 1
    assert len(times) == 1 and times[0] - start < 0.9
    other.join()


def test_get_continues_after_a_signal(ray, sleep, kicked):
    ref = sleep.remote(1)
    kicked()
    with pytest.raises(ray.exceptions.GetTimeoutError, match=r"get\(\) timed out after 0.5 s waiting for task"):
        ray.get(ref, timeout=0.5)
    kicked()
    assert ray.get(ref) == 1


def test_a_handler_may_wait(ray, sleep, kicked):
    inside = []
    kicked(lambda: inside.append(ray.get(sleep.remote(0.05))))
    assert ray.get(sleep.remote(0.3)) == 0.3
    assert inside == [0.05]


def test_a_handler_may_shut_down(run_program):
    assert run_program("""
        import os, signal, threading, time, miniray
        miniray.init(num_workers=1)
        @miniray.remote
        def sleep(seconds):
            time.sleep(seconds)
        def wait(ref):
            try:
                miniray.get(ref)
            except RuntimeError as error:
                print(error, flush=True)
        ref = sleep.remote(100)
        thread = threading.Thread(target=wait, args=(ref,))
        thread.start()
        signal.signal(signal.SIGTERM, lambda *_: miniray.shutdown())
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
        wait(ref)
        thread.join()
    """, timeout=30).stdout == "miniray was shut down while this thread waited\n" * 2


def test_the_signal_also_reaches_the_programs_descriptor(ray, sleep):
    handled = []

    async def main():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, handled.append, 1)
        threading.Timer(LATER, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        ray.get(sleep.remote(3 * LATER))
        for _ in range(200):
            if not handled:
                await asyncio.sleep(0.01)
        loop.remove_signal_handler(signal.SIGUSR1)
    asyncio.run(main())
    assert handled == [1]


def test_a_failure_ends_the_wait_for_a_list(ray, sleep):
    @ray.remote
    def fail(seconds):
        time.sleep(seconds)
        raise ValueError("bad")
    slow, start = sleep.remote(3), time.monotonic()
    with pytest.raises(ValueError, match="bad"):
        ray.get([slow, fail.remote(0.1)])
    assert time.monotonic() - start < 2
    with pytest.raises(ray.exceptions.GetTimeoutError, match="timed out after 0.2 s waiting for task"):
        ray.get([sleep.remote(0), slow], timeout=0.2)
    ray.cancel(slow, force=True)


def _switches(pid):
    total = 0
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        total += int(path.read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return total


def test_processes_that_wait_sleep(ray, sleep, tmp_path):
    @ray.remote
    class Actor:
        def pid(self):
            return os.getpid()

    @ray.remote
    class Coroutines:
        async def pid(self):
            return os.getpid()

    @ray.remote
    def pid():
        return os.getpid()

    @ray.remote
    def blocked(path):
        pathlib.Path(f"{path}.new").write_text(str(os.getpid()))
        os.rename(f"{path}.new", path)
        return ray.get(sleep.remote(100))
    actors, path = [Actor.remote(), Coroutines.remote()], tmp_path / "pid"
    pids = dict(zip(("actor", "coroutines"), ray.get([actor.pid.remote() for actor in actors])))
    pids.update(driver=os.getpid(), worker=ray.get(pid.remote()))
    ref = blocked.remote(str(path))
    while not path.exists():
        time.sleep(0.01)
    pids["blocked"] = int(path.read_text())
    before = {name: _switches(pid) for name, pid in pids.items()}
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(ref, timeout=3)
    rates = {name: (_switches(pid) - before[name]) / 3 for name, pid in pids.items()}
    print(rates)
    assert max(rates.values()) < SWITCHES_MAX, rates
    ray.cancel(ref, force=True)


def test_nested_tasks(ray):
    @ray.remote
    def nest(depth):
        return 1 + ray.get(nest.remote(depth - 1)) if depth > 1 else 1
    start = time.monotonic()
    assert ray.get(nest.remote(100)) == 100
    assert time.monotonic() - start < 10  # ten times the bar
