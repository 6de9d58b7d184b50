"""Ids of actors, tasks, jobs, nodes and so on, as bytes and as text."""

from miniray._core_api.tracebacks import public


class BaseID:
    """Base of all ids."""

    def __init__(self, binary):
        if not isinstance(binary, bytes):
            raise TypeError(f"the bytes of a {type(self).__name__} must be bytes, not {binary!r}")
        self._binary = binary

    @classmethod
    def from_hex(cls, text):
        """The id of a hexadecimal text."""
        return cls(bytes.fromhex(text))

    @classmethod
    def from_random(cls):
        """A random id."""
        import os
        return cls(os.urandom(16))

    @classmethod
    def nil(cls):
        """The id of nothing: all bits are set."""
        return cls(b"\xff" * 16)

    def binary(self):
        """The id as bytes."""
        return self._binary

    def hex(self):
        """The id in hexadecimal."""
        return self._binary.hex()

    def is_nil(self):
        """Whether this is the id of nothing."""
        return self._binary.count(0xFF) == len(self._binary)

    def __eq__(self, other):
        return type(self) is type(other) and self._binary == other._binary

    def __hash__(self):
        return hash((type(self), self._binary))

    def __repr__(self):
        return f"{type(self).__name__}({self.hex()})"


@public
class TaskID(BaseID):
    """The id of a task or an actor call."""

    def job_id(self):
        """The id of the task's job, which is this one."""
        return _own_job()


class ActorID(BaseID):
    """The id of an actor."""

    @property
    def job_id(self):
        """The id of the actor's job, if that is this one."""
        return _own_job()


class JobID(BaseID):
    """The id of a job."""


class NodeID(BaseID):
    """The id of a node."""


class WorkerID(BaseID):
    """The id of a worker."""


class PlacementGroupID(BaseID):
    """The id of a placement group."""


class UniqueID(BaseID):
    """The id of any object."""


class ActorClassID(UniqueID):
    """The id of an actor class."""


class FunctionID(UniqueID):
    """The id of a remote function."""


def group_id_of(handle):
    """The id of the placement group with this handle, as the node writes it."""
    import sys
    words = bytes.fromhex(handle)  # two words, which the id contains in the machine's byte order
    return PlacementGroupID(b"".join(int.from_bytes(words[at:at + 8], "big").to_bytes(8, sys.byteorder) for at in (0, 8)))


def actor_id_of(handle):
    """The id of an actor."""
    return ActorID.from_hex(handle.__actor_id__)


def task_id_of(ref):
    """The id of the task that creates the object."""
    return TaskID(ref.binary())


def job_id_of(ref):
    """The id of the job that owns the object, which is this one."""
    return _own_job()


def _own_job():
    from miniray._core_api import session as _session
    return JobID.from_hex(_session.job().id)
