"""Received torch tensors. torch is imported by the program, or when the first tensor arrives."""

import functools
import sys

# By the numbers of mr_dtype; torch may have only some of them.
_NAMES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64"]


@functools.cache
def _kinds():
    return [getattr(sys.modules["torch"], name, None) for name in _NAMES]


def tensor_in(memory, shape, dtype):
    """A tensor over received memory; small ones are made in python/native/py_torch.h."""
    import torch
    kind = _kinds()[dtype]
    if 0 in shape:
        return torch.empty(shape, dtype=kind)
    flat = torch.frombuffer(memory, dtype=kind)
    return flat if len(shape) == 1 else flat.view(shape)
