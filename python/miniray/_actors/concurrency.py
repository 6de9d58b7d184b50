"""Actors that run several methods at once: coroutines in a loop, or threads.

Each concurrency group has its own threads, or its own loop and number of coroutines; all methods without a group share
the default ones.
"""

import collections
import queue
import threading
import types

from miniray._actors import generators as _generators, methods as _methods
from miniray._core_api import async_refs as _async_refs, options as _options

_ASYNC_MANY = 1000
_COROUTINE, _ASYNC_GENERATOR = 0x80, 0x200  # bits of co_flags


def made_of(cls, concurrency, groups):
    """The object that is sent for a class: the class itself if its actors run one method at a time."""
    for name in _methods.names_of(cls):
        group = _methods.options_of(getattr(cls, name, None)).get("concurrency_group")
        if group is not None and group not in (groups or {}):
            raise ValueError(f"{cls.__name__}.{name}() is in the concurrency group '{group}', which the actor does not "
                             f"have: @remote(concurrency_groups={{'{group}': 1}}) makes it; it has {sorted(groups or {})}")
    if concurrency > 1 or groups or is_async(cls):
        return HostFactory(cls, concurrency, groups or {})
    return cls


def is_async(cls):
    """Whether any method is a coroutine function."""
    codes = (getattr(getattr(cls, name, None), "__code__", None) for name in _methods.names_of(cls))
    return any(code is not None and code.co_flags & (_COROUTINE | _ASYNC_GENERATOR) for code in codes)


class HostFactory:
    """Sent instead of a class whose actors run several methods at once."""

    def __init__(self, cls, concurrency, groups):
        self.cls, self.concurrency, self.groups = cls, concurrency, groups

    def __call__(self, *args, **kwargs):
        host = ThreadHost if not is_async(self.cls) else GroupsHost if self.groups else LoopHost
        return host(self, args, kwargs)


class Host:
    """Takes the place of the instance in the worker."""

    __miniray_host__ = True

    def group_of(self, name):
        """The concurrency group of a call ("name@group"), or that of its method; None: the default group."""
        name, group, _, _ = _options.of_call(name)
        if not group:
            group = _methods.options_of(getattr(type(self.instance), name, None)).get("concurrency_group")
        if group not in self.groups:
            raise ValueError(f"{type(self.instance).__name__} has no concurrency group '{group}', which a call of {name}() "
                             f"names; it has {sorted(filter(None, self.groups))}")
        return group


class ThreadHost(Host):
    """Runs methods in threads, in the order of their calls."""

    def __init__(self, plan, args, kwargs):
        self.instance = plan.cls(*args, **kwargs)
        self.groups = {name: self._start(name, most) for name, most in plan.groups.items()}
        self.groups[None] = self._start("method", plan.concurrency or 1)

    def _start(self, name, count):
        calls = queue.SimpleQueue()
        for number in range(count):
            threading.Thread(target=self._work, args=(calls,), name=f"{name}-{number}", daemon=True).start()
        return calls

    def start(self, reply, name):
        """Hands a call to the threads of its group."""
        try:
            calls = self.groups[self.group_of(name)]
        except ValueError as error:
            reply.failed(error)
        else:
            calls.put(reply)

    def _work(self, calls):
        while True:
            reply = calls.get()
            try:
                result = reply.run(self.instance)
                if reply.streams():
                    _generators.give(reply, result)
            except BaseException as error:
                reply.failed(error)
            else:
                reply.done(result)
            reply = result = None


class CoroutineHost(Host):
    """Base of the hosts that run methods in event loops."""

    def __init__(self):
        self.groups_by_method = {}  # {name of a method: its group}

    def start(self, reply, name):
        """Hands a call to the loop of its group."""
        group = self.groups_by_method.get(name)
        if group is None:
            try:
                group = self.groups_by_method[name] = self.groups[self.group_of(name)]
            except ValueError as error:
                reply.failed(error)
                return
        self.hand(group, reply)

    def hand(self, group, reply):
        """Passes a call to the loop of the group."""
        raise NotImplementedError


class LoopHost(CoroutineHost):
    """Runs all methods in the loop of the worker's thread, which also waits for calls."""

    def __init__(self, plan, args, kwargs):
        import asyncio
        from miniray._actors import actor_loop as _actor_loop
        super().__init__()
        self.loop = _actor_loop.Loop()
        self.groups = {None: CoroutineGroup(self, self.loop, plan.concurrency or _ASYNC_MANY)}
        asyncio.set_event_loop(self.loop)
        # In the loop, since the constructor may use it.
        self.instance = self.loop.run_until_complete(_make(plan.cls, args, kwargs))

    def run(self):
        """Runs the loop; the worker's thread calls this when the actor has been created."""
        self.loop.serve()

    def hand(self, group, reply):
        """Begins the call at once, since this thread runs the loop."""
        group.take(reply)


class GroupsHost(CoroutineHost):
    """Gives each concurrency group, and the default group, a thread with a loop. A method that blocks delays only its
    own group."""

    def __init__(self, plan, args, kwargs):
        import asyncio
        super().__init__()
        self.groups = {name: self._open(name, most) for name, most in plan.groups.items()}
        self.groups[None] = self._open("method", plan.concurrency or _ASYNC_MANY)
        making = asyncio.run_coroutine_threadsafe(_make(plan.cls, args, kwargs), self.groups[None].loop)
        self.instance = making.result()

    def _open(self, name, most):
        import asyncio
        loop = asyncio.new_event_loop()
        threading.Thread(target=_run_loop, args=(loop,), name=name, daemon=True).start()
        return CoroutineGroup(self, loop, most)

    def hand(self, group, reply):
        """Wakes the loop of the group for the call."""
        group.loop.call_soon_threadsafe(group.take, reply)


async def _make(cls, args, kwargs):
    return cls(*args, **kwargs)


def _run_loop(loop):
    import asyncio
    asyncio.set_event_loop(loop)
    loop.run_forever()


class CoroutineGroup:
    """The coroutines of a loop: a limited number runs at once, and other calls wait in their order. All methods run in
    the loop's thread."""

    def __init__(self, host, loop, free):
        self.host, self.loop, self.free = host, loop, free
        self.waiting = collections.deque()
        self.inbox = None
        self.running = {}  # {reply: task}: a loop holds no strong reference to its tasks

    def take(self, reply):
        """Begins a call, or queues it."""
        if self.inbox:  # calls that were cancelled before this one are cancelled first
            _async_refs.settle(self.inbox)
        if self.free > 0:
            self._begin(reply)
        else:
            self.waiting.append(reply)

    def _begin(self, reply):
        self.free -= 1
        self.running[reply] = task = self.loop.create_task(self._answer(reply))
        if self.inbox is None:
            self.inbox = _async_refs.inbox_of(self.loop)
        self.inbox.watch_cancel(reply, task)

    async def _answer(self, reply):
        try:
            result = reply.run(self.host.instance)
            if reply.streams():
                await _generators.give_async(reply, result)
            elif type(result) is types.CoroutineType or _async_refs.is_awaited(result):
                result = await result
        except BaseException as error:
            reply.failed(error)
        else:
            reply.done(result)
        del self.running[reply]
        self.free += 1
        if self.waiting:
            self._begin(self.waiting.popleft())
