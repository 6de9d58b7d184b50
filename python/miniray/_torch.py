"""torch tensors as plain values. torch itself is imported by the program, or by a tensor that arrives."""

import sys

# By the numbers of mr_dtype; bfloat16 travels as the int16 that NumPy knows.
_NAMES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64"]


def tensor_out(tensor):
    """(array over its memory, dtype), or None for a tensor that only torch's own pickle can send."""
    torch = sys.modules["torch"]
    if (tensor.requires_grad or tensor.layout is not torch.strided or tensor.device.type != "cpu"
            or not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg() or tensor.dim() > 8):
        return None
    name = str(tensor.dtype)[len("torch."):]
    if name not in _NAMES:
        return None
    shown = tensor.view(torch.int16) if name == "bfloat16" else tensor
    return shown.numpy(), _NAMES.index(name)


def tensor_in(memory, shape, dtype):
    """A tensor over received memory."""
    import torch
    kind = getattr(torch, _NAMES[dtype])
    if 0 in shape:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(memory, dtype=kind).reshape(shape)
