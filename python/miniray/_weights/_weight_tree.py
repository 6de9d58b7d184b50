"""Weights as trees: lists, tuples and dicts whose leaves are tensors (src/train/weight_tree.h is the same in C)."""

import copy
import sys


def is_tensor(leaf):
    """Whether this is a NumPy array or a torch tensor."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    return (torch is not None and isinstance(leaf, torch.Tensor)) or (numpy is not None and isinstance(leaf, numpy.ndarray))


def is_torch(leaf):
    """Whether this is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(leaf, torch.Tensor)


def tensors(tree, path=""):
    """[(path, tensor)], in the order of the tree."""
    if isinstance(tree, dict):
        return [each for key, item in tree.items() for each in tensors(item, f"{path}.{key}" if path else str(key))]
    if isinstance(tree, (list, tuple)):
        return [each for at, item in enumerate(tree) for each in tensors(item, f"{path}[{at}]" if path else str(at))]
    return [(path, tree)] if is_tensor(tree) else []


def leaves(tree):
    """The tensors alone. A flat list, the usual form of weights, takes a fast path."""
    if type(tree) is list and all(map(is_tensor, tree)):
        return tree
    return [tensor for _, tensor in tensors(tree)]


def rebuilt(tree, leaves):
    """The same tree with other tensors, taken from an iterator."""
    if isinstance(tree, dict):
        return {key: rebuilt(item, leaves) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return like(tree, [rebuilt(item, leaves) for item in tree])
    return next(leaves) if is_tensor(tree) else tree


def like(row, items):
    """A list or tuple of the same type as this one; also a named tuple."""
    return type(row)(*items) if hasattr(row, "_fields") else type(row)(items)


def plain(tree):
    """The result of get_weights as values that every language reads: parameters become contiguous CPU tensors, a float
    becomes a tensor without dimensions, mappings become dicts, and other iterables become lists."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if type(tree) is list:
        return list(map(plain, tree))
    if torch is not None and isinstance(tree, torch.Tensor):
        as_it_is = (type(tree) is torch.Tensor and not tree.requires_grad and tree.is_cpu and tree.is_contiguous()
                    and not tree.is_neg())
        return tree if as_it_is else tree.detach().cpu().contiguous().resolve_neg()
    if numpy is not None and isinstance(tree, numpy.ndarray):
        as_it_is = tree.flags.c_contiguous and tree.dtype.isnative
        return numpy.array(tree, tree.dtype.newbyteorder("="), order="C", copy=not as_it_is, subok=False)[...]
    if type(tree) is float:
        import numpy
        return numpy.array(tree)
    if numpy is not None and isinstance(tree, numpy.generic):
        return numpy.array(tree)
    if hasattr(tree, "items"):
        return {key: plain(item) for key, item in tree.items()}
    if isinstance(tree, tuple):
        return tuple(map(plain, tree))
    if hasattr(tree, "__iter__") and not isinstance(tree, (str, bytes, bytearray)):
        return list(map(plain, tree))
    return tree


# ---- Forms of trees before they were made plain: floats, and lists, tuples and dicts of other types.


def form(tree):
    """The description by which restored() gives a plain tree the types of this one; None: the tree is plain already.
    The description holds no tensor."""
    if type(tree) is float:
        return _as_float
    if isinstance(tree, dict):
        parts = {key: form(item) for key, item in tree.items()}
        shell = None if type(tree) is dict else _emptied(tree)
        return _Dict(shell, parts) if shell is not None or any(parts.values()) else None
    if isinstance(tree, (list, tuple)):
        parts = list(map(form, tree))
        kind = type(tree) if _can_be_made_again(tree) else list if isinstance(tree, list) else tuple
        return _Row(kind, parts) if kind not in (list, tuple) or any(parts) else None
    return None


def restored(tree, form):
    """A plain tree with the types of this form."""
    return tree if form is None else form(tree)


def _as_float(tree):
    return float(tree) if getattr(tree, "ndim", None) == 0 else tree


class _Row:
    def __init__(self, kind, parts):
        self.kind, self.parts = kind, parts

    def __call__(self, tree):
        if not isinstance(tree, (list, tuple)) or len(tree) != len(self.parts):  # the tree has changed its shape
            return tree
        items = map(restored, tree, self.parts)
        kind = type(tree) if self.kind in (list, tuple) else self.kind
        return kind(*items) if hasattr(kind, "_fields") else kind(items)


class _Dict:
    def __init__(self, shell, parts):
        self.shell, self.parts = shell, parts

    def __call__(self, tree):
        if not isinstance(tree, dict):
            return tree
        made = {} if self.shell is None else copy.copy(self.shell)
        for key, item in tree.items():
            made[key] = restored(item, self.parts.get(key))
        return made


def _emptied(tree):
    """An object of the same type and with the same attributes, but without items; None: there is none."""
    try:
        shell = copy.copy(tree)
        if shell is tree or type(shell) is not type(tree):
            return None
        shell.clear()
        return shell
    except Exception:
        return None


def _can_be_made_again(row):
    if type(row) in (list, tuple):
        return True
    try:
        made = like(row, row)
        return type(made) is type(row) and len(made) == len(row)
    except Exception:
        return False
