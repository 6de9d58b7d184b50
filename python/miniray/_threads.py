"""Threads inside of operations (OpenMP, BLAS, torch): as many as the task or the actor has CPUs.

A worker has one, unless the program's environment says otherwise. What has more CPUs than one is sent inside of one of
these.
"""

from miniray import worker


class Task:
    """What is sent instead of a function that has several CPUs."""

    def __init__(self, function, count):
        self.function, self.count = function, count

    def __call__(self, *args, **kwargs):
        result = self._run(self.function, *args, **kwargs)
        return self._stepped(result) if hasattr(result, "__next__") else result

    def _run(self, function, *args, **kwargs):
        before = worker.use_threads(self.count)
        try:
            return function(*args, **kwargs)
        finally:
            worker.use_threads(before)

    def _stepped(self, generator):
        before = worker.use_threads(self.count)
        try:
            yield from generator
        finally:
            worker.use_threads(before)


class Actor:
    """What is sent instead of a class whose actors have several."""

    def __init__(self, made_of, count):
        self.made_of, self.count = made_of, count

    def __call__(self, *args, **kwargs):
        worker.use_threads(self.count)
        return self.made_of(*args, **kwargs)
