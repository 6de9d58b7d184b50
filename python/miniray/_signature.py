"""What a function takes, so that a wrong call is told where it is made.

Reading the code object is enough to pass most calls; `inspect` is loaded only for the others.
"""

import functools
import types

_VARARGS = 0x04  # of co_flags


def limits(function, skip=0):
    """(least, most, check): how many positional arguments do without keywords (most < 0: any number), and
    check(args, kwargs), which raises TypeError. `skip` leaves out so many first parameters: a method's self."""
    check = functools.partial(_check, function, skip)
    if not isinstance(function, types.FunctionType) or hasattr(function, "__wrapped__"):
        return 1, 0, check  # always looked at in full
    code = function.__code__
    if len(function.__kwdefaults__ or ()) < code.co_kwonlyargcount:
        return 1, 0, check  # never without keywords
    most = code.co_argcount - skip
    least = most - len(function.__defaults__ or ())
    return max(least, 0), -1 if code.co_flags & _VARARGS else most, check


def _check(function, skip, args, kwargs):
    import inspect
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions of C do not tell
        return
    parameters = list(signature.parameters.values())
    if skip and parameters and parameters[0].kind in (inspect.Parameter.POSITIONAL_ONLY,
                                                      inspect.Parameter.POSITIONAL_OR_KEYWORD):
        signature = signature.replace(parameters=parameters[skip:])
    signature.bind(*args, **kwargs)
