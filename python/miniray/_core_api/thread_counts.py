"""Threads inside of operations (OpenMP, BLAS, torch): as many as the task or the actor has CPUs.

A worker has one, unless the program's environment says otherwise. What has more CPUs than one is sent inside of this
(task_context.py).
"""

from miniray import worker


class used:
    """So many, while it is entered."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.before = worker.use_threads(self.count)

    def __exit__(self, *error):
        worker.use_threads(self.before)
