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
