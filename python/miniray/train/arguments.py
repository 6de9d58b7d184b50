"""The keyword arguments of `train`: which of them a function of the program takes."""

import inspect

from miniray._core_api import did_you_mean


def check(kwargs, takers, callee, own):
    """Raises TypeError for an argument that none of the functions and classes takes; None among them takes none. `own`
    are names of the callee's other parameters."""
    known = list(own)
    for taker in takers:
        parameters = [] if taker is None else _parameters(taker)
        if parameters is None or any(each.kind == each.VAR_KEYWORD for each in parameters):
            return
        known += [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    for name in kwargs:
        if name not in known:
            meant = did_you_mean.hint(name, known) or ": no worker and no hook of the program takes it"
            raise TypeError(f"{callee} got an unexpected keyword argument '{name}'{meant}")


def _parameters(function):
    """None: unknown."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def taken_by_method(method, kwargs):
    """The keyword arguments that a method of the actor takes."""
    described = method._entry[2].described() if method._entry is not None else None
    parameters = described[2] if described is not None else ()
    if parameters is None or any(kind == inspect.Parameter.VAR_KEYWORD for _, kind, _ in parameters):
        return dict(kwargs)
    names = {name for name, kind, _ in parameters
             if kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)}
    return {name: value for name, value in kwargs.items() if name in names}


def taken_by(cls, kwargs):
    """(whether the constructor takes a positional argument, the keyword arguments that it takes)"""
    try:
        parameters = list(inspect.signature(cls).parameters.values())
    except (TypeError, ValueError):
        return True, dict(kwargs)
    kinds = [each.kind for each in parameters]
    positional = any(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                              inspect.Parameter.VAR_POSITIONAL) for kind in kinds)
    if inspect.Parameter.VAR_KEYWORD in kinds:
        return positional, dict(kwargs)
    names = [each.name for each in parameters if each.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD,
                                                               inspect.Parameter.KEYWORD_ONLY)]
    return positional, {name: value for name, value in kwargs.items() if name in names[positional and
                        parameters[0].kind == inspect.Parameter.POSITIONAL_OR_KEYWORD:]}
