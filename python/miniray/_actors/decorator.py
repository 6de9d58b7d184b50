"""The decorator @remote: makes a function a task, and a class an actor."""

from miniray import _core
from miniray._actors import actor_class as _actor_class
from miniray._core_api import api as _api
from miniray._core_api.tracebacks import public


@public
def remote(*arguments, **options):
    """Makes a function a task, or a class an actor: `@remote`, or `@remote(num_cpus=2)`."""
    if len(arguments) == 1 and not options and callable(arguments[0]):
        return _decorate(arguments[0], {})
    if arguments or not options:
        raise TypeError("The @remote decorator must be applied either with no arguments and no parentheses, for "
                        "example '@miniray.remote', or it must be applied using some of the options in keyword form, "
                        "for example '@miniray.remote(num_returns=2, max_retries=1)'.")
    return public(lambda target: _decorate(target, options))


def _decorate(target, options):
    if isinstance(target, type):
        return _actor_class.make_class(target, options)
    if isinstance(target, _core.RemoteFunction):
        raise TypeError(f"{target!r} is a remote function already")
    if not callable(target):
        raise TypeError("The @remote decorator must be applied to either a function or a class, not "
                        f"{type(target).__name__}.")
    return _api.remake_function(target, options)
