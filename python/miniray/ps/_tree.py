"""Weights as trees: lists, tuples and dicts whose leaves are tensors (src/train/weights.h says the same in C)."""

import sys


def is_tensor(leaf):
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    return (torch is not None and isinstance(leaf, torch.Tensor)) or (numpy is not None and isinstance(leaf, numpy.ndarray))


def is_torch(leaf):
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
    """The tensors alone; those of a flat list, which most weights are, at once."""
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
    """A list or tuple of the same type as this one; also one with names."""
    return type(row)(*items) if hasattr(row, "_fields") else type(row)(items)


def plain(tree, floats=None, way=()):
    """What get_weights returned, as values that every language reads: parameters become tensors, in the memory of this
    machine and without gaps; a float becomes a tensor of no dimensions, mappings become dicts, and what can be iterated
    becomes a list. The ways to the floats go into the set `floats`."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if type(tree) is list:
        return [plain(item, floats, (*way, at)) for at, item in enumerate(tree)]
    if torch is not None and isinstance(tree, torch.Tensor):
        as_it_is = (type(tree) is torch.Tensor and not tree.requires_grad and tree.is_cpu and tree.is_contiguous()
                    and not tree.is_neg())
        return tree if as_it_is else tree.detach().cpu().contiguous().resolve_neg()
    if numpy is not None and isinstance(tree, numpy.ndarray):
        as_it_is = tree.flags.c_contiguous and tree.dtype.isnative
        return numpy.array(tree, tree.dtype.newbyteorder("="), order="C", copy=not as_it_is, subok=False)[...]
    if type(tree) is float:
        import numpy
        if floats is not None:
            floats.add(way)
        return numpy.array(tree)
    if numpy is not None and isinstance(tree, numpy.generic):
        return numpy.array(tree)
    if hasattr(tree, "items"):
        return {key: plain(item, floats, (*way, key)) for key, item in tree.items()}
    if isinstance(tree, tuple):
        return tuple([plain(item, floats, (*way, at)) for at, item in enumerate(tree)])
    if hasattr(tree, "__iter__") and not isinstance(tree, (str, bytes, bytearray)):
        return [plain(item, floats, (*way, at)) for at, item in enumerate(tree)]
    return tree


def with_floats(tree, floats, way=()):
    """The same tree with floats at the ends of these ways."""
    if isinstance(tree, dict):
        return {key: with_floats(item, floats, (*way, key)) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return like(tree, [with_floats(item, floats, (*way, at)) for at, item in enumerate(tree)])
    return float(tree) if way in floats and getattr(tree, "ndim", None) == 0 else tree
