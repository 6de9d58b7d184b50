"""A queue that tasks and actors share. It lives in an actor of its own."""

import time

import miniray


class Empty(Exception):
    """There was nothing to take."""


class Full(Exception):
    """There was no room."""


class _QueueActor:
    def __init__(self, maxsize):
        self.maxsize, self.items = maxsize, []

    def size(self):
        return len(self.items)

    def put(self, items):
        """How many of them found room; all or none."""
        if self.maxsize > 0 and len(self.items) + len(items) > self.maxsize:
            return False
        self.items.extend(items)
        return True

    def get(self, count):
        """So many of them in a list, or None."""
        if len(self.items) < count:
            return None
        taken, self.items = self.items[:count], self.items[count:]
        return taken


class Queue:
    """As queue.Queue, between processes. `maxsize` 0: as much as memory holds."""

    _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0002, 0.02

    def __init__(self, maxsize=0, actor_options=None):
        self.maxsize = maxsize
        cls = miniray.remote(_QueueActor)
        self.actor = cls.options(**actor_options or {}).remote(maxsize)

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
        self._until(lambda: miniray.get(self.actor.put.remote([item])), block, timeout, Full)

    def get(self, block=True, timeout=None):
        return self._until(lambda: miniray.get(self.actor.get.remote(1)), block, timeout, Empty)[0]

    def put_nowait(self, item):
        self.put(item, block=False)

    def get_nowait(self):
        return self.get(block=False)

    def put_nowait_batch(self, items):
        """All of them, or Full."""
        self._until(lambda: miniray.get(self.actor.put.remote(list(items))), False, None, Full)

    def get_nowait_batch(self, num_items):
        """So many of them, or Empty."""
        return self._until(lambda: miniray.get(self.actor.get.remote(num_items)), False, None, Empty)

    def shutdown(self, force=False, grace_period_s=5):
        """Ends the queue's actor; what is in it is gone."""
        if self.actor is not None:
            miniray.kill(self.actor)
        self.actor = None

    def _until(self, attempt, block, timeout, error):
        """Tries until it works; the pauses grow, so that one who waits long asks seldom."""
        if timeout is not None and timeout < 0:
            raise ValueError("'timeout' must be a non-negative number")
        until = None if timeout is None else time.monotonic() + timeout
        pause = self._FIRST_PAUSE_S
        while True:
            done = attempt()
            if done:
                return done
            if not block or (until is not None and time.monotonic() >= until):
                raise error
            time.sleep(pause)
            pause = min(2 * pause, self._LONGEST_PAUSE_S)


def _again(maxsize, actor):
    made = Queue.__new__(Queue)
    made.maxsize, made.actor = maxsize, actor
    return made
