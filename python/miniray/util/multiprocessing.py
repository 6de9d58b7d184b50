"""multiprocessing.Pool over actors: programs for Python's pool run with the import changed.

A pool is a list of actors. Work is divided into chunks; each goes to the actor with the fewest chunks and returns a
list of results, in which an error is a PoolTaskError. An actor whose process dies is restarted; its chunks are lost. An
AsyncResult waits for the references of its chunks.
"""

from __future__ import annotations

import collections
import itertools
import multiprocessing
import threading
from typing import Any

import miniray
from miniray._core_api.tracebacks import public_module

JoinableQueue, TimeoutError = multiprocessing.JoinableQueue, multiprocessing.TimeoutError
_CHUNKS = 4  # chunks per actor, if chunksize is not given


class PoolTaskError(Exception):
    """The exception of a function, as a result."""

    def __init__(self, underlying) -> None:
        self.underlying = underlying


class _Worker:
    """The actor in which functions run."""

    def __init__(self, initializer, arguments):
        if initializer is not None:
            initializer(*arguments)

    def run(self, function, chunk):
        """The results of calls with each (args, kwargs)."""
        return [self._one(function, args, kwargs) for args, kwargs in chunk]

    def _one(self, function, args, kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            return PoolTaskError(error)


class _Actor:
    """An actor of the pool: its handle and its chunks."""

    def __init__(self, make):
        self.make = make
        self.handle, self.given, self.pending = make(), 0, []

    def load(self):
        """The number of chunks that wait or run."""
        if self.pending:
            _, self.pending = miniray.wait(self.pending, num_returns=len(self.pending), timeout=0)
        return len(self.pending)

    def start(self, function, chunk, tasks_max):
        if tasks_max is not None and self.given >= tasks_max:  # the actor ends when its calls are answered
            self.handle, self.given = self.make(), 0
        ref = self.handle.run.remote(function, chunk)
        self.given += len(chunk)
        self.pending.append(ref)
        return ref


class AsyncResult:
    """The future result of apply_async, map_async or starmap_async."""

    def __init__(self, refs, single, callback=None, error_callback=None) -> None:
        self._refs, self._single = refs, single
        self._thread = None
        if callback is not None or error_callback is not None:
            self._thread = threading.Thread(target=self._tell, args=(callback, error_callback), daemon=True)
            self._thread.start()

    def wait(self, timeout=None) -> None:
        """Waits for the result, at most `timeout` seconds."""
        if self._refs:
            miniray.wait(self._refs, num_returns=len(self._refs), timeout=timeout)

    def ready(self) -> bool:
        """Whether the result is ready."""
        return not self._refs or not miniray.wait(self._refs, num_returns=len(self._refs), timeout=0)[1]

    def successful(self) -> bool:
        """Whether no function raised; ValueError if the result is not ready."""
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        try:
            self.get()
        except Exception:
            return False
        return True

    def get(self, timeout=None) -> Any:
        """The result, or the list of results; raises the exception of a function."""
        self.wait(timeout)
        if timeout is not None and not self.ready():
            raise TimeoutError
        results = [result for chunk in miniray.get(self._refs) for result in chunk]
        for result in results:
            if isinstance(result, PoolTaskError):
                raise result.underlying
        return results[0] if self._single else results

    def _tell(self, callback, error_callback):
        try:
            result = self.get()
        except Exception as error:
            if error_callback is not None:
                error_callback(error)
        else:
            if callback is not None:
                callback(result)

    def _join(self):
        self.wait()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()


class IMapIterator:
    """The iterator of imap: a few chunks run ahead of the consumer."""

    def __init__(self, pool, function, items, chunksize) -> None:
        self._chunks = _chunked((((item,), {}) for item in items), chunksize or 1)
        self._pool, self._function = pool, function
        self._refs, self._ready = [], collections.deque()
        for _ in range(2 * len(pool._actors)):
            self._start()

    def _start(self):
        chunk = next(self._chunks, None)
        if chunk is not None:
            self._refs.append(self._pool._start(self._function, chunk))

    def _take(self, timeout):
        """The next reference."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self):
        return self.next()

    def next(self, timeout=None) -> Any:
        """The next result; TimeoutError if it is not ready within `timeout` seconds."""
        if not self._ready:
            if not self._refs:
                raise StopIteration
            ref = self._take(timeout)
            self._refs.remove(ref)
            self._start()
            self._ready.extend(miniray.get(ref))
        result = self._ready.popleft()
        if isinstance(result, PoolTaskError):
            raise result.underlying
        return result


class OrderedIMapIterator(IMapIterator):
    """Results in the order of the items."""

    def _take(self, timeout):
        if not miniray.wait(self._refs[:1], timeout=timeout)[0]:
            raise TimeoutError
        return self._refs[0]


class UnorderedIMapIterator(IMapIterator):
    """Results chunk by chunk, in the order in which chunks are ready."""

    def _take(self, timeout):
        ready, _ = miniray.wait(self._refs, timeout=timeout)
        if not ready:
            raise TimeoutError
        return ready[0]


def _chunked(items, size):
    items = iter(items)
    while chunk := list(itertools.islice(items, size)):
        yield chunk


class Pool:
    """multiprocessing.Pool with actors as its processes."""

    def __init__(self, processes=None, initializer=None, initargs=None, maxtasksperchild=None, context=None,
                 ray_address=None, ray_remote_args=None) -> None:
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._open, self._results = True, []
        count, self._tasks_max = _processes(processes, ray_address), maxtasksperchild
        cls = miniray.remote(**{"num_cpus": 0, "max_restarts": -1, **(ray_remote_args or {})})(_Worker)
        self._actors = [_Actor(lambda: cls.remote(initializer, tuple(initargs or ()))) for _ in range(count)]

    # ---- Calls.

    def apply(self, func, args=None, kwargs=None) -> Any:
        """Returns func(*args, **kwargs), run in one of the actors."""
        return self.apply_async(func, args, kwargs).get()

    def apply_async(self, func, args=None, kwargs=None, callback=None, error_callback=None) -> AsyncResult:
        """As apply; returns an AsyncResult at once."""
        self._check()
        ref = self._start(func, [(tuple(args or ()), kwargs or {})])
        return self._keep(AsyncResult([ref], True, callback, error_callback))

    def map(self, func, iterable, chunksize=None) -> Any:
        """Returns [func(item) for item in iterable]."""
        return self.map_async(func, iterable, chunksize).get()

    def map_async(self, func, iterable, chunksize=None, callback=None, error_callback=None) -> AsyncResult:
        """As map; returns an AsyncResult at once."""
        return self._map(func, (((item,), {}) for item in iterable), chunksize, callback, error_callback)

    def starmap(self, func, iterable, chunksize=None) -> Any:
        """Returns [func(*items) for items in iterable]."""
        return self.starmap_async(func, iterable, chunksize).get()

    def starmap_async(self, func, iterable, chunksize=None, callback=None, error_callback=None) -> AsyncResult:
        """As starmap; returns an AsyncResult at once."""
        return self._map(func, ((tuple(items), {}) for items in iterable), chunksize, callback, error_callback)

    def imap(self, func, iterable, chunksize=1) -> Iterator[Any]:
        """Iterates over the results while others are computed; the iterable may be endless."""
        self._check()
        return OrderedIMapIterator(self, func, iterable, chunksize)

    def imap_unordered(self, func, iterable, chunksize=1) -> Iterator[Any]:
        """As imap, in the order in which chunks are ready."""
        self._check()
        return UnorderedIMapIterator(self, func, iterable, chunksize)

    def _map(self, func, calls, chunksize, callback, error_callback):
        self._check()
        calls = list(calls)
        if chunksize is None:
            chunksize = max(1, -(-len(calls) // (len(self._actors) * _CHUNKS)))
        refs = [self._start(func, chunk) for chunk in _chunked(calls, chunksize)]
        return self._keep(AsyncResult(refs, False, callback, error_callback))

    def _start(self, function, chunk):
        return min(self._actors, key=_Actor.load).start(function, chunk, self._tasks_max)

    def _keep(self, result):
        self._results = [each for each in self._results if not each.ready()] + [result]
        return result

    # ---- Shutdown.

    def _check(self):
        if not self._open:
            raise ValueError("Pool not running")

    def close(self) -> None:
        """Accepts no more work; work that was accepted continues."""
        self._open = False

    def terminate(self) -> None:
        """Ends all actors at once."""
        self.close()
        for actor in self._actors:
            miniray.kill(actor.handle)
            actor.pending = []

    def join(self) -> None:
        """After close or terminate: waits for the end of the accepted work."""
        if self._open:
            raise ValueError("Pool is still running")
        for result in self._results:
            result._join()
        for actor in self._actors:
            if actor.pending:
                miniray.wait(actor.pending, num_returns=len(actor.pending))

    def __enter__(self) -> Pool:
        self._check()
        return self

    def __exit__(self, *error) -> None:
        self.terminate()


def _processes(wanted, address):
    """The number of processes; starts the runtime if it is not running."""
    if wanted is not None and wanted <= 0:
        raise ValueError(f"processes is {wanted}: it must be at least 1")
    if not miniray.is_initialized():
        if address is None:
            miniray.init(num_cpus=wanted)
        else:
            miniray.init(address=address)
    there = int(miniray.cluster_resources().get("CPU", 0))
    if wanted is not None and wanted > there:
        raise ValueError(f"Tried to start a pool with {wanted} processes on an existing cluster, but there are only "
                         f"{there} CPUs in the cluster.")
    return wanted if wanted is not None else max(1, there)


public_module(globals())
