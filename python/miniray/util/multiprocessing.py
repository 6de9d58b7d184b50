"""multiprocessing.Pool over actors: programs that were written for Python's own pool run with the import changed.

A pool is a row of actors. What is to be done is cut into chunks; each goes to the actor that has least to do, and what
comes back is a list of results, in which an error is a PoolTaskError. An actor whose process dies is started again; what
it had to do is lost. A result that is asked for later (AsyncResult) waits for the references of its chunks.
"""

import collections
import itertools
import multiprocessing
import threading

import miniray

JoinableQueue, TimeoutError = multiprocessing.JoinableQueue, multiprocessing.TimeoutError
_CHUNKS = 4  # for each actor, if the size of a chunk is not given


class PoolTaskError(Exception):
    """What a function raised, on its way back."""

    def __init__(self, underlying):
        self.underlying = underlying


class _Worker:
    """In the process of its own: the functions run here."""

    def __init__(self, initializer, arguments):
        if initializer is not None:
            initializer(*arguments)

    def run(self, function, chunk):
        """[results] of (args, kwargs) in a row."""
        return [self._one(function, args, kwargs) for args, kwargs in chunk]

    def _one(self, function, args, kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            return PoolTaskError(error)


class _Actor:
    """One of the pool: the handle, and what it has to do."""

    def __init__(self, make):
        self.make = make
        self.handle, self.given, self.pending = make(), 0, []

    def load(self):
        """How many chunks wait or run."""
        if self.pending:
            _, self.pending = miniray.wait(self.pending, num_returns=len(self.pending), timeout=0)
        return len(self.pending)

    def start(self, function, chunk, tasks_max):
        if tasks_max is not None and self.given >= tasks_max:  # it ends when its calls are answered
            self.handle, self.given = self.make(), 0
        ref = self.handle.run.remote(function, chunk)
        self.given += len(chunk)
        self.pending.append(ref)
        return ref


class AsyncResult:
    """What will come of apply_async, map_async and starmap_async."""

    def __init__(self, refs, single, callback=None, error_callback=None):
        self._refs, self._single = refs, single
        self._thread = None
        if callback is not None or error_callback is not None:
            self._thread = threading.Thread(target=self._tell, args=(callback, error_callback), daemon=True)
            self._thread.start()

    def wait(self, timeout=None):
        """Returns when it is there, or after that time."""
        if self._refs:
            miniray.wait(self._refs, num_returns=len(self._refs), timeout=timeout)

    def ready(self):
        return not self._refs or not miniray.wait(self._refs, num_returns=len(self._refs), timeout=0)[1]

    def successful(self):
        """Whether no function raised; ValueError: it is not there yet."""
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        try:
            self.get()
        except Exception:
            return False
        return True

    def get(self, timeout=None):
        """The result, or the list of them; what a function raised is raised here."""
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
    """What imap gives: a few chunks are ahead of who takes the results."""

    def __init__(self, pool, function, items, chunksize):
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
        """The reference that is next."""
        raise NotImplementedError

    def __iter__(self):
        return self

    def __next__(self):
        return self.next()

    def next(self, timeout=None):
        """The next result; TimeoutError: it is not there within that time."""
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
    """In the order of what was given."""

    def _take(self, timeout):
        if not miniray.wait(self._refs[:1], timeout=timeout)[0]:
            raise TimeoutError
        return self._refs[0]


class UnorderedIMapIterator(IMapIterator):
    """Chunk by chunk as they are done."""

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
    """As multiprocessing.Pool is, with actors as its processes."""

    def __init__(self, processes=None, initializer=None, initargs=None, maxtasksperchild=None, context=None,
                 ray_address=None, ray_remote_args=None):
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._open, self._results = True, []
        count, self._tasks_max = _processes(processes, ray_address), maxtasksperchild
        cls = miniray.remote(**{"num_cpus": 0, "max_restarts": -1, **(ray_remote_args or {})})(_Worker)
        self._actors = [_Actor(lambda: cls.remote(initializer, tuple(initargs or ()))) for _ in range(count)]

    # ---- Calls.

    def apply(self, func, args=None, kwargs=None):
        """func(*args, **kwargs), in one of the actors."""
        return self.apply_async(func, args, kwargs).get()

    def apply_async(self, func, args=None, kwargs=None, callback=None, error_callback=None):
        self._check()
        ref = self._start(func, [(tuple(args or ()), kwargs or {})])
        return self._keep(AsyncResult([ref], True, callback, error_callback))

    def map(self, func, iterable, chunksize=None):
        """[func(item) for item in iterable]"""
        return self.map_async(func, iterable, chunksize).get()

    def map_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        return self._map(func, (((item,), {}) for item in iterable), chunksize, callback, error_callback)

    def starmap(self, func, iterable, chunksize=None):
        """[func(*items) for items in iterable]"""
        return self.starmap_async(func, iterable, chunksize).get()

    def starmap_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        return self._map(func, ((tuple(items), {}) for items in iterable), chunksize, callback, error_callback)

    def imap(self, func, iterable, chunksize=1):
        """The results one after the other, while others are made; the iterable may have no end."""
        self._check()
        return OrderedIMapIterator(self, func, iterable, chunksize)

    def imap_unordered(self, func, iterable, chunksize=1):
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

    # ---- Life.

    def _check(self):
        if not self._open:
            raise ValueError("Pool not running")

    def close(self):
        """Takes nothing more; what was begun goes on."""
        self._open = False

    def terminate(self):
        """Ends everything at once."""
        self.close()
        for actor in self._actors:
            miniray.kill(actor.handle)
            actor.pending = []

    def join(self):
        """After close or terminate: waits for the end of what was begun."""
        if self._open:
            raise ValueError("Pool is still running")
        for result in self._results:
            result._join()
        for actor in self._actors:
            if actor.pending:
                miniray.wait(actor.pending, num_returns=len(actor.pending))

    def __enter__(self):
        self._check()
        return self

    def __exit__(self, *error):
        self.terminate()


def _processes(wanted, address):
    """How many; starts the runtime if it does not run yet."""
    if wanted is not None and wanted <= 0:
        raise ValueError("Processes in the pool must be >0.")
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
