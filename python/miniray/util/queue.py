"""A queue that tasks and actors share. The queue is an actor, whose waiting callers are coroutines."""

from __future__ import annotations

import asyncio
import queue
from typing import Any

import miniray
from miniray._core_api.tracebacks import public

_MANY = 100_000  # limit of concurrent calls; with a small limit, waiting writers could keep readers out


class Empty(queue.Empty):
    """The queue has no item."""


class Full(queue.Full):
    """The queue has no room."""


class _QueueActor:
    def __init__(self, maxsize):
        self.maxsize, self.items = maxsize, asyncio.Queue(maxsize)

    async def size(self):
        return self.items.qsize()

    async def put(self, item, timeout):
        """Adds an item; returns whether there was room within `timeout` (0: at once)."""
        if timeout == 0:
            return await self.put_batch([item])
        try:
            await asyncio.wait_for(self.items.put(item), timeout)
        except asyncio.TimeoutError:
            return False
        return True

    async def get(self, timeout):
        """The next item in a list; None: timed out."""
        if timeout == 0:
            return await self.get_batch(1)
        try:
            return [await asyncio.wait_for(self.items.get(), timeout)]
        except asyncio.TimeoutError:
            return None

    async def put_batch(self, items):
        """Adds all items or none; returns whether they were added."""
        if 0 < self.maxsize < self.items.qsize() + len(items):
            return False
        for item in items:
            self.items.put_nowait(item)
        return True

    async def get_batch(self, count):
        """A list of this number of items; None if there are fewer."""
        return [self.items.get_nowait() for _ in range(count)] if count <= self.items.qsize() else None


@public
class Queue:
    """queue.Queue between processes. `maxsize` 0: no limit but memory."""

    def __init__(self, maxsize=0, actor_options=None) -> None:
        if not hasattr(maxsize, "__index__"):
            raise TypeError(f"maxsize must be a whole number, not {maxsize!r}")
        self.maxsize = maxsize
        cls = miniray.remote(_QueueActor)
        self.actor = cls.options(**{"max_concurrency": _MANY, **(actor_options or {})}).remote(maxsize)

    def __reduce__(self):
        return _again, (self.maxsize, self.actor)

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """The number of items."""
        return miniray.get(self.actor.size.remote())

    qsize = size

    def empty(self) -> bool:
        """Whether there are no items."""
        return self.size() == 0

    def full(self) -> bool:
        """Whether there is no room."""
        return 0 < self.maxsize <= self.size()

    def put(self, item, block=True, timeout=None) -> None:
        """Adds an item; waits for room, at most `timeout` seconds, or raises Full."""
        _stored(miniray.get(self.actor.put.remote(item, _patience(block, timeout))))

    async def put_async(self, item, block=True, timeout=None) -> None:
        """As put, for coroutines."""
        _stored(await self.actor.put.remote(item, _patience(block, timeout)))

    def get(self, block=True, timeout=None) -> Any:
        """Takes the next item; waits for one, at most `timeout` seconds, or raises Empty."""
        return _taken(miniray.get(self.actor.get.remote(_patience(block, timeout))))[0]

    async def get_async(self, block=True, timeout=None) -> Any:
        """As get, for coroutines."""
        return _taken(await self.actor.get.remote(_patience(block, timeout)))[0]

    def put_nowait(self, item) -> None:
        """put(item, block=False)."""
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        """get(block=False)."""
        return self.get(block=False)

    def put_nowait_batch(self, items) -> None:
        """Adds all items, or raises Full and adds none."""
        if not hasattr(items, "__iter__"):
            raise TypeError(f"items must be a list or another iterable, not {items!r}")
        _stored(miniray.get(self.actor.put_batch.remote(list(items))))

    def get_nowait_batch(self, num_items) -> list[Any]:
        """Takes this number of items, or raises Empty and takes none."""
        if not isinstance(num_items, int):
            raise TypeError(f"num_items must be a whole number, not {num_items!r}")
        if num_items < 0:
            raise ValueError(f"num_items is {num_items}: it must be at least 0")
        return _taken(miniray.get(self.actor.get_batch.remote(num_items)))

    def shutdown(self, force=False, grace_period_s=5) -> None:
        """Ends the queue's actor and drops its items. Without `force`, earlier calls are answered first."""
        if self.actor is not None:
            if not force:
                miniray.wait([self.actor.size.remote()], timeout=grace_period_s)
            miniray.kill(self.actor)
        self.actor = None


def _patience(block, timeout):
    """The actor's wait limit in seconds; None: no limit, 0: no wait."""
    if timeout is not None and not timeout >= 0:
        raise ValueError(f"timeout is {timeout!r}: it must be a number of seconds, at least 0, or None")
    return timeout if block else 0


def _stored(done):
    if not done:
        raise Full


def _taken(items):
    if items is None:
        raise Empty
    return items


def _again(maxsize, actor):
    made = Queue.__new__(Queue)
    made.maxsize, made.actor = maxsize, actor
    return made
