"""State of local mode: the actors that run in the program itself. _actors/local_calls.py runs their calls."""

from miniray import _core, exceptions
from miniray._core_api import did_you_mean

_state = None  # None outside of local mode


class _State:
    def __init__(self):
        self.actors = {}  # {id: instance, or the exception of its constructor}
        self.names = {}  # {(namespace, name): handle}
        self.running = []  # handles of the actors whose methods run, the innermost last


def is_on():
    """Whether tasks and actors run in the program itself."""
    return _state is not None


def switch(on):
    """Switches local mode on, without any actors, or off."""
    global _state
    _state = _State() if on else None
    _core.set_local(on)


def state():
    """The actors, names and running calls of this program; None outside of local mode."""
    return _state


def instance_of(handle):
    """The instance of an actor; raises ActorDiedError if there is none."""
    instance = _state.actors.get(bytes.fromhex(handle.__actor_id__))
    if instance is None:
        raise exceptions.ActorDiedError("the actor was killed by miniray.kill")
    if isinstance(instance, exceptions.ActorDiedError):
        raise instance
    return instance


def is_dead(handle):
    """Whether the actor was killed, or its constructor failed."""
    try:
        instance_of(handle)
    except exceptions.ActorDiedError:
        return True
    return False


def current():
    """The handle of the actor whose method runs; None outside of one."""
    return _state.running[-1] if _state.running else None


def names():
    """[(namespace, name)] of the named actors."""
    return list(_state.names)


def find(name, space):
    """The handle of the actor that has this name; ValueError if there is none."""
    if (space, name) not in _state.names:
        known = [known for place, known in _state.names if place == space]
        raise ValueError(f"there is no actor named '{name}'{did_you_mean.hint(name, known)}")
    return _state.names[space, name]


def kill(handle):
    """Removes the actor and its names."""
    _state.actors.pop(bytes.fromhex(handle.__actor_id__), None)
    for key in [key for key, named in _state.names.items() if named == handle]:
        del _state.names[key]
