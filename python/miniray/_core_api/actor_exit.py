"""The end of an actor from inside: exit_actor(), and sys.exit() in a method."""

import time

from miniray import _core
from miniray._core_api.tracebacks import public


@public
def exit_actor():
    """Ends this actor for good, after its atexit functions. This call and the ones behind it fail with ActorDiedError.
    """
    import atexit
    actor = _core.current_actor()
    if actor is None:
        raise TypeError("exit_actor API is called on a non-actor worker. Call this API inside an actor methods if you'd "
                        "like to exit the actor gracefully.")
    atexit._run_exitfuncs()
    _core.kill(actor, True)
    while True:  # the node ends this process
        time.sleep(1)


def leave(code):
    """Ends an actor whose method called sys.exit(). Code 0 ends the actor for good; with another code the process dies,
    and the actor is restarted if restarts are left."""
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
