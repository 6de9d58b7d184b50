"""A worker: run by the node as a script, with the driver's sys.path as its arguments."""

import os
import sys


def begin():
    """Before the first task: what told this process to be a worker is not for the processes that tasks start."""
    for name in [name for name in os.environ if name.startswith("MINIRAY_BOOT")]:
        del os.environ[name]


if __name__ == "__main__":
    sys.path[:] = sys.argv[1:]
    sys.argv[1:] = []
    sys.stdout.reconfigure(line_buffering=True)
    import cloudpickle  # noqa: F401  nearly every task needs it, and now there is time
    from miniray import _core
    _core.serve()
