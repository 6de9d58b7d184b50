"""A fixed number of actors that share a stream of work."""

import miniray


class ActorPool:
    """Gives work to whichever actor is free.

        pool = ActorPool([Worker.remote() for _ in range(4)])
        print(list(pool.map(lambda actor, value: actor.double.remote(value), range(100))))
    """

    def __init__(self, actors):
        self._idle = list(actors)
        self._running = {}  # reference: (number, actor)
        self._by_number = {}  # number: reference
        self._next_number = 0  # of the next that is submitted
        self._next_return = 0  # of the next that get_next gives
        self._waiting = []  # (function, value): no actor was free

    def map(self, function, values):
        """The results of function(actor, value), in the order of the values, as they come."""
        self._drain()
        for value in values:
            self.submit(function, value)
        while self.has_next():
            yield self.get_next()

    def map_unordered(self, function, values):
        """The same, in the order in which they are done."""
        self._drain()
        for value in values:
            self.submit(function, value)
        while self.has_next():
            yield self.get_next_unordered()

    def _drain(self):
        while self.has_next():
            try:
                self.get_next(timeout=0, ignore_if_timedout=True)
            except TimeoutError:
                pass

    def submit(self, function, value):
        """Calls function(actor, value), which returns a reference, as soon as an actor is free."""
        if not self._idle:
            self._waiting.append((function, value))
            return
        actor = self._idle.pop()
        ref = function(actor, value)
        self._running[ref] = self._next_number, actor
        self._by_number[self._next_number] = ref
        self._next_number += 1

    def has_next(self):
        """Whether there are results to come."""
        return bool(self._running)

    def get_next(self, timeout=None, ignore_if_timedout=False):
        """The next result, in the order of submission. TimeoutError: it was not there in time; it may be asked for again,
        or never if `ignore_if_timedout`."""
        if not self.has_next():
            raise StopIteration("No more results to get")
        while self._next_return not in self._by_number:  # taken by get_next_unordered
            self._next_return += 1
        ref = self._by_number[self._next_return]
        ready, _ = miniray.wait([ref], timeout=timeout)
        if not ready and not ignore_if_timedout:
            raise TimeoutError("Timed out waiting for result")
        self._next_return += 1
        self._take(ref)
        if not ready:
            raise TimeoutError("Timed out waiting for result. The task is ignored and its actor is free again")
        return miniray.get(ref)

    def get_next_unordered(self, timeout=None, ignore_if_timedout=False):
        """Any result that is there."""
        if not self.has_next():
            raise StopIteration("No more results to get")
        ready, _ = miniray.wait(list(self._running), timeout=timeout)
        if not ready:
            if ignore_if_timedout:
                self._take(next(iter(self._running)))
            raise TimeoutError("Timed out waiting for result")
        self._take(ready[0])
        return miniray.get(ready[0])

    def _take(self, ref):
        number, actor = self._running.pop(ref)
        del self._by_number[number]
        self._free(actor)

    def _free(self, actor):
        self._idle.append(actor)
        if self._waiting:
            self.submit(*self._waiting.pop(0))

    def has_free(self):
        """Whether an actor is free and nothing waits."""
        return bool(self._idle) and not self._waiting

    def pop_idle(self):
        """Takes a free actor out of the pool; None if there is none."""
        return self._idle.pop() if self.has_free() else None

    def push(self, actor):
        """Puts another actor into the pool."""
        if actor in self._idle or any(actor == busy for _, busy in self._running.values()):
            raise ValueError("Actor already belongs to current ActorPool")
        self._free(actor)
