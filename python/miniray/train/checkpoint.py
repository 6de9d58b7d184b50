"""Weights in files: NumPy's own format (.npz) for arrays, torch's (.pt) for tensors.

An array in an .npz has the way to it as its name, a step for each list, tuple or dict that it is in: "list:0",
"dict:conv.weight", "dict:G/tuple:3", "int:7" where the key is a number. "empty:list" is a list without anything, and a
model that is one array is "array".
"""

import os

from miniray.ps import _tree

_KINDS = {"list": list, "tuple": tuple, "dict": dict}


def save_weights(weights, path):
    """Writes weights as miniray.ps takes them, whole or not at all. The path, with .npz or .pt if it has neither."""
    if not isinstance(weights, (list, tuple, dict)) and not _tree.is_tensor(weights):
        weights = list(weights)
    is_torch = any(map(_tree.is_torch, _tree.leaves(weights)))
    path = os.fspath(path)
    if not path.endswith((".npz", ".pt")):
        path += ".pt" if is_torch else ".npz"
    named = None if path.endswith(".pt") else dict(_named(weights))
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            _write(weights, named, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return path


def _write(weights, named, file):
    if named is None:
        import torch
        torch.save(weights, file)
        return
    import numpy
    numpy.savez(file, **named)


def load_weights(path):
    """What save_weights has written."""
    if os.fspath(path).endswith(".pt"):
        import torch
        return torch.load(path, map_location="cpu")
    import numpy
    with numpy.load(path) as file:
        return _rebuilt([([] if name == "array" else name.split("/"), file[name]) for name in file.files])


def _named(tree, way=()):
    """(name, array) of each array in it."""
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
    array = leaf.detach().cpu().numpy() if _tree.is_torch(leaf) else numpy.asanyarray(leaf)
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
