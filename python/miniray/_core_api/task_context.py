"""Context managers around tasks and actors: an environment, thread counts for their CPUs, a placement group.

The wrapper that is sent instead of the function or class contains a context manager that can be pickled.
"""


class Task:
    """Runs a function inside a context manager."""

    def __init__(self, function, inside):
        self.function, self.inside = function, inside

    def __call__(self, *args, **kwargs):
        with self.inside:
            result = self.function(*args, **kwargs)
        return self._stepped(result) if hasattr(result, "__next__") else result

    def _stepped(self, generator):
        with self.inside:
            yield from generator


class Actor:
    """Creates an actor inside a context manager that is never left, since the process runs this actor only."""

    def __init__(self, made_of, inside):
        self.made_of, self.inside = made_of, inside

    def __call__(self, *args, **kwargs):
        self.inside.__enter__()
        return self.made_of(*args, **kwargs)


def task(function, settings):
    """The object that is sent for a function: the function itself if its options need no wrapper."""
    for inside in _wanted(settings):
        function = Task(function, inside)
    return function


def actor(made_of, settings):
    """The object that is sent for an actor class: the class itself if its options need no wrapper."""
    for inside in _wanted(settings):
        made_of = Actor(made_of, inside)
    return made_of


def _wanted(settings):
    from miniray._core_api import options as _options
    group = _options.captured_by(settings)
    if group:
        from miniray._core_api import scheduling as _scheduling
        yield _scheduling.captured(group)
    if _options.threads(settings) > 1:
        from miniray._core_api import thread_counts as _thread_counts
        yield _thread_counts.used(_options.threads(settings))
    if settings.get("runtime_env"):
        from miniray._core_api import runtime_env as _runtime_env
        yield _runtime_env.applied(_runtime_env.resolved(settings["runtime_env"]))
