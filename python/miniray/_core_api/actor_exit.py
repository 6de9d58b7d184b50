"""The end of an actor from inside of it: exit_actor() and sys.exit() in a method."""

import time

from miniray import _core


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


def leave(code):
    """What sys.exit() in a method comes to: the end of the actor with 0, the death of its process with anything else, after
    which it is started again if it may be."""
    if code == 0:
        exit_actor()
    import atexit
    import os
    import sys
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF or 1 if isinstance(code, int) else 1)
