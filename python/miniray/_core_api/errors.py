"""Failures of the runtime as exceptions, and exceptions as failures of the runtime."""

import os
import pickle
import re
import traceback

import cloudpickle

from miniray import _core, exceptions
from miniray._core_api import did_you_mean, tracebacks

_TEXT_MAX, _PART_MAX, _SHORT = 12000, 4000, 1000  # a part: an entry of a traceback, or the text of an exception
_DETAIL_MAX = 32 * 1024  # MR_DETAIL_MAX

# By the numbers of mr_status.
_CLASSES = {
    1: ValueError,  # INVALID
    2: ValueError,  # NOT_FOUND
    3: exceptions.ActorAlreadyExistsError,
    4: exceptions.GetTimeoutError,
    5: exceptions.CancelledTaskError,
    7: exceptions.ObjectStoreFullError,
    8: ValueError,  # TOO_LARGE
    9: PermissionError,
    11: exceptions.RaySystemError,
    13: exceptions.RaySystemError,
    16: exceptions.WorkerCrashedError,
    17: exceptions.ActorDiedError,
    18: exceptions.ObjectLostError,
}


_ACTOR_DIED = 17
_TAKEN = re.compile("an actor named '(.*)' exists already")  # text in node_actor.c
_BY_ARGUMENT = "could not start, because an argument failed"  # text in failure.c
_TOO_LARGE, _NEVER = 8, "all the shared memory is"  # the store's text for an object that exceeds the memory
_IN_WORKER = " in worker process "  # text in worker_run.c for a failure of a task, as opposed to one of the runtime
_OF_WORKER = re.compile(r"(worker \d+) (?:failed in \w+|died), because ")  # the same in a sync (src/train/model_sync.c)
_OF_SERVER = ("aggregate", "publish")  # methods of ps/_model_server.py
# The names of a sync's calls of workers, and the methods that they call.
_OF_SYNC = {"__ray_get_weights__": "get_weights", "__ray_lend_weights__": "get_weights", "__ray_set_weights__": "set_weights"}


# Text in worker_exit.c and the begin of that in memory_monitor.c, whose middle is left out of long messages.
_ENDED_FOR_MEMORY = re.compile(r" by the node: (the )?memory ")
_OF_MEMORY = {16: exceptions.OutOfMemoryError, _ACTOR_DIED: exceptions.ActorOutOfMemoryError}


_NOT_FOUND, _GROUP_REMOVED = 2, "its placement group was removed"  # text in scheduler_bundles.c


_UNSCHEDULABLE = re.compile("ActorUnschedulableError: (The actor is not schedulable: [^\n]*)")  # text in scheduling.py


def name_is_taken(name):
    """Ray's text for an actor name that is in use."""
    return (f"The name {name} is already taken. Please use a different name or get the existing actor using "
            f"miniray.get_actor('{name}')")


def _cause_in(pickled):
    """(the exception, a note about it)"""
    try:
        return (pickle.loads(pickled) if pickled else None), ""
    except Exception as error:
        return None, f"\n(the exception itself could not be loaded here: {error!r})"


def raise_failure(code, text, detail):
    """Raises the exception of a status; `detail` is the result of describe_failure in the worker, if an exception was
    raised there."""
    if detail and code != _ACTOR_DIED:  # an actor whose constructor raised is dead
        function_name, traceback_text, pid, pickled = pickle.loads(detail)
        cause, note = _cause_in(pickled)
        traceback_text += note
        if isinstance(cause, exceptions.TaskUnschedulableError):  # the task has not run
            raise cause from None
        if isinstance(cause, SystemExit):  # the task ended its process, not this one
            raise exceptions.WorkerCrashedError(f"The task asked its worker to exit: {traceback_text}") from None
        whose = _OF_WORKER.match(text)
        traceback_text = f"{whose[1]}: {traceback_text}" if whose is not None else traceback_text
        error = exceptions.make_task_error(function_name, traceback_text, cause, pid)
        if whose is not None:
            error.add_note(f"in {whose[1]} of the sync")
        raise error from None
    text = did_you_mean.in_python(text)
    for call, method in _OF_SYNC.items():
        text = text.replace(call, method)
    taken = _TAKEN.search(text) if code == 3 else None
    if taken is not None:
        text = name_is_taken(taken[1])
    if code == 4:
        text = f"get() {text}" if text.startswith("timed out") else f"get() timed out: {text}"
    if code == 5:
        text = f"This task or one that it needs was cancelled: {text}"
    never = _UNSCHEDULABLE.search(text) if code == _ACTOR_DIED else None
    if never is not None:
        raise exceptions.ActorUnschedulableError(never[1]) from None
    if code == _ACTOR_DIED and "actor died" not in text and not _OF_WORKER.match(text):
        text = f"The actor died: {text}"
    if code == _NOT_FOUND and _GROUP_REMOVED in text:
        raise exceptions.TaskPlacementGroupRemoved(text) from None
    kind = _CLASSES.get(code, exceptions.RaySystemError)
    if code in _OF_MEMORY and _ENDED_FOR_MEMORY.search(text):
        kind = _OF_MEMORY[code]
    error = (exceptions.ObjectTooLargeError if code == _TOO_LARGE and _NEVER in text else kind)(text)
    runtimes = isinstance(error, exceptions.RayError) and not isinstance(error, exceptions.RayTaskError)
    # No memory for the task's result.
    its_own = _IN_WORKER in text and isinstance(error, exceptions.ObjectStoreFullError)
    if runtimes and (_BY_ARGUMENT in text or _OF_WORKER.match(text) or its_own):
        error = exceptions.make_task_error("", text, error, 0)
    raise error from None


