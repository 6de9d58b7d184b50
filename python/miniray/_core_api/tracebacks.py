"""Tracebacks without frames of this package: they end at the program's line. MINIRAY_FULL_TRACEBACKS=1 keeps all
frames."""

from __future__ import annotations

import builtins
import os
import sys
import warnings

from miniray import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar
    T = TypeVar("T")

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_CONTEXTLIB = os.path.join(os.path.dirname(os.__file__), "contextlib.py")
_GROUP = getattr(builtins, "BaseExceptionGroup", ())  # of Python 3.11
_SPECIAL = ("__init__", "__call__", "__enter__", "__exit__", "__iter__", "__next__")


def is_internal(path):
    """Whether the file with this path is one of the package."""
    return path.startswith(_PACKAGE)


def public(target: T) -> T:
    """Decorates a function that programs call, or a class with such methods: exceptions have no frames of the package.
    """
    if not isinstance(target, type):
        return _core.PublicFunction(target)
    for name, value in list(vars(target).items()):
        if name.startswith("_") and name not in _SPECIAL:
            continue
        if isinstance(value, (staticmethod, classmethod)):
            setattr(target, name, type(value)(_core.PublicFunction(value.__func__)))
        elif type(value) is type(public):
            setattr(target, name, _core.PublicFunction(value))
    return target


def public_module(names):
    """Decorates the functions and classes of a module, whose last line calls this with its globals()."""
    for name, value in list(names.items()):
        if name.startswith("_") or getattr(value, "__module__", None) != names["__name__"]:
            continue
        if type(value) is type(public):
            names[name] = _core.PublicFunction(value)
        elif isinstance(value, type) and not issubclass(value, BaseException):
            public(value)


def warn(text):
    """Warns, at the program's line."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and is_internal(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def explain(error, function, args, names):
    """Completes an error of a public function: with the name that was meant, if it is about an unknown keyword argument,
    and with the function and its arguments, if this package could not use one. `names` are those of the last arguments,
    or None."""
    from miniray._core_api import did_you_mean
    if error.__traceback__ is None:
        did_you_mean.add_keyword_of(error, function)
    elif function.__name__ != "__getattr__" and _is_accident(error):
        error.args = (f"{_call_text(function, args, names or ())}: {error}",)


def _is_accident(error):
    """Whether a function of this package has not checked an argument: Python has raised the error in it, with a text
    that does not name the argument."""
    if type(error) not in (TypeError, AttributeError, ValueError) or len(error.args) != 1:
        return False
    entry = error.__traceback__
    while entry.tb_next is not None:
        entry = entry.tb_next
    if not is_internal(entry.tb_frame.f_code.co_filename):
        return False
    import re
    return re.match(_OF_PYTHON, str(error)) is not None


# The begins of Python's own texts.
_OF_PYTHON = ("'[\\w.]+' object (has no attribute|is not|cannot be|does not)|'[<>=!]+' not supported between|unsupported operand|"
              "can only concatenate|object of type '|expected str, bytes or|a bytes-like object is required|could not convert|"
              "invalid literal|must be real number|argument \\d+ must be|\\w+\\(\\) argument|unhashable type|cannot unpack|"
              "an integer is required|cannot convert|(list|tuple|string|byte) indices must|embedded null")
_SHOWN_MAX = 40  # letters of an argument


def _call_text(function, args, names):
    """A call such as EarlyStopping('loss', patience='three')."""
    name = function.__qualname__
    owner, _, last = name.rpartition(".")
    if owner and not owner.endswith("<locals>"):
        args, name = args[1:], owner if last == "__init__" else name
    shown = [repr(arg) for arg in args]
    shown = [text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…" for text in shown]
    first = len(shown) - len(names)
    return f"{name}({', '.join(shown[:first] + [f'{key}={text}' for key, text in zip(names, shown[first:])])})"


def cut(error):
    """Removes the package's frames from the tracebacks of the error and of those before it; returns the error's."""
    if os.environ.get("MINIRAY_FULL_TRACEBACKS") == "1":
        return error.__traceback__
    waiting, seen = [error], set()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _kept(each.__traceback__)
        waiting += [each.__cause__, each.__context__, *(each.exceptions if isinstance(each, _GROUP) else ())]
    return error.__traceback__


def _kept(entry):
    """The entries of the program, linked."""
    first = last = None
    internal = False
    while entry is not None:
        path, after = entry.tb_frame.f_code.co_filename, entry.tb_next
        internal = is_internal(path) or (internal and path == _CONTEXTLIB)
        if not internal:
            if last is None:
                first = entry
            else:
                last.tb_next = entry
            last = entry
        entry = after
    if last is not None:
        last.tb_next = None
    return first
