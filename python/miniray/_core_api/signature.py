"""Signatures of functions: a wrong call raises Python's own error at the caller.

The code object suffices to accept most calls. For the others, a function with the same parameters and an empty body is
called, which raises the same error as the original.
"""

import types

from miniray._core_api import did_you_mean

_VARARGS, _VARKEYWORDS = 0x04, 0x08  # bits of co_flags
_ONLY_PLACE, _PLACE, _PLACES, _ONLY_NAME, _NAMES = range(5)  # kinds of parameters, by inspect's numbers


def limits(function, skip=0):
    """(least, most, check): numbers of positional arguments of a call without keywords (most < 0: any number), and
    check(args, kwargs), which raises TypeError. `skip`: number of first parameters to leave out, such as a method's
    self."""
    check = Check(function, skip)
    if not _is_plain(function):
        return 1, 0, check  # `check` sees every call
    code = function.__code__
    if len(function.__kwdefaults__ or ()) < code.co_kwonlyargcount:
        return 1, 0, check  # a call needs keywords
    most = code.co_argcount - skip
    least = most - len(function.__defaults__ or ())
    return max(least, 0), -1 if code.co_flags & _VARARGS else most, check


def _is_plain(function):
    return isinstance(function, types.FunctionType) and not hasattr(function, "__wrapped__")


class Check:
    """check(args, kwargs) of a function. `described()` suffices to make an equal one elsewhere."""

    __slots__ = ("_function", "_skip", "_described", "_twin")

    def __init__(self, function=None, skip=0, described=None):
        self._function, self._skip, self._described, self._twin = function, skip, described, None

    def __call__(self, args, kwargs):
        if self._twin is None:
            self._twin = _twin(*self.described())
        try:
            self._twin(*args, **kwargs)
        except TypeError as error:
            did_you_mean.add_keyword(error, [each[0] for each in self.described()[2]])
            raise

    def described(self):
        """(name, number of parameters to skip, ((name, kind, has_default), …)); the last is None if the signature is
        unknown."""
        if self._described is None:
            read = _read_code if _is_plain(self._function) else _inspect
            name = getattr(self._function, "__qualname__", type(self._function).__name__)
            self._described = name, self._skip, read(self._function)
        return self._described


def _read_code(function):
    code, kinds = function.__code__, []
    first_default = code.co_argcount - len(function.__defaults__ or ())
    for place in range(code.co_argcount):
        kinds.append((_ONLY_PLACE if place < code.co_posonlyargcount else _PLACE, place >= first_default))
    for name in code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]:
        kinds.append((_ONLY_NAME, name in (function.__kwdefaults__ or ())))
    kinds += [(_PLACES, False)] * bool(code.co_flags & _VARARGS) + [(_NAMES, False)] * bool(code.co_flags & _VARKEYWORDS)
    return tuple((name, *kind) for name, kind in zip(code.co_varnames, kinds))


def _inspect(function):
    import inspect
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some C functions have no signature
        return None
    return tuple((each.name, int(each.kind), each.default is not each.empty) for each in parameters)


def _twin(name, skip, parameters):
    if parameters is None:
        return lambda *args, **kwargs: None
    parameters = sorted(parameters, key=lambda each: each[1])
    texts = []
    for place, (parameter, kind, has_default) in enumerate(parameters):
        if kind != _ONLY_PLACE and place > 0 and parameters[place - 1][1] == _ONLY_PLACE:
            texts.append("/")
        if kind == _ONLY_NAME and not any(before[1] >= _PLACES for before in parameters[:place]):
            texts.append("*")
        texts.append({_PLACES: "*", _NAMES: "**"}.get(kind, "") + parameter + "=None" * has_default)
    if parameters and parameters[-1][1] == _ONLY_PLACE:
        texts.append("/")
    made = {}
    exec(f"def twin({', '.join(texts)}): pass", made)
    twin = made["twin"]
    twin.__qualname__ = twin.__name__ = name
    if skip and parameters and parameters[0][1] <= _PLACES:
        return lambda *args, **kwargs: twin(*(None,) * skip, *args, **kwargs)
    return twin
