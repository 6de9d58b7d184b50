"""What tests of programs wait with: conditions, signals, the ends of processes."""

import asyncio
import os
import subprocess
import sys
import time

import miniray

__all__ = ["Semaphore", "SignalActor", "async_wait_for_condition", "client_test_enabled", "dicts_equal",
           "kill_actor_and_wait_for_failure", "run_string_as_driver", "run_string_as_driver_nonblocking",
           "wait_for_condition", "wait_for_pid_to_exit"]


def wait_for_condition(condition_predictor, timeout=10, retry_interval_ms=100, raise_exceptions=False, **kwargs):
    """Returns once the function gives something true; RuntimeError: it did not within that many seconds."""
    end, last = time.monotonic() + timeout, None
    while True:
        try:
            if condition_predictor(**kwargs):
                return
        except Exception as error:
            if raise_exceptions:
                raise
            last = error
        if time.monotonic() > end:
            raise RuntimeError("The condition wasn't met before the timeout expired.") from last
        time.sleep(retry_interval_ms / 1000)


async def async_wait_for_condition(condition_predictor, timeout=10, retry_interval_ms=100, **kwargs):
    """The same in a loop; the function may be a coroutine function."""
    end, last = time.monotonic() + timeout, None
    while True:
        try:
            found = condition_predictor(**kwargs)
            if await found if hasattr(found, "__await__") else found:
                return
        except Exception as error:
            last = error
        if time.monotonic() > end:
            raise RuntimeError("The condition wasn't met before the timeout expired.") from last
        await asyncio.sleep(retry_interval_ms / 1000)


def wait_for_pid_to_exit(pid, timeout=20):
    wait_for_condition(lambda: not os.path.exists(f"/proc/{pid}"), timeout=timeout)


def kill_actor_and_wait_for_failure(actor, timeout=10, retry_interval_ms=100):
    """Until its process is gone."""
    pid = miniray.get(actor.__ray_call__.remote(_pid_of))
    miniray.kill(actor)
    wait_for_condition(lambda: not os.path.exists(f"/proc/{pid}"), timeout, retry_interval_ms)


def _pid_of(self):
    return os.getpid()


def dicts_equal(dict1, dict2, abs_tol=1e-4):
    """Of numbers; whether they have the same keys, and values that are about the same."""
    return dict1.keys() == dict2.keys() and all(abs(value - dict2[key]) < abs_tol for key, value in dict1.items())


def client_test_enabled():
    """There is no client."""
    return False


def run_string_as_driver(driver_script, env=None, encode="utf-8"):
    """Runs a program in a process of its own; what it printed comes back."""
    with _begun(driver_script.encode(encode), env, subprocess.STDOUT) as begun:
        printed = begun.stdout.read()
    if begun.returncode != 0:
        print(printed.decode(encode), file=sys.stderr)
        raise subprocess.CalledProcessError(begun.returncode, begun.args, printed)
    return printed.decode(encode)


def run_string_as_driver_nonblocking(driver_script, env=None):
    """The same without waiting: the process, with pipes for what it prints."""
    return _begun(driver_script.encode(), env, subprocess.PIPE)


def _begun(script, env, stderr):
    """The process of a program that it reads from its stdin."""
    begun = subprocess.Popen([sys.executable, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=env)
    begun.stdin.write(script)
    begun.stdin.close()
    return begun


@miniray.remote(num_cpus=0)
class SignalActor:
    """Those who wait go on when somebody sends."""

    def __init__(self):
        self.ready, self.waiters = asyncio.Event(), 0

    async def send(self, clear=False):
        self.ready.set()
        if clear:
            self.ready.clear()

    async def wait(self, should_wait=True):
        if should_wait:
            self.waiters += 1
            await self.ready.wait()
            self.waiters -= 1

    async def cur_num_waiters(self):
        return self.waiters


@miniray.remote(num_cpus=0)
class Semaphore:
    """So many at once."""

    def __init__(self, value=1):
        self.inner = asyncio.Semaphore(value)

    async def acquire(self):
        await self.inner.acquire()

    async def release(self):
        self.inner.release()

    async def locked(self):
        return self.inner.locked()
