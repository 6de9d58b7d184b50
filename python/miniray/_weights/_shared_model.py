"""Models in shared memory, and the part that a sync sees of them (include/miniray/model.h, mr_shared_model)."""

from __future__ import annotations

import functools
import sys
import weakref
from typing import TypeVar

from miniray import _core
from miniray._core_api import local_mode as _local_mode
from miniray._weights import _weight_tree
from miniray._core_api.tracebacks import public

_Model = TypeVar("_Model")

_ALIGNED = 64
_MARK = b"miniray.loan"
_DIMS_MAX = 8
_KINDS = {"float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
          "uint64", "bool"}
_shares = ()  # shared blocks of this process: a WeakSet, if there are any


@public
def share(model: _Model) -> _Model:
    """Moves the parameters and buffers of a model into shared memory, and returns the model.

    `model` is a torch module, an array, or a list, tuple or dict of them. Modules and torch tensors stay the same
    objects, only their data moves; NumPy arrays cannot be moved, so the result has new arrays in their place. Tensors
    on another device and tensors with gaps stay where they are; a model with such tensors is synced by copies.
    """
    if _local_mode.is_on():
        return model
    found = _Found()
    again = found.walk(model)
    found.move()
    return again()


class _Found:
    """The tensors of a model and their places in shared memory."""

    def __init__(self):
        self.places, self.size, self.arrays = {}, 0, {}

    def walk(self, model):
        """Records the tensors; returns a function that returns the model after they have been moved."""
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(model, torch.nn.Module):
            for tensor in [*model.parameters(), *model.buffers()]:
                self.add(tensor)
            return lambda: model
        if _weight_tree.is_tensor(model):
            self.add(model)
            return lambda: self.arrays.get(id(model), model)
        if isinstance(model, dict):
            parts = {key: self.walk(item) for key, item in model.items()}
            return lambda: type(model)((key, part()) for key, part in parts.items())
        if isinstance(model, (list, tuple)):
            parts = [self.walk(item) for item in model]
            return lambda: _weight_tree.like(model, [part() for part in parts])
        raise TypeError(f"a torch module or tensors are needed to share, not {type(model).__name__}")

    def add(self, tensor):
        """Assigns a place to a tensor."""
        if id(tensor) in self.places or not _is_movable(tensor):
            return
        self.places[id(tensor)] = tensor, self.size
        self.size += -(-_size(tensor) // _ALIGNED) * _ALIGNED

    def move(self):
        """Moves all tensors into one block of shared memory."""
        if self.size == 0:
            return
        block = _core.share(self.size)
        for tensor, offset in self.places.values():
            if _size(tensor) > 0:
                self.move_one(tensor, block, offset)
        _keep(block)

    def move_one(self, tensor, block, offset):
        """Moves one tensor to its place."""
        if _weight_tree.is_torch(tensor):
            import torch
            with torch.no_grad():
                place = torch.frombuffer(block, dtype=tensor.dtype, count=tensor.numel(), offset=offset)
                tensor.data = place.view(tensor.shape).copy_(tensor)
            return
        import numpy
        place = numpy.frombuffer(block, dtype=tensor.dtype, count=tensor.size, offset=offset).reshape(tensor.shape)
        place[...] = tensor
        self.arrays[id(tensor)] = place


def _keep(block):
    global _shares
    _shares = _shares or weakref.WeakSet()
    _shares.add(block)


def _is_movable(tensor):
    if _weight_tree.is_torch(tensor):
        import torch
        return tensor.device.type == "cpu" and tensor.layout == torch.strided and tensor.is_contiguous()
    return tensor.flags.c_contiguous and not tensor.dtype.hasobject


def _size(tensor):
    return tensor.numel() * tensor.element_size() if _weight_tree.is_torch(tensor) else tensor.nbytes


# ---- In a sync.


def lent(weights, known):
    """The weights for the server of a built-in strategy: by reference if one shared block has them all; otherwise a
    copy, also by reference if it is small. `known` makes other values plain."""
    return _core.weights(weights, known, tuple(_shares))


def known(weights):
    """Weights made plain; raises TypeError for number types that the library lacks."""
    tree = _weight_tree.plain(weights)
    if not all(map(_is_known, _weight_tree.leaves(tree))):
        _refuse(tree)
    return tree


@functools.cache
def _name(dtype):
    return str(dtype).removeprefix("torch.")


def _is_known(tensor):
    """Whether the library has this type of numbers."""
    return _name(tensor.dtype) in _KINDS and tensor.ndim <= _DIMS_MAX and not getattr(tensor, "is_sparse", False)


def _refuse(tree):
    path, tensor = next((path, tensor) for path, tensor in _weight_tree.tensors(tree) if not _is_known(tensor))
    raise TypeError(f"tensor {path} is {'sparse ' if getattr(tensor, 'is_sparse', False) else ''}{_name(tensor.dtype)} "
                    f"in {tensor.ndim} dimensions: built-in strategies take floats of 16, 32 and 64 bits, integers "
                    f"and bools, in at most {_DIMS_MAX}; a strategy of your own takes anything")


def taken(weights):
    """Whether the weights are the notice of a sync that has written a shared model, which is then the new model."""
    if not (isinstance(weights, tuple) and len(weights) == 3 and isinstance(weights[0], bytes) and weights[0] == _MARK):
        return False
    for block in list(_shares):
        if block.take(*weights[1:]):
            return True
    raise RuntimeError(f"a sync wrote a shared model that this process has released; it has {len(_shares)} others")
