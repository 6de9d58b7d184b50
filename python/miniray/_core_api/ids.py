"""Names of things, as bytes and as text."""


class BaseID:
    """The name of something."""

    def __init__(self, binary):
        if not isinstance(binary, bytes):
            raise TypeError(f"Unsupported type: {type(binary)}")
        self._binary = binary

    @classmethod
    def from_hex(cls, text):
        return cls(bytes.fromhex(text))

    @classmethod
    def from_random(cls):
        import os
        return cls(os.urandom(16))

    @classmethod
    def nil(cls):
        return cls(b"\xff" * 16)

    def binary(self):
        return self._binary

    def hex(self):
        return self._binary.hex()

    def is_nil(self):
        return self._binary.count(0xFF) == len(self._binary)

    def __eq__(self, other):
        return type(self) is type(other) and self._binary == other._binary

    def __hash__(self):
        return hash((type(self), self._binary))

    def __repr__(self):
        return f"{type(self).__name__}({self.hex()})"


class TaskID(BaseID):
    """Of a task, or a call of an actor."""

    def job_id(self):
        """Of its program: this one."""
        return _own_job()


class ActorID(BaseID):
    """Of an actor."""

    @property
    def job_id(self):
        """Of its program, if it is this one's."""
        return _own_job()


class JobID(BaseID):
    """Of a program."""


class NodeID(BaseID):
    """Of a node."""


class WorkerID(BaseID):
    """Of a worker."""


class PlacementGroupID(BaseID):
    """Of a placement group."""


class UniqueID(BaseID):
    """Of anything."""


class ActorClassID(UniqueID):
    """Of a class that actors are made of."""


class FunctionID(UniqueID):
    """Of a function."""


def group_id_of(handle):
    """The id of the placement group with this handle, as the node writes it."""
    import sys
    words = bytes.fromhex(handle)  # two numbers, which the id has in the byte order of the machine
    return PlacementGroupID(b"".join(int.from_bytes(words[at:at + 8], "big").to_bytes(8, sys.byteorder) for at in (0, 8)))


def actor_id_of(handle):
    """The id of an actor."""
    return ActorID.from_hex(handle.__actor_id__)


def task_id_of(ref):
    """The task that makes an object."""
    return TaskID(ref.binary())


def job_id_of(ref):
    """The program that an object belongs to: this one."""
    return _own_job()


def _own_job():
    from miniray._core_api import session as _session
    return JobID.from_hex(_session.job().id)
