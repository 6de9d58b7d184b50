"""What can go wrong, by Ray's names."""


_FIELD = type(OSError.errno)


class RayError(Exception):
    """Of all errors that the runtime raises."""


class RayTaskError(RayError):
    """A task or an actor's method raised: this one is an instance of that exception's class too.

    `cause` is the exception itself, `traceback_str` what the worker printed of it.
    """

    def __init__(self, function_name="", traceback_str="", cause=None, pid=0):
        Exception.__init__(self, function_name, traceback_str, cause, pid)  # not that of the user's class
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause
        self.pid = pid

    def __str__(self):
        return self.traceback_str or f"task {self.function_name} failed"

    def as_instanceof_cause(self):
        return make_task_error(self.function_name, self.traceback_str, self.cause, self.pid)


def make_task_error(function_name, traceback_str, cause, pid):
    """A RayTaskError that `except TheUsersError` catches as well."""
    kind = type(cause)
    if cause is None or issubclass(RayTaskError, kind):
        return RayTaskError(function_name, traceback_str, cause, pid)

    def read(self, name):  # attributes of the user's exception
        return getattr(cause, name)

    own = {"__init__": RayTaskError.__init__, "__str__": RayTaskError.__str__, "__getattr__": read,
           "__reduce__": lambda self: (make_task_error, (function_name, traceback_str, cause, pid)),
           "__module__": "miniray.exceptions"}
    if hasattr(kind, "derive"):  # an ExceptionGroup is made with what is in it
        own["__new__"] = lambda cls, *about: kind.__new__(cls, cause.message, cause.exceptions)
    try:
        both = type(f"RayTaskError({kind.__name__})", (RayTaskError, kind), own)
        made = both(function_name, traceback_str, cause, pid)
        made.args = cause.args
        _copy_fields(cause, made)
        return made
    except TypeError:  # a class that cannot be inherited from
        return RayTaskError(function_name, traceback_str, cause, pid)


def _copy_fields(cause, made):
    """Those that lie in the exception itself, as errno of OSError does; others are read from the cause."""
    for kind in type(cause).__mro__:
        for name, field in vars(kind).items():
            if type(field) is _FIELD and not name.startswith("_"):
                try:
                    setattr(made, name, getattr(cause, name))
                except (AttributeError, TypeError):  # not set, or not to be set
                    pass


class TaskCancelledError(RayError):
    """The task was cancelled."""


class CancelledTaskError(TaskCancelledError, RayTaskError):
    """What get() raises for a task that was cancelled: a RayTaskError, too, as that of one which ran is in Ray."""

    def __init__(self, text=""):
        RayTaskError.__init__(self, traceback_str=text)
        self.args = (text,)
        self.cause = TaskCancelledError(text)


class GetTimeoutError(RayError, TimeoutError):
    """The value was not there in time."""


class WorkerCrashedError(RayError):
    """The worker died while it ran the task: the text says of what."""


class RayActorError(RayError):
    """The actor is gone."""

    actor_id = None  # as it is printed, where the call was made by the process that asks for its result


class ActorDiedError(RayActorError):
    """The actor is gone for good: the text says why."""


class ActorUnavailableError(RayActorError):
    """The actor cannot be reached at the moment."""


class ActorUnschedulableError(RayError):
    """No machine has what the actor asks for."""


class TaskUnschedulableError(RayError):
    """No machine has what the task asks for."""


class ObjectLostError(RayError):
    """No copy of the object is left."""


class OwnerDiedError(ObjectLostError):
    """The process that the object came from is gone, and the object with it."""


class ObjectFetchTimedOutError(ObjectLostError):
    """The object could not be fetched in time."""


class ObjectFreedError(ObjectLostError):
    """The object was freed by hand."""


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The object was gone though somebody had a reference."""


class ObjectReconstructionFailedError(ObjectLostError):
    """The object was lost and could not be made again."""


class ObjectStoreFullError(RayError):
    """There is no memory for the object."""


class ObjectTooLargeError(ObjectStoreFullError, ValueError):
    """There never will be memory for the object: it is larger than all there is."""


class OutOfDiskError(RayError):
    """There is no room on the disk."""


class OutOfMemoryError(RayError):
    """The machine's memory ran out, and the task was ended for it."""


class NodeDiedError(RayError):
    """The node is gone."""


class LocalRayletDiedError(RayError):
    """This machine's node is gone."""


class RuntimeEnvSetupError(RayError):
    """The environment of a worker could not be made."""


class TaskPlacementGroupRemoved(RayError, ValueError):
    """The task's placement group was removed."""


class ActorPlacementGroupRemoved(RayError):
    """The actor's placement group was removed."""


class PendingCallsLimitExceeded(RayError):
    """Too many calls wait."""


class AsyncioActorExit(RayError):
    """An async actor ends itself."""


class CrossLanguageError(RayError):
    """A task of another language failed."""


class UserCodeException(RayError):
    """Code of the user's that the runtime calls failed."""


class ObjectRefStreamEndOfStreamError(RayError):
    """A generator has no more."""


class RaySystemError(RayError):
    """The runtime itself is in trouble."""


class ActorAlreadyExistsError(ValueError, RayError):
    """Another actor has this name."""


class ActorHandleNotFoundError(ValueError, RayError):
    """A handle of an actor that this program does not know."""


class UnserializableException(RayError):
    """An exception that could not be sent."""


class PlasmaObjectNotAvailable(RayError):
    """An object is not on this machine."""


class ObjectReconstructionFailedLineageEvictedError(ObjectReconstructionFailedError):
    """It is not known any more how an object was made."""


class ObjectReconstructionFailedMaxAttemptsExceededError(ObjectReconstructionFailedError):
    """An object was lost too often."""


class OufOfBandObjectRefSerializationException(RayError):
    """A reference was pickled by hand; here it may be."""


class RayChannelError(RaySystemError):
    """A channel of a compiled graph failed."""


class RayCgraphCapacityExceeded(RaySystemError):
    """A compiled graph holds too many results that nobody took."""


class RayDirectTransportError(RaySystemError):
    """A tensor could not be sent from one GPU to another."""


class AuthenticationError(RayError):
    """A cluster did not accept who asked."""


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """A channel of a compiled graph was too slow."""
