"""ObjectRefs in asyncio and in concurrent.futures. Each loop has one Inbox, which reports the references that are
ready; all Futures share one thread."""

import os
import weakref

from miniray import _core

_of_loops = weakref.WeakKeyDictionary()  # {loop: its Inbox, which the loop keeps until it is closed}
_of_futures = None  # the Inbox of the thread that all Futures share


def await_ref(ref):
    """The iterator of `await ref`."""
    return _value(ref).__await__()


async def _value(ref):
    await there(ref)
    return _core.get(ref)


async def there(ref):
    """Waits until the object is ready or has failed."""
    if not _core.wait([ref], timeout=0)[0]:
        import asyncio
        loop = asyncio.get_running_loop()
        told = loop.create_future()
        inbox_of(loop).watch(ref, told)
        await told


def is_awaited(result):
    """Whether the result of a method must be awaited. A reference is a value, which its receiver awaits."""
    return hasattr(result, "__await__") and not isinstance(result, _core.ObjectRef)


def inbox_of(loop):
    """The Inbox of a running loop, which settles the futures of objects that are ready."""
    inbox = _of_loops[loop]() if loop in _of_loops else None
    if inbox is None:
        inbox = _core.Inbox()
        _of_loops[loop] = weakref.ref(inbox)
        if hasattr(loop, "read_inbox"):  # the loop of an actor (_actors/actor_loop.py)
            loop.read_inbox(inbox, settle)
        else:
            loop.add_reader(inbox.fileno(), settle, inbox)
    return inbox


def settle(inbox):
    """Settles the futures, and cancels the tasks, that the inbox delivers."""
    for thing in inbox.take():
        if not thing.done():
            thing.cancel() if hasattr(thing, "get_coro") else thing.set_result(None)


def future_of(ref):
    """A concurrent.futures.Future of the object."""
    import concurrent.futures
    future = concurrent.futures.Future()
    future.set_running_or_notify_cancel()
    _inbox_of_futures().watch(ref, (ref, future))
    return future


def async_future_of(ref):
    """An asyncio.Future of the object, in the running loop."""
    import asyncio
    return asyncio.ensure_future(_value(ref))


def call_when_there(ref, function):
    """Calls function(value) or function(exception) in the thread that all Futures share."""
    future_of(ref).add_done_callback(lambda future: function(future.exception() or future.result()))



def _inbox_of_futures():
    global _of_futures
    if _of_futures is None:
        import threading
        _of_futures = _core.Inbox()
        threading.Thread(target=_settle_futures, args=(_of_futures,), name="miniray-futures", daemon=True).start()
    return _of_futures


def _settle_futures(inbox):
    import select
    poll = select.poll()
    poll.register(inbox.fileno(), select.POLLIN)
    while True:
        poll.poll()
        for ref, future in inbox.take():
            try:
                future.set_result(_core.get(ref))
            except BaseException as error:
                future.set_exception(error)
        ref = future = None


def _forked():
    global _of_futures
    _of_futures = None  # its thread does not exist in the child
    _of_loops.clear()


os.register_at_fork(after_in_child=_forked)
