"""torch tensors as plain values. torch itself is imported by the program, or by a tensor that arrives."""

import functools
import sys

# By the numbers of mr_dtype; torch may have only some of them.
_NAMES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64"]


@functools.cache
def _kinds():
    """(the types of torch, the number of each)"""
    kinds = [getattr(sys.modules["torch"], name, None) for name in _NAMES]
    return kinds, {kind: number for number, kind in enumerate(kinds) if kind is not None}


def tensor_out(tensor):
    """(address, shape, dtype), or None for a tensor that only torch's own pickle can send."""
    number = _kinds()[1].get(tensor.dtype)
    if (number is None or tensor.requires_grad or not tensor.is_cpu or tensor.layout is not sys.modules["torch"].strided
            or not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg() or tensor.ndim > 8):
        return None
    return tensor.data_ptr(), tensor.shape, number


def tensor_in(memory, shape, dtype):
    """A tensor over received memory."""
    import torch
    kind = _kinds()[0][dtype]
    if 0 in shape:
        return torch.empty(shape, dtype=kind)
    flat = torch.frombuffer(memory, dtype=kind)
    return flat if len(shape) == 1 else flat.view(shape)
