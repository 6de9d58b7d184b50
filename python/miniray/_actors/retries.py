"""Retries of tasks and methods that raise (retry_exceptions), and the wrappers of tasks with a separate environment."""

import functools

from miniray._actors import methods as _methods
from miniray._core_api import options as _options, task_context as _task_context

DEFAULT_RETRIES = 3
_COROUTINE = 0x80  # bit of co_flags


class Retrying:
    """Sent instead of a function with retry_exceptions: calls it until it succeeds or the retries are used up."""

    def __init__(self, function, retries, exceptions):
        self.function, self.retries, self.exceptions = function, retries, exceptions

    def __call__(self, *args, **kwargs):
        left = self.retries
        while True:
            try:
                result = self.function(*args, **kwargs)
                return self._stepped(result, args, kwargs) if hasattr(result, "__next__") else result
            except self.exceptions:
                if left == 0:
                    raise
            left -= 1

    def _stepped(self, generator, args, kwargs):
        """The values of a generator; a repeated run skips the values that an earlier run has yielded."""
        left, given = self.retries, 0
        while True:
            try:
                for number, value in enumerate(generator):
                    if number >= given:
                        given += 1
                        yield value
                return
            except self.exceptions:
                if left == 0:
                    raise
            left -= 1
            generator = self.function(*args, **kwargs)


def wrap(function, settings):
    """The object that is sent for a function: the function itself if its options need no wrapper."""
    function = _task_context.task(function, settings)
    wanted = settings.get("retry_exceptions")
    if wanted:
        retries = settings.get("max_retries")
        retries = DEFAULT_RETRIES if retries is None else retries
        function = Retrying(function, retries, _options.retried(settings))
    if settings.get("num_returns") == "dynamic":
        from miniray._actors import generators as _generators
        function = _generators.Dynamic(function)
    return function


def with_methods(cls, default_retries):
    """A class whose methods are repeated as @method(retry_exceptions=…) asks; the class itself if no method does."""
    again = {}
    for name in _methods.names_of(cls):
        function = getattr(cls, name, None)
        options = _methods.options_of(function)
        wanted, retries = _options.retried(options), options.get("max_task_retries")
        retries = default_retries if retries is None else retries
        if wanted:
            again[name] = _again(function, retries or 0, wanted)
    if not again:
        return cls
    about = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    return type(cls)(cls.__name__, (cls,), {**about, **again})


def as_told(method):
    """A method of an actor whose first argument is (retries, exceptions; None: those of @method)."""
    function, instance = getattr(method, "__func__", method), getattr(method, "__self__", None)
    plain, wanted = getattr(function, "__miniray_again__", (function, ()))

    def run(told, *args, **kwargs):
        retries, exceptions = told
        bound = plain if instance is None else plain.__get__(instance)
        return _again(bound, retries, wanted if exceptions is None else exceptions)(*args, **kwargs)
    return run


def _again(function, retries, exceptions):
    """A function that calls this one until it succeeds or the retries are used up."""
    made = _made_again(function, retries, exceptions)
    made.__miniray_again__ = function, exceptions
    return made


def _made_again(function, retries, exceptions):
    if function.__code__.co_flags & _COROUTINE:
        @functools.wraps(function)
        async def run(*args, **kwargs):
            left = retries
            while True:
                try:
                    return await function(*args, **kwargs)
                except exceptions:
                    if left == 0:
                        raise
                left -= 1
        return run
    return functools.wraps(function)(lambda *args, **kwargs: Retrying(function, retries, exceptions)(*args, **kwargs))