def error_of(code, origin, message):
    """The exception of an error that arrived as a value."""
    origin, message = origin.decode(errors="replace"), message.decode(errors="replace")
    error = _CLASSES.get(code, RuntimeError)(f"{origin}: {message}" if origin else message)
    error.message_text = message
    return error


def describe_failure(error, name):
    """(text for people, detail for raise_failure). A call's name may be followed by its concurrency group."""
    name = name.partition("@")[0]
    name = _OF_SYNC.get(name, name)
    if isinstance(error, SystemExit) and _core.current_actor() is not None:
        from miniray._core_api import actor_exit as _actor_exit
        _actor_exit.leave(error.code)
    last = traceback.format_exception_only(type(error), error)[-1].strip()
    is_ours = False  # the parameter server has found it: what matters is its text
    if isinstance(error, exceptions.RayTaskError):  # the error of another task passes through this one
        text, error = _passing_through(error), error.cause
    else:
        is_ours = name in _OF_SERVER and tracebacks.cut(error) is None
        parts = [str(error)] if is_ours else traceback.format_exception(type(error), error, tracebacks.cut(error))
        text = "".join(_elided(part, _PART_MAX) for part in parts).rstrip()
    text = _elided(text if is_ours else f"{name}() (pid={os.getpid()})\n{text}", _TEXT_MAX)
    detail = pickle.dumps((name, text, os.getpid(), _pickled(error)))
    if len(detail) > _DETAIL_MAX:
        detail = pickle.dumps((name, text, os.getpid(), _pickled(_shorter(error))))
    if len(detail) > _DETAIL_MAX:
        detail = pickle.dumps((name, text, os.getpid(), b""))
    return text if is_ours else f"{last[:400]}\n{text}", detail


def _elided(text, most):
    """The text without its middle if it is too long. What follows the middle is the same however often an error is passed
    on, each time with more in front: the first cause."""
    return text if len(text) <= most else f"{text[: most // 2]}\n...\n{text[-most // 2 :]}"


def _passing_through(error):
    """The place in this task, followed by the other task's error."""
    lines = "".join(traceback.format_tb(tracebacks.cut(error)))
    return f"Traceback (most recent call last):\n{lines}{type(error).__name__}: {error.traceback_str}"


def _shorter(error):
    """An error of the same class with shorter texts."""
    try:
        made = type(error).__new__(type(error))
        made.args = tuple(arg[:_SHORT] if isinstance(arg, (str, bytes)) else arg for arg in error.args)
        return made
    except Exception:
        return RuntimeError(str(error)[:_SHORT])


def remake(kind, args, fields):
    """An exception made without its constructor, which may take other arguments than the exception keeps."""
    made = kind.__new__(kind, *args)
    made.args = args
    made.__dict__.update(fields)
    return made


class _AsItIs:
    """Pickled, becomes the exception, with those of its fields that can be pickled."""

    def __init__(self, error, fields):
        self.error, self.fields = error, fields

    def __reduce__(self):
        return remake, (type(self.error), self.error.args, self.fields)


def _can_go(value):
    try:
        pickle.loads(cloudpickle.dumps(value))
        return True
    except Exception:
        return False


def _pickled(error):
    if error is None:
        return b""
    error.__traceback__ = None
    for make in (lambda: error, lambda: _AsItIs(error, vars(error)),
                 lambda: _AsItIs(error, {name: value for name, value in vars(error).items() if _can_go(value)}),
                 lambda: RuntimeError(str(error))):
        try:
            data = cloudpickle.dumps(make())
            pickle.loads(data)  # some exceptions can be pickled but not loaded
            return data
        except Exception:
            continue
    return b""
