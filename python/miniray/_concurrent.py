"""Actors that run several methods at once: coroutines in a loop, or threads.

Methods of a concurrency group have threads, or a number of coroutines, of their own; all others share the default ones.
"""

import collections
import queue
import threading

from miniray import _await, _generators, _methods, _options

_ASYNC_MANY = 1000
_COROUTINE, _ASYNC_GENERATOR = 0x80, 0x200  # of co_flags
_FUNCTION = type(lambda: None)


def made_of(cls, concurrency, groups):
    """What is sent for a class: itself, if its actors run one method at a time."""
    for name in dir(cls):
        group = _methods.options_of(getattr(cls, name, None)).get("concurrency_group")
        if group is not None and group not in (groups or {}):
            raise ValueError(f"{cls.__name__}.{name}() is in the concurrency group '{group}', which the actor does not "
                             f"have: @remote(concurrency_groups={{'{group}': 1}}) makes it; it has {sorted(groups or {})}")
    if concurrency > 1 or groups or is_async(cls):
        return Maker(cls, concurrency, groups or {})
    return cls


def is_async(cls):
    """Whether any method is a coroutine function."""
    codes = (getattr(getattr(cls, name, None), "__code__", None) for name in dir(cls))
    return any(code is not None and code.co_flags & (_COROUTINE | _ASYNC_GENERATOR) for code in codes)


class Maker:
    """What is sent instead of a class whose actors run several methods at once."""

    def __init__(self, cls, concurrency, groups):
        self.cls, self.concurrency, self.groups = cls, concurrency, groups

    def __call__(self, *args, **kwargs):
        host = LoopHost if is_async(self.cls) else ThreadHost
        return host(self, args, kwargs)


class Host:
    """What the worker has instead of the instance."""

    __miniray_host__ = True

    def method(self, name):
        name = name.partition("@")[0]
        if name.startswith("__ray_"):
            return _methods.own_method(self.instance, name)
        function = getattr(type(self.instance), name, None)  # whatever attribute has its name
        return function.__get__(self.instance) if type(function) is _FUNCTION else getattr(self.instance, name)

    def group_of(self, name):
        """That of the call ("name@group") or else of the method; or None, the default."""
        name, _, mark = name.partition("@")
        group = mark.removesuffix(_options.DYNAMIC)
        if not group:
            group = _methods.options_of(getattr(type(self.instance), name, None)).get("concurrency_group")
        if group not in self.groups:
            raise ValueError(f"{type(self.instance).__name__} has no concurrency group '{group}', which a call of {name}() "
                             f"names; it has {sorted(filter(None, self.groups))}")
        return group


class ThreadHost(Host):
    """Methods in threads, in the order in which they came."""

    def __init__(self, plan, args, kwargs):
        self.instance = plan.cls(*args, **kwargs)
        self.groups = {name: self._start(name, most) for name, most in plan.groups.items()}
        self.groups[None] = self._start("method", plan.concurrency or 1)

    def _start(self, name, count):
        calls = queue.SimpleQueue()
        for number in range(count):
            threading.Thread(target=self._work, args=(calls,), name=f"{name}-{number}", daemon=True).start()
        return calls

    def start(self, *call):
        try:
            calls = self.groups[self.group_of(call[1])]
        except ValueError as error:
            call[0].failed(error)
        else:
            calls.put(call)

    def _work(self, calls):
        while True:
            reply, name, args, kwargs = calls.get()
            reply.begin()
            try:
                result = None if reply.cancelled() else self.method(name)(*args, **kwargs)
                if reply.streams():
                    _generators.give(reply, result)
            except BaseException as error:
                reply.failed(error)
            else:
                reply.done(result)
            reply = args = kwargs = result = None


class LoopHost(Host):
    """Coroutines in a loop of their own; so many at a time, the others wait in their order."""

    def __init__(self, plan, args, kwargs):
        import asyncio
        from miniray import _loop
        self.loop = _loop.Loop()
        self.groups = {name: Room(most) for name, most in plan.groups.items()}
        self.groups[None] = Room(plan.concurrency or _ASYNC_MANY)
        self.rooms = {}  # by the name of the method
        self.inbox = None
        self.running = {}  # {reply: task}: a loop alone does not keep its tasks
        asyncio.set_event_loop(self.loop)
        self.instance = self.loop.run_until_complete(self._make(plan.cls, args, kwargs))  # it may use the loop

    async def _make(self, cls, args, kwargs):
        return cls(*args, **kwargs)

    def run(self):
        """Called by the worker's thread when the actor is made: all of the following happens in the loop."""
        self.loop.serve()

    def start(self, *call):
        if self.inbox:  # what was cancelled before this call sees it first
            _await.settle(self.inbox)
        room = self.rooms.get(call[1])
        if room is None:
            try:
                room = self.rooms[call[1]] = self.groups[self.group_of(call[1])]
            except ValueError as error:
                call[0].failed(error)
                return
        if room.free > 0:
            self._begin(room, call)
        else:
            room.waiting.append(call)

    def _begin(self, room, call):
        room.free -= 1
        self.running[call[0]] = task = self.loop.create_task(self._answer(room, *call))
        if self.inbox is None:
            self.inbox = _await.inbox_of(self.loop)
        self.inbox.watch_cancel(call[0], task)

    async def _answer(self, room, reply, name, args, kwargs):
        reply.begin()
        try:
            result = None if reply.cancelled() else self.method(name)(*args, **kwargs)
            if reply.streams():
                await _generators.give_async(reply, result)
            elif hasattr(result, "__await__"):
                result = await result
        except BaseException as error:
            reply.failed(error)
        else:
            reply.done(result)
        del self.running[reply]
        room.free += 1
        if room.waiting:
            self._begin(room, room.waiting.popleft())


class Room:
    """How many more coroutines may run at once, and the calls that wait for that."""

    def __init__(self, free):
        self.free = free
        self.waiting = collections.deque()
