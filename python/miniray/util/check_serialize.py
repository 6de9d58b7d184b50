"""The parts of a value that cannot be serialized."""

from __future__ import annotations

from typing import Any

from miniray._core_api.tracebacks import public_module
from miniray._serialize import pickle as _pickle


class FailureTuple:
    """A part that cannot be serialized: the object, its path, and the object that contains it."""

    def __init__(self, obj, name, parent) -> None:
        self.obj, self.name, self.parent = obj, name, parent

    def __repr__(self):
        return f"FailTuple({self.name} [obj={self.obj}, parent={self.parent}])"


def inspect_serializability(base_obj, name=None, depth=3, print_file=None) -> tuple[bool, set[Any]]:
    """(whether the value can be serialized, {FailureTuple}); also prints the result. `depth` has no effect: all levels
    are examined."""
    name = str(base_obj) if name is None else name
    where = _pickle.find_culprit(base_obj, name)
    print(f"Checking Serializability of {base_obj}", file=print_file)
    if where is None:
        return True, set()
    path, culprit, reason = where
    print(f"{path} cannot be sent: {reason}", file=print_file)
    return False, {FailureTuple(culprit, path, base_obj)}


public_module(globals())
