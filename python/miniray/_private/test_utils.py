"""Helpers for tests: conditions, signals, and the ends of processes."""

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
    """Waits until the function returns a true value; RuntimeError after `timeout` seconds."""
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
    """The same in an event loop; the function may be a coroutine function."""
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
    """Waits until the process has ended."""
    wait_for_condition(lambda: not os.path.exists(f"/proc/{pid}"), timeout=timeout)


def kill_actor_and_wait_for_failure(actor, timeout=10, retry_interval_ms=100):
    """Kills an actor and waits until its process has ended."""
    pid = miniray.get(actor.__ray_call__.remote(_pid_of))
    miniray.kill(actor)
    wait_for_condition(lambda: not os.path.exists(f"/proc/{pid}"), timeout, retry_interval_ms)


def _pid_of(self):
    return os.getpid()


def dicts_equal(dict1, dict2, abs_tol=1e-4):
    """Whether two dicts have the same keys and approximately the same numbers."""
    return dict1.keys() == dict2.keys() and all(abs(value - dict2[key]) < abs_tol for key, value in dict1.items())


def client_test_enabled():
    """Returns False, since there is no Ray client."""
    return False


def run_string_as_driver(driver_script, env=None, encode="utf-8"):
    """Runs a program in a new process and returns its output."""
    with _begun(driver_script.encode(encode), env, subprocess.STDOUT) as begun:
        printed = begun.stdout.read()
    if begun.returncode != 0:
        print(printed.decode(encode), file=sys.stderr)
        raise subprocess.CalledProcessError(begun.returncode, begun.args, printed)
    return printed.decode(encode)


def run_string_as_driver_nonblocking(driver_script, env=None):
    """Starts a program in a new process, with pipes for its output."""
    return _begun(driver_script.encode(), env, subprocess.PIPE)


def _begun(script, env, stderr):
    """A process that runs the program on its stdin."""
    begun = subprocess.Popen([sys.executable, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=env)
    begun.stdin.write(script)
    begun.stdin.close()
    return begun


@miniray.remote(num_cpus=0)
class SignalActor:
    """Releases waiting callers when a signal is sent."""

    def __init__(self):
        self.ready, self.waiters = asyncio.Event(), 0

    async def send(self, clear=False):
        """Releases the callers that wait."""
        self.ready.set()
        if clear:
            self.ready.clear()

    async def wait(self, should_wait=True):
        """Waits for the signal."""
        if should_wait:
            self.waiters += 1
            await self.ready.wait()
            self.waiters -= 1

    async def cur_num_waiters(self):
        """The number of callers that wait."""
        return self.waiters


@miniray.remote(num_cpus=0)
class Semaphore:
    """A semaphore in an actor."""

    def __init__(self, value=1):
        self.inner = asyncio.Semaphore(value)

    async def acquire(self):
        """Takes the semaphore; waits until it is free."""
        await self.inner.acquire()

    async def release(self):
        """Gives the semaphore back."""
        self.inner.release()

    async def locked(self):
        """Whether the semaphore is taken."""
        return self.inner.locked()
