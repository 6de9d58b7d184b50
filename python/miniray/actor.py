"""Actors, by the names that Ray's module of this name has."""

import time

from miniray import _core
from miniray._actors import ActorClass
from miniray._core import ActorHandle, ActorMethod
from miniray._methods import method

ActorProxy = ActorHandle  # Ray's name for one whose class is known to type checkers

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "ActorProxy", "exit_actor", "method"]


def exit_actor():
    """Ends the actor that this runs in, for good: its functions for the exit run, and the call that says so fails with
    ActorDiedError, as those behind it do."""
    import atexit
    actor = _core.current_actor()
    if actor is None:
        raise TypeError("exit_actor API is called on a non-actor worker. Call this API inside an actor methods if you'd "
                        "like to exit the actor gracefully.")
    atexit._run_exitfuncs()
    _core.kill(actor, True)
    while True:  # the end comes from the node
        time.sleep(1)
