"""What a function takes, so that a wrong call is told where it is made."""

import functools
import inspect


def limits(function, skip=0):
    """(least, most, check): how many positional arguments do without keywords (most < 0: any number), and
    check(args, kwargs), which raises TypeError. `skip` leaves out so many first parameters: a method's self."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions of C do not tell
        return 0, -1, _anything
    parameters = list(signature.parameters.values())[skip:]
    signature = signature.replace(parameters=parameters)
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in places)
    most = -1 if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(places)
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        least, most = 1, 0  # never without keywords
    return least, most, functools.partial(_check, signature)


def _anything(args, kwargs):
    pass


def _check(signature, args, kwargs):
    signature.bind(*args, **kwargs)
