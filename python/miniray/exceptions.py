"""Errors of the runtime, by Ray's names."""

from __future__ import annotations


_FIELD = type(OSError.errno)


class RayError(Exception):
    """Base of all errors that the runtime raises."""


class RayTaskError(RayError):
    """A task or a method of an actor raised an exception. This error is also an instance of that exception's class.

    `cause` is the exception, `traceback_str` the traceback of the worker.
    """

    def __init__(self, function_name="", traceback_str="", cause=None, pid=0) -> None:
        Exception.__init__(self, function_name, traceback_str, cause, pid)  # skips __init__ of the user's class
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause
        self.pid = pid

    def __str__(self):
        return self.traceback_str or f"task {self.function_name} failed"

    def as_instanceof_cause(self) -> RayTaskError:
        """The same error as an instance of the class of its cause, too."""
        return make_task_error(self.function_name, self.traceback_str, self.cause, self.pid)


def make_task_error(function_name, traceback_str, cause, pid) -> RayTaskError:
    """A RayTaskError that `except TheUsersError` catches as well."""
    kind = type(cause)
    if cause is None or issubclass(RayTaskError, kind):
        return RayTaskError(function_name, traceback_str, cause, pid)

    def read(self, name):  # attributes of the user's exception
        return getattr(cause, name)

    own = {"__init__": RayTaskError.__init__, "__str__": RayTaskError.__str__, "__getattr__": read,
           "__reduce__": lambda self: (make_task_error, (function_name, traceback_str, cause, pid)),
           "__module__": "miniray.exceptions"}
    if hasattr(kind, "derive"):  # an ExceptionGroup needs its exceptions
        own["__new__"] = lambda cls, *about: kind.__new__(cls, cause.message, cause.exceptions)
    try:
        both = type(f"RayTaskError({kind.__name__})", (RayTaskError, kind), own)
        made = both(function_name, traceback_str, cause, pid)
        made.args = cause.args
        _copy_fields(cause, made)
        return made
    except TypeError:  # a class that cannot be a base class
        return RayTaskError(function_name, traceback_str, cause, pid)


def _copy_fields(cause, made):
    """Copies fields of the exception object itself, such as errno of OSError; other fields are read from the cause.
    """
    for kind in type(cause).__mro__:
        for name, field in vars(kind).items():
            if type(field) is _FIELD and not name.startswith("_"):
                try:
                    setattr(made, name, getattr(cause, name))
                except (AttributeError, TypeError):  # the field is not set, or cannot be set
                    pass


class TaskCancelledError(RayError):
    """The task was cancelled."""


class CancelledTaskError(TaskCancelledError, RayTaskError):
    """Raised by get() for a task that was cancelled. Also a RayTaskError, like Ray's error for a running task.
    """

    def __init__(self, text="") -> None:
        RayTaskError.__init__(self, traceback_str=text)
        self.args = (text,)
        self.cause = TaskCancelledError(text)


class GetTimeoutError(RayError, TimeoutError):
    """The value was not available within the timeout."""


class WorkerCrashedError(RayError):
    """The worker died while it ran the task; the text has the cause."""


class RayActorError(RayError):
    """Base of the errors of actors that have died or cannot be reached."""

    actor_id = None  # the actor's id as text, in the calling process


class ActorDiedError(RayActorError):
    """The actor has died and is not restarted; the text has the cause."""


class ActorUnavailableError(RayActorError):
    """The actor cannot be reached at the moment."""


class ActorUnschedulableError(RayError):
    """No node has the resources that the actor asks for."""


class TaskUnschedulableError(RayError):
    """No node has the resources that the task asks for."""


class ObjectLostError(RayError):
    """No copy of the object is left."""


class OwnerDiedError(ObjectLostError):
    """The process that owned the object has died, and the object is lost."""


class ObjectFetchTimedOutError(ObjectLostError):
    """The object could not be fetched within the timeout."""


class ObjectFreedError(ObjectLostError):
    """The object was freed explicitly."""


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The object was deleted although a reference to it existed."""


class ObjectReconstructionFailedError(ObjectLostError):
    """The object was lost and could not be reconstructed."""


class ObjectStoreFullError(RayError):
    """The object store has no memory for the object."""


class ObjectTooLargeError(ObjectStoreFullError, ValueError):
    """The object is larger than the whole object store."""


class OutOfDiskError(RayError):
    """The disk has no space left."""


class OutOfMemoryError(RayError):
    """Memory was nearly used up, and the node ended the task's worker; the text has the sizes and what to change."""


class ActorOutOfMemoryError(OutOfMemoryError, ActorDiedError):
    """Memory was nearly used up, and the node ended the actor."""


class NodeDiedError(RayError):
    """The node has died."""


class LocalRayletDiedError(RayError):
    """The node of this machine has died."""


class RuntimeEnvSetupError(RayError):
    """The runtime environment of a worker could not be set up."""


class TaskPlacementGroupRemoved(RayError, ValueError):
    """The task's placement group was removed."""


class ActorPlacementGroupRemoved(RayError):
    """The actor's placement group was removed."""


class PendingCallsLimitExceeded(RayError):
    """The actor has max_pending_calls calls without an answer."""


class AsyncioActorExit(RayError):
    """An async actor exits."""


class CrossLanguageError(RayError):
    """A task in another language failed."""


class UserCodeException(RayError):
    """A function of the user that the runtime called has failed."""


class ObjectRefStreamEndOfStreamError(RayError):
    """The generator has no more values."""


class RaySystemError(RayError):
    """The runtime itself has failed."""


class ActorAlreadyExistsError(ValueError, RayError):
    """Another actor has this name."""


class ActorHandleNotFoundError(ValueError, RayError):
    """The actor of the handle is unknown to this program."""


class UnserializableException(RayError):
    """The exception could not be serialized."""


class PlasmaObjectNotAvailable(RayError):
    """The object is not on this machine."""


class ObjectReconstructionFailedLineageEvictedError(ObjectReconstructionFailedError):
    """The lineage of the lost object is no longer known."""


class ObjectReconstructionFailedMaxAttemptsExceededError(ObjectReconstructionFailedError):
    """The object was lost more often than it may be reconstructed."""


class OufOfBandObjectRefSerializationException(RayError):
    """A reference was pickled outside of the runtime; Miniray allows this."""


class RayChannelError(RaySystemError):
    """A channel of a compiled graph failed."""


class RayCgraphCapacityExceeded(RaySystemError):
    """A compiled graph has too many results that were not taken."""


class RayDirectTransportError(RaySystemError):
    """A tensor could not be sent from one GPU to another."""


class AuthenticationError(RayError):
    """The cluster rejected the credentials."""


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """A channel of a compiled graph timed out."""
