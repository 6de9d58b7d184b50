"""A worker: run by the node as a script, with the driver's sys.path as its arguments."""

import os
import signal
import sys


def begin():
    """Before the first task: what told this process to be a worker is not for the processes that tasks start, and a task
    that is cancelled while it runs is interrupted."""
    signal.signal(signal.SIGINT, _interrupt)
    for name in [name for name in os.environ if name.startswith("MINIRAY_BOOT")]:
        del os.environ[name]


def _interrupt(number, frame):
    """Ctrl-C is for the driver; this is for the task at hand, if it was cancelled."""
    from miniray import _core
    if _core.interrupt_is_due():
        raise KeyboardInterrupt


if __name__ == "__main__":
    sys.path[:] = sys.argv[1:]
    sys.argv[1:] = []
    sys.stdout.reconfigure(line_buffering=True)
    import cloudpickle  # noqa: F401  nearly every task needs it, and now there is time
    from miniray import _core
    _core.serve()
