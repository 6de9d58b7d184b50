"""References and handles that users pickle themselves.

Such a pickle may be loaded at any time, so the object that it names is kept until the program ends: in the process that
pickled it, and in an actor (Keeper), from which the program's other processes get it.
"""

from miniray import _core
from miniray._core_api import local_mode as _local_mode, session as _session
from miniray._serialize import pickle as _pickle

_here = {}  # {repr: reference or handle that this process has pickled or loaded}
_keepers = {}  # {job id: handle of the Keeper}


class Keeper:
    """The actor that holds references and handles by name."""

    def __init__(self):
        self.things = {}

    def keep(self, name, things):
        """Stores references and handles under a name."""
        self.things[name] = things

    def take(self, name):
        """The references and handles of this name; None if there are none."""
        return self.things.get(name)


def _keeper():
    job = _session.job().id
    if job not in _keepers:
        from miniray._actors import actor_class as _actor_class
        made = _actor_class.make_class(Keeper, {"name": job, "namespace": _session.PINNED_NAMESPACE, "get_if_exists": True, "num_cpus": 0})
        _keepers[job] = made.remote()
    return _keepers[job]


def reduce_inside(thing):
    """How an ObjectRef or ActorHandle is pickled, by the runtime or by the user."""
    return _pickle.noted_inside(thing) or keep(thing)


def keep(thing):
    """Keeps a reference or handle until the program ends; returns what its pickle contains."""
    name = repr(thing)
    if name not in _here and not _local_mode.is_on() and _core.is_initialized():
        _core.get(_keeper().keep.remote(name, [thing]))
    _here[name] = thing
    return take, (name,)


def take(name):
    """The reference or handle of this name."""
    if name not in _here:
        things = _core.get(_keeper().take.remote(name)) if _core.is_initialized() else None
        if not things:
            raise TypeError(f"{name} was pickled by another driver and can be unpickled only while that one runs")
        _here[name] = things[0]
    return _here[name]
