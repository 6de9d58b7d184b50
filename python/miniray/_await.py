"""ObjectRefs in asyncio and in concurrent.futures."""

import asyncio
import concurrent.futures
import threading

from miniray import _core


def future_of(ref):
    """A concurrent.futures.Future that a thread of its own settles."""
    future = concurrent.futures.Future()
    future.set_running_or_notify_cancel()

    def wait():
        try:
            future.set_result(_core.get(ref))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=wait, name="miniray-future", daemon=True).start()
    return future


def await_ref(ref):
    """What `await ref` iterates."""
    return asyncio.wrap_future(future_of(ref)).__await__()
