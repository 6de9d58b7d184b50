"""A queue that tasks and actors share. It lives in an actor of its own, in which those who wait are coroutines."""

import asyncio
import queue

import miniray

_MANY = 100_000  # may wait at once; were there an end to them, a full queue could keep those out who take


class Empty(queue.Empty):
    """There was nothing to take."""


class Full(queue.Full):
    """There was no room."""


class _QueueActor:
    def __init__(self, maxsize):
        self.maxsize, self.items = maxsize, asyncio.Queue(maxsize)

    async def size(self):
        return self.items.qsize()

    async def put(self, item, timeout):
        """Whether it found room in time. 0: at once."""
        if timeout == 0:
            return await self.put_batch([item])
        try:
            await asyncio.wait_for(self.items.put(item), timeout)
        except asyncio.TimeoutError:
            return False
        return True

    async def get(self, timeout):
        """It in a list, or None."""
        if timeout == 0:
            return await self.get_batch(1)
        try:
            return [await asyncio.wait_for(self.items.get(), timeout)]
        except asyncio.TimeoutError:
            return None

    async def put_batch(self, items):
        """All of them or none."""
        if 0 < self.maxsize < self.items.qsize() + len(items):
            return False
        for item in items:
            self.items.put_nowait(item)
        return True

    async def get_batch(self, count):
        """So many of them in a list, or None."""
        return [self.items.get_nowait() for _ in range(count)] if count <= self.items.qsize() else None


class Queue:
    """As queue.Queue, between processes. `maxsize` 0: as much as memory holds."""

    def __init__(self, maxsize=0, actor_options=None):
        self.maxsize = maxsize
        cls = miniray.remote(_QueueActor)
        self.actor = cls.options(**{"max_concurrency": _MANY, **(actor_options or {})}).remote(maxsize)

    def __reduce__(self):
        return _again, (self.maxsize, self.actor)

    def __len__(self):
        return self.size()

    def size(self):
        return miniray.get(self.actor.size.remote())

    qsize = size

    def empty(self):
        return self.size() == 0

    def full(self):
        return 0 < self.maxsize <= self.size()

    def put(self, item, block=True, timeout=None):
        _stored(miniray.get(self.actor.put.remote(item, _patience(block, timeout))))

    async def put_async(self, item, block=True, timeout=None):
        _stored(await self.actor.put.remote(item, _patience(block, timeout)))

    def get(self, block=True, timeout=None):
        return _taken(miniray.get(self.actor.get.remote(_patience(block, timeout))))[0]

    async def get_async(self, block=True, timeout=None):
        return _taken(await self.actor.get.remote(_patience(block, timeout)))[0]

    def put_nowait(self, item):
        self.put(item, block=False)

    def get_nowait(self):
        return self.get(block=False)

    def put_nowait_batch(self, items):
        """All of them, or Full."""
        if not hasattr(items, "__iter__"):
            raise TypeError("Argument 'items' must be an Iterable")
        _stored(miniray.get(self.actor.put_batch.remote(list(items))))

    def get_nowait_batch(self, num_items):
        """So many of them, or Empty."""
        if not isinstance(num_items, int):
            raise TypeError("Argument 'num_items' must be an int")
        if num_items < 0:
            raise ValueError("'num_items' must be nonnegative")
        return _taken(miniray.get(self.actor.get_batch.remote(num_items)))

    def shutdown(self, force=False, grace_period_s=5):
        """Ends the queue's actor; what is in it is gone. Without `force` what was asked for before is done first."""
        if self.actor is not None:
            if not force:
                miniray.wait([self.actor.size.remote()], timeout=grace_period_s)
            miniray.kill(self.actor)
        self.actor = None


def _patience(block, timeout):
    """How long the actor waits: None for ever, 0 not at all."""
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
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
