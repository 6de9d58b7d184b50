"""A fixed number of actors that share work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import miniray
from miniray._core_api.tracebacks import public


@public
class ActorPool:
    """Gives work to whichever actor is free.

        pool = ActorPool([Worker.remote() for _ in range(4)])
        print(list(pool.map(lambda actor, value: actor.double.remote(value), range(100))))
    """

    def __init__(self, actors) -> None:
        if isinstance(actors, miniray.ActorHandle) or not hasattr(actors, "__iter__"):
            raise TypeError(f"ActorPool takes a list of actors, not {actors!r}")
        self._idle = list(actors)
        for number, actor in enumerate(self._idle):
            if isinstance(actor, (type, miniray.ActorClass)):
                raise TypeError(f"item {number} of ActorPool's list is the class {actor!r}: create an actor with remote()")
        self._running = {}  # reference, or a tuple of those of one call: (number, actor)
        self._by_number = {}  # number: reference
        self._next_number = 0  # number of the next submission
        self._next_return = 0  # number of the next result of get_next
        self._pending_submits = []  # (function, value) that wait for a free actor

    def map(self, fn, values) -> Iterator[Any]:
        """The results of fn(actor, value), in the order of the values."""
        self._submit_all(fn, values)
        return _Results(self, self.get_next)

    def map_unordered(self, fn, values) -> Iterator[Any]:
        """The results of fn(actor, value), in the order in which they are ready."""
        self._submit_all(fn, values)
        return _Results(self, self.get_next_unordered)

    def _submit_all(self, fn, values):
        """Submits all values before a result is requested, without waiting for earlier work."""
        while self.has_next():
            try:
                self.get_next(timeout=0, ignore_if_timedout=True)
            except TimeoutError:
                pass
        for value in values:
            self.submit(fn, value)

    def submit(self, fn, value) -> None:
        """Calls fn(actor, value) when an actor is free. `fn` returns a reference, or the list of references of one
        call."""
        if not self._idle:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle.pop()
        given = fn(actor, value)
        ref = tuple(given) if isinstance(given, list) else given
        self._running[ref] = self._next_number, actor
        self._by_number[self._next_number] = ref
        self._next_number += 1

    def has_next(self) -> bool:
        """Whether there are results that were not returned yet."""
        return bool(self._running)

    def get_next(self, timeout=None, ignore_if_timedout=False) -> Any:
        """The next result in the order of submission. TimeoutError: it was not ready within `timeout`; it can be asked
        for again, or is dropped with `ignore_if_timedout`."""
        if not self.has_next():
            raise StopIteration("No more results to get")
        while self._next_return not in self._by_number:  # taken by get_next_unordered
            self._next_return += 1
        ref = self._by_number[self._next_return]
        ready, _ = miniray.wait([_first(ref)], timeout=timeout)
        if not ready and not ignore_if_timedout:
            raise TimeoutError("Timed out waiting for result")
        self._next_return += 1
        if ready:
            return self._result(ref)
        self._take(ref)
        raise TimeoutError("Timed out waiting for result. The task is ignored and its actor is free again")

    def get_next_unordered(self, timeout=None, ignore_if_timedout=False) -> Any:
        """Any result that is ready."""
        if not self.has_next():
            raise StopIteration("No more results to get")
        by_first = {_first(ref): ref for ref in self._running}
        ready, _ = miniray.wait(list(by_first), timeout=timeout)
        if not ready:
            if ignore_if_timedout:
                self._take(next(iter(self._running)))
            raise TimeoutError("Timed out waiting for result")
        return self._result(by_first[ready[0]])

    def _result(self, ref):
        lives = True
        try:
            return miniray.get(list(ref) if isinstance(ref, tuple) else ref)
        except miniray.exceptions.ActorDiedError:  # the dead actor is dropped, since further work for it would fail
            lives = False
            raise
        finally:
            self._take(ref, lives)

    def _take(self, ref, lives=True):
        number, actor = self._running.pop(ref)
        del self._by_number[number]
        self._free([actor] if lives else [])

    def _free(self, actors):
        self._idle += actors
        if self._pending_submits and self._idle:
            self.submit(*self._pending_submits.pop(0))

    def has_free(self) -> bool:
        """Whether an actor is free and no work waits."""
        return bool(self._idle) and not self._pending_submits

    def pop_idle(self) -> Any:
        """Takes a free actor out of the pool; None if there is none."""
        return self._idle.pop() if self.has_free() else None

    def push(self, actor) -> None:
        """Adds an actor to the pool."""
        if actor in self._idle or any(actor == busy for _, busy in self._running.values()):
            raise ValueError(f"{actor!r} already belongs to this ActorPool")
        self._free([actor])


@public
class _Results:
    """The iterator that `map` returns. An error is raised in the place of its result; the iterator continues after it.
    """

    def __init__(self, pool, take):
        self._pool, self._take = pool, take

    def __iter__(self):
        return self

    def __next__(self):
        if not self._pool.has_next():
            raise StopIteration
        return self._take()


def _first(ref):
    """The first reference of a call, which represents all: they are ready together."""
    return ref[0] if isinstance(ref, tuple) else ref

