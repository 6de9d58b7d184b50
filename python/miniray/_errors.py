"""Failures of the runtime as exceptions, and exceptions as failures of the runtime."""

import os
import pickle
import traceback

import cloudpickle

from miniray import exceptions

_TEXT_MAX = 12000
_DETAIL_MAX = 32 * 1024  # MR_DETAIL_MAX

# By the numbers of mr_status.
_CLASSES = {
    1: ValueError,  # INVALID
    2: ValueError,  # NOT_FOUND
    3: ValueError,  # EXISTS
    4: exceptions.GetTimeoutError,
    5: exceptions.TaskCancelledError,
    7: exceptions.ObjectStoreFullError,
    8: ValueError,  # TOO_LARGE
    9: PermissionError,
    11: exceptions.RaySystemError,
    13: exceptions.RaySystemError,
    16: exceptions.WorkerCrashedError,
    17: exceptions.ActorDiedError,
    18: exceptions.ObjectLostError,
}


def raise_failure(code, text, detail):
    """Raises what a status stands for; `detail` is what describe_failure gave in the worker, if it was an exception."""
    if detail:
        function_name, traceback_text, pid, pickled = pickle.loads(detail)
        try:
            cause = pickle.loads(pickled) if pickled else None
        except Exception as error:
            traceback_text += f"\n(the exception itself could not be loaded here: {error!r})"
            cause = None
        if isinstance(cause, exceptions.RayTaskError):  # it passed through a task that did not catch it
            raise cause from None
        raise exceptions.make_task_error(function_name, traceback_text, cause, pid) from None
    if code == 4:
        text = f"Get timed out: some object(s) not ready. ({text})"
    raise _CLASSES.get(code, exceptions.RaySystemError)(text) from None


def describe_failure(error, name):
    """(text for people, detail for raise_failure)"""
    if isinstance(error, exceptions.RayTaskError):
        text = error.traceback_str
    else:
        trace = error.__traceback__
        lines = traceback.format_exception(type(error), error, trace)
        text = f"{name}() (pid={os.getpid()})\n{''.join(lines).rstrip()}"
    if len(text) > _TEXT_MAX:
        text = text[: _TEXT_MAX // 2] + "\n...\n" + text[-_TEXT_MAX // 2 :]
    detail = pickle.dumps((name, text, os.getpid(), _pickled(error)))
    if len(detail) > _DETAIL_MAX:
        detail = pickle.dumps((name, text, os.getpid(), b""))
    last = traceback.format_exception_only(type(error), error)[-1].strip()
    return f"{last[:400]}\n{text}", detail


def _pickled(error):
    error.__traceback__ = None
    for value in (error, RuntimeError(str(error))):
        try:
            data = cloudpickle.dumps(value)
            pickle.loads(data)  # some exceptions can be pickled but not loaded
            return data
        except Exception:
            continue
    return b""
