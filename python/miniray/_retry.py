"""Tasks that are run again when they raise, or that want an environment of their own."""

DEFAULT_RETRIES = 3


class Retrying:
    """What is sent instead of a function with retry_exceptions: it calls it until it works, or has failed too often."""

    def __init__(self, function, retries, exceptions):
        self.function, self.retries, self.exceptions = function, retries, exceptions

    def __call__(self, *args, **kwargs):
        left = self.retries
        while True:
            try:
                return self.function(*args, **kwargs)
            except self.exceptions:
                if left == 0:
                    raise
            left -= 1


def wrap(function, settings):
    """What is sent for a function: itself, if its settings ask for nothing more."""
    if settings.get("runtime_env"):
        from miniray import _runtime_env
        function = _runtime_env.Task(function, _runtime_env.resolved(settings["runtime_env"]))
    wanted = settings.get("retry_exceptions")
    if not wanted:
        return function
    retries = settings.get("max_retries")
    retries = DEFAULT_RETRIES if retries is None else retries
    return Retrying(function, retries, Exception if wanted is True else tuple(wanted))
