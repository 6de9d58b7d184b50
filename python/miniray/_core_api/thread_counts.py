"""Threads inside operations (OpenMP, BLAS, torch): as many as the task or actor has CPUs.

A worker has one thread, unless the program's environment has OMP_NUM_THREADS. Tasks and actors with more CPUs are
wrapped in `used` (task_context.py).
"""

import os
import sys

CHOSEN = "MINIRAY_CHOSE_OMP_NUM_THREADS"  # set by worker.py if the program's environment had no OMP_NUM_THREADS


class used:
    """Sets the number of threads inside the block."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.before = use_threads(self.count)

    def __exit__(self, *error):
        use_threads(self.before)


def use_threads(count):
    """Sets the number of threads for libraries that are loaded now or later, and returns the former number.
    OMP_NUM_THREADS of the program's environment takes precedence."""
    before = int(os.environ["OMP_NUM_THREADS"]) if CHOSEN in os.environ else count
    if count != before:
        os.environ["OMP_NUM_THREADS"] = str(count)
        apply(count)
    return before


def apply(count):
    """Sets the number of threads of those of torch and OpenBLAS that are loaded."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)
    with open("/proc/self/maps") as lines:
        libraries = {line.split()[-1] for line in lines if "openblas" in line}
    for path in libraries:
        import ctypes
        library = ctypes.CDLL(path)
        for name in ("openblas_set_num_threads", "openblas_set_num_threads64_", "scipy_openblas_set_num_threads64_"):
            if hasattr(library, name):
                getattr(library, name)(count)
