"""Weights in files: NumPy's own format (.npz) for arrays, torch's (.pt) for tensors.

The name of an array in an .npz is its path, a step for each list, tuple or dict around it: "list:0",
"dict:conv.weight", "dict:G/tuple:3", "int:7" for a key that is a number. "empty:list" is an empty list, and a model
that is one array is "array".

Both files are zip archives; the archive's comment has the format number, "miniray weights 1". An archive without a
comment is read as format 1, since numpy.savez or torch.save wrote it.
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
from typing import Any

from miniray._core_api.tracebacks import public
from miniray._weights import _weight_tree
from miniray.train import _atomic_file

_KINDS = {"list": list, "tuple": tuple, "dict": dict}
_ENDINGS = (".npz", ".pt")
_STEPS = ("list", "tuple", "dict", "int", "empty")
_FORMAT = 1


@public
def save_weights(weights, path) -> str:
    """Writes weights, in any form that miniray.ps takes, completely or not at all. Returns the path, with .npz or .pt
    added if it has neither."""
    if not isinstance(weights, (list, tuple, dict)) and not _weight_tree.is_tensor(weights):
        if not hasattr(weights, "__iter__") or isinstance(weights, (str, bytes)):
            raise TypeError(f"weights must be a list or a dict of tensors, not {weights!r:.80}")
        weights = list(weights)
    is_torch = any(map(_weight_tree.is_torch, _weight_tree.leaves(weights)))
    path = os.fspath(path)
    if not path.endswith(_ENDINGS):
        path += ".pt" if is_torch else ".npz"
    named = None if path.endswith(".pt") else dict(_named(weights))
    with _atomic_file.written(path) as file:
        _write(weights, named, file)
    return path


def _write(weights, named, file):
    if named is None:
        import torch
        torch.save(weights, file)
    else:
        import numpy
        numpy.savez(file, **named)
    comment = b"miniray weights %d" % _FORMAT
    # A zip archive ends with the size of its comment, which is 0 at this point, and the comment.
    file.seek(-2, os.SEEK_END)
    file.write(struct.pack("<H", len(comment)) + comment)


@public
def load_weights(path) -> Any:
    """Reads weights that save_weights has written; .npz or .pt may be left out of the path."""
    path = _found(os.fspath(path))
    try:
        with open(path, "rb") as file:
            return _read(path, file)
    except (ImportError, MemoryError):
        raise
    except _OtherFormat as error:
        raise ValueError(f"{path} {error}") from None
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:  # the file does not exist or is not readable
            raise
        raise ValueError(f"{path} is not a file of save_weights, or is damaged: {error}") from error


def _found(path):
    if not path.endswith(_ENDINGS) and not os.path.exists(path):
        return next((path + ending for ending in _ENDINGS if os.path.exists(path + ending)), path)
    return path


def _check_format(file):
    """Raises for an unknown format number. Archives without a number, and torch's older files, have format 1."""
    if not zipfile.is_zipfile(file):
        file.seek(0)
        return
    with zipfile.ZipFile(file) as archive:
        comment = archive.comment
    file.seek(-2 - len(comment), os.SEEK_END)
    if struct.unpack("<H", file.read(2)) != (len(comment),):
        raise ValueError("its end is missing")
    found = re.fullmatch(rb"miniray weights (\d+)", comment)
    file.seek(0)
    if found is not None and int(found[1]) != _FORMAT:
        raise _OtherFormat(f"has format {int(found[1])}; this version reads format {_FORMAT}: use the Miniray release that "
                           "wrote it")


class _OtherFormat(Exception):
    pass


def _read(path, file):
    _check_format(file)
    if path.endswith(".pt"):
        import torch
        return torch.load(file, map_location="cpu")
    import numpy
    if not zipfile.is_zipfile(file):
        raise ValueError("it is no archive, or its end is missing")
    file.seek(0)
    arrays = numpy.load(file)
    for name in arrays.files:
        if name != "array" and any(step.partition(":")[0] not in _STEPS for step in name.split("/")):
            raise ValueError(f"it has an array {name!r}; numpy.load reads it")
    return _rebuilt([([] if name == "array" else name.split("/"), arrays[name]) for name in arrays.files])


def _named(tree, way=()):
    """(name, array) of each array in the tree."""
    if isinstance(tree, dict):
        steps = [(_step(key), item) for key, item in tree.items()]
    elif isinstance(tree, (list, tuple)):
        steps = [(f"{_kind(tree)}:{at}", item) for at, item in enumerate(tree)]
    else:
        yield "/".join(way) or "array", _array(tree, way)
        return
    if not steps:
        import numpy
        yield "/".join((*way, f"empty:{_kind(tree)}")), numpy.zeros(0)
    for step, item in steps:
        yield from _named(item, (*way, step))


def _kind(tree):
    return next(kind for kind in _KINDS if isinstance(tree, _KINDS[kind]))


def _step(key):
    if isinstance(key, str):
        return "dict:" + key.replace("%", "%25").replace("/", "%2F")
    if type(key) is int:
        return f"int:{key}"
    raise TypeError(f"weights with the key {key!r} cannot be written as .npz: names and whole numbers can")


def _array(leaf, way):
    import numpy
    if _weight_tree.is_torch(leaf) and str(leaf.dtype) == "torch.bfloat16":
        raise TypeError(f"{'/'.join(way)} is bfloat16, which NumPy does not have: write it as .pt")
    array = leaf.detach().cpu().numpy() if _weight_tree.is_torch(leaf) else numpy.asanyarray(leaf)
    if array.dtype.hasobject:
        raise TypeError(f"{'/'.join(way)} is {type(leaf).__name__}: an .npz has arrays and numbers")
    return array


def _rebuilt(entries):
    """The tree of [(steps, array)]."""
    if not entries or not entries[0][0]:
        return entries[0][1] if entries else []
    parts = {}
    for (step, *rest), array in entries:
        parts.setdefault(step, []).append((rest, array))
    kind, _, text = entries[0][0][0].partition(":")
    if kind == "empty":
        return _KINDS[text]()
    if kind in ("list", "tuple"):
        return _KINDS[kind](map(_rebuilt, parts.values()))
    return {_key(step): _rebuilt(part) for step, part in parts.items()}


def _key(step):
    kind, _, text = step.partition(":")
    return int(text) if kind == "int" else text.replace("%2F", "/").replace("%25", "%")
