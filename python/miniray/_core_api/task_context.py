"""Tasks and actors that run inside of something: an environment of their own, threads for their CPUs, a placement group.

What is sent instead of the function or the class has it as a context manager that can be pickled.
"""


class Task:
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
    """For good: the process is the actor's own."""

    def __init__(self, made_of, inside):
        self.made_of, self.inside = made_of, inside

    def __call__(self, *args, **kwargs):
        self.inside.__enter__()
        return self.made_of(*args, **kwargs)


def task(function, settings):
    """What is sent for a function: itself, if its settings ask for nothing more."""
    for inside in _wanted(settings):
        function = Task(function, inside)
    return function


def actor(made_of, settings):
    """The same for what makes an actor."""
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
