"""max_pending_calls: a handle makes no further call while this number of its calls has no answer."""

import weakref

from miniray import _core, exceptions

_waiting = weakref.WeakKeyDictionary()  # {handle: references of its calls without an answer at the last check}


def admit(handle, most):
    """Raises before a call if the handle has `most` calls without an answer."""
    refs = _waiting.get(handle, [])
    if len(refs) >= most:
        _, refs = _core.wait(refs, num_returns=len(refs), timeout=0)
        _waiting[handle] = refs
    if len(refs) >= most:
        raise exceptions.PendingCallsLimitExceeded(
            f"The task queue of {handle!r} is full: {len(refs)} calls wait, and max_pending_calls is {most}")


def began(handle, result):
    """Counts a call. A call without a result is not counted, nor is a generator, which ends when its last reference is
    dropped."""
    one = result[0] if isinstance(result, list) else result
    if isinstance(one, _core.ObjectRef):
        _waiting.setdefault(handle, []).append(one)
