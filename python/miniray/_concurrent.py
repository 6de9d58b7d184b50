"""Actors that run several methods at once: coroutines in a loop, or threads."""

import queue
import threading

_ASYNC_MANY = 1000
_COROUTINE = 0x80  # of co_flags


def is_async(cls):
    """Whether any method is a coroutine function."""
    codes = (getattr(getattr(cls, name, None), "__code__", None) for name in dir(cls))
    return any(code is not None and code.co_flags & _COROUTINE for code in codes)


class Maker:
    """What is sent instead of a class whose actors run several methods at once."""

    def __init__(self, cls, concurrency):
        self.cls, self.concurrency = cls, concurrency

    def __call__(self, *args, **kwargs):
        host = LoopHost if is_async(self.cls) else ThreadHost
        return host(self.cls, args, kwargs, self.concurrency)


class ThreadHost:
    """Methods in threads, in the order in which they came."""

    __miniray_host__ = True

    def __init__(self, cls, args, kwargs, concurrency):
        self.instance = cls(*args, **kwargs)
        self.calls = queue.SimpleQueue()
        for number in range(concurrency):
            threading.Thread(target=self._work, name=f"method-{number}", daemon=True).start()

    def start(self, *call):
        self.calls.put(call)

    def _work(self):
        while True:
            reply, name, args, kwargs = self.calls.get()
            try:
                result = getattr(self.instance, name)(*args, **kwargs)
            except BaseException as error:
                reply.failed(error)
            else:
                reply.done(result)
            del reply, args, kwargs


class LoopHost:
    """Coroutines in a loop of their own; at most `concurrency` at a time, the others wait in their order."""

    __miniray_host__ = True

    def __init__(self, cls, args, kwargs, concurrency):
        import asyncio
        self.loop = asyncio.new_event_loop()
        self.room = asyncio.Semaphore(concurrency or _ASYNC_MANY)
        self.tasks = set()
        threading.Thread(target=self._run, name="loop", daemon=True).start()
        made = asyncio.run_coroutine_threadsafe(self._make(cls, args, kwargs), self.loop)
        self.instance = made.result()  # made in the loop, so that it may use it

    def _run(self):
        import asyncio
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    async def _make(self, cls, args, kwargs):
        return cls(*args, **kwargs)

    def start(self, *call):
        self.loop.call_soon_threadsafe(self._begin, call)

    def _begin(self, call):
        task = self.loop.create_task(self._answer(*call))
        self.tasks.add(task)  # a loop alone does not keep its tasks
        task.add_done_callback(self.tasks.discard)

    async def _answer(self, reply, name, args, kwargs):
        async with self.room:
            try:
                result = getattr(self.instance, name)(*args, **kwargs)
                if hasattr(result, "__await__"):
                    result = await result
            except BaseException as error:
                reply.failed(error)
            else:
                reply.done(result)
