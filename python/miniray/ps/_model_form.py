"""Forms of models: which tensors a model has, and how they become memory for the extension and models again.

A model is a torch module, a dict of arrays (a state_dict) or a list of arrays. Of a module the form has the tensors of
`parameters()`, each once; of a dict the floating-point arrays, but those that are named as buffers; of a list all arrays.
Weights and gradients may be given as any of the three, if the names, or for lists the order, are those of the form.
"""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

from miniray._core_api import did_you_mean
from miniray._weights._weight_tree import is_tensor, is_torch

_FLOATS = ("float32", "float16", "bfloat16")


class Entry(NamedTuple):
    """A tensor of a form."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    frozen: bool  # it has no gradient


class Form(NamedTuple):
    """The tensors of a model."""

    entries: tuple[Entry, ...]
    is_list: bool
    is_torch: bool

    @property
    def bytes(self) -> int:
        """The size of the model."""
        return sum(_count(entry.shape) * (4 if entry.dtype == "float32" else 2) for entry in self.entries)

    def tree(self, arrays: list) -> Any:
        """A list or a dict of these arrays, one for each tensor."""
        return list(arrays) if self.is_list else {entry.name: each for entry, each in zip(self.entries, arrays)}


def _count(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def _is_module(model):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def dtype_of(array) -> str:
    """The name of the dtype of an array."""
    return str(array.dtype).removeprefix("torch.")


def _is_float(array):
    return array.dtype.is_floating_point if is_torch(array) else array.dtype.kind == "f"


def _checked(name, array, frozen):
    dtype = dtype_of(array)
    if dtype not in _FLOATS:
        raise TypeError(f"tensor {name!r} of the model is {dtype}: convert it to float32, bfloat16 or float16")
    return Entry(name, dtype, tuple(array.shape), frozen)


def form_of(model: Any, buffers: Any = ()) -> Form:
    """The form of a model; `buffers` are names of arrays that are not part of it."""
    if _is_module(model):
        named = [(name, each) for name, each in model.named_parameters()]
        frozen = [not each.requires_grad for _, each in named]
    elif hasattr(model, "items"):
        unknown = [name for name in buffers if name not in model]
        if unknown:
            raise did_you_mean.one_of("buffer", unknown[0], list(map(str, model)))
        named = [(str(name), each) for name, each in model.items()
                 if is_tensor(each) and _is_float(each) and name not in buffers]
        frozen = [False] * len(named)
    elif isinstance(model, (list, tuple)):
        wrong = next((at for at, each in enumerate(model) if not is_tensor(each)), None)
        if wrong is not None:
            raise TypeError(f"item {wrong} of the model is {type(model[wrong]).__name__}, not an array of NumPy or torch")
        named = [(str(at), each) for at, each in enumerate(model)]
        frozen = [False] * len(named)
    else:
        raise TypeError("a model must be a torch module, a dict of arrays (a state_dict) or a list of arrays, not "
                        f"{type(model).__name__}")
    if buffers and not hasattr(model, "items"):
        raise ValueError("buffers are names of arrays of a dict; the buffers of a module are none of its parameters")
    if not named or all(frozen):
        raise ValueError(f"the model has no tensor to optimize: {len(named)} tensors, all frozen" if named else
                         "the model has no floating-point array")
    entries = tuple(_checked(name, each, still) for (name, each), still in zip(named, frozen))
    return Form(entries, isinstance(model, (list, tuple)), any(is_torch(each) for _, each in named))


def check_same(form: Form, model: Any, what: str) -> None:
    """Raises ValueError if a model has other tensors than the form."""
    arrays = arrays_of(form, model, what)
    for entry, array in zip(form.entries, arrays):
        if tuple(array.shape) != entry.shape:
            raise ValueError(f"tensor {entry.name!r} of {what} has the shape {list(array.shape)}; the model's is "
                             f"{list(entry.shape)}")


def arrays_of(form: Form, model: Any, what: str) -> list:
    """The arrays of a model in the order of the form, as they are."""
    if _is_module(model):
        model = dict(model.named_parameters())
    if hasattr(model, "items"):
        missing = next((entry.name for entry in form.entries if entry.name not in model), None)
        if missing is not None and form.is_list and len(model) == len(form.entries):
            return list(model.values())
        if missing is not None:
            raise ValueError(f"{what}: there is no tensor {missing!r}; the model has {len(form.entries)} tensors")
        return [model[entry.name] for entry in form.entries]
    if not isinstance(model, (list, tuple)):
        raise TypeError(f"{what} must be a torch module, or a dict or a list of arrays, not {type(model).__name__}")
    if len(model) != len(form.entries):
        raise ValueError(f"{what}: there are {len(model)} tensors; the model has {len(form.entries)}")
    return list(model)


def gradients_of(form: Form, model: Any) -> list:
    """The gradients, in the order of the form: the `.grad` of a module's parameters, or the arrays of a dict or a list. None:
    no gradient, which a dict may also leave out."""
    if _is_module(model):
        return [parameter.grad for parameter in arrays_of(form, model, "the module")]
    if hasattr(model, "items"):
        known = {entry.name for entry in form.entries}
        unknown = next((name for name in model if name not in known), None)
        if unknown is not None:
            raise did_you_mean.one_of("tensor", str(unknown), sorted(known))
        return [model.get(entry.name) for entry in form.entries]
    return arrays_of(form, model, "the gradients")


# ---- Memory.


def _numpy_dtype(entry):
    import numpy
    return numpy.dtype(entry.dtype)


def _matches(entry, array, what):
    if tuple(array.shape) != entry.shape:
        raise ValueError(f"{what} of tensor {entry.name!r} has the shape {list(array.shape)}; the tensor's is "
                         f"{list(entry.shape)}")


def _as_torch(entry, array, what):
    """A contiguous CPU tensor of the entry's dtype."""
    import torch
    _matches(entry, array, what)
    array = array.detach()
    return (array.to_dense() if array.is_sparse else array).to("cpu", getattr(torch, entry.dtype)).contiguous()


def memory_of(tensor):
    """The memory of a contiguous CPU tensor of torch, as an object with a buffer."""
    import torch
    return tensor.view(torch.int16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def reading(entry: Entry, array: Any, what: str) -> Any:
    """Memory with the numbers of an array in the entry's dtype, the array's own if possible."""
    if is_torch(array):
        return memory_of(_as_torch(entry, array, what))
    import numpy
    array = numpy.asarray(array)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{what} of tensor {entry.name!r} is {array.dtype}, not numbers")
    _matches(entry, array, what)
    if entry.dtype == "bfloat16":
        import torch
        return memory_of(torch.from_numpy(numpy.ascontiguousarray(array, numpy.float32)).to(torch.bfloat16))
    return numpy.ascontiguousarray(array, _numpy_dtype(entry))


def shares(memory: Any, array: Any) -> bool:
    """Whether the memory that `reading` returned is that of the array itself."""
    if is_torch(array):
        return memory.ctypes.data == array.data_ptr()
    import numpy
    return isinstance(array, numpy.ndarray) and numpy.may_share_memory(memory, array)


def empty(entry: Entry, of_torch: bool) -> tuple[Any, Any]:
    """(memory, a new array over it)"""
    if of_torch or entry.dtype == "bfloat16":
        import torch
        made = torch.empty(entry.shape, dtype=getattr(torch, entry.dtype))
        return memory_of(made), made
    import numpy
    made = numpy.empty(entry.shape, _numpy_dtype(entry))
    return made, made


def is_in_place(entry: Entry, array: Any) -> bool:
    """Whether the extension may write to the array itself."""
    if dtype_of(array) != entry.dtype:
        return False
    if is_torch(array):
        return array.device.type == "cpu" and array.is_contiguous()
    return array.flags.c_contiguous and array.flags.writeable and array.dtype.isnative


def writing(entry: Entry, array: Any) -> tuple[Any, Any]:
    """(memory into which weights are pulled, a new array that is to be copied to `array` afterwards; None: the memory is
    that of `array` itself)"""
    if not is_tensor(array):
        raise TypeError(f"out: tensor {entry.name!r} is {type(array).__name__}, not an array of NumPy or torch")
    _matches(entry, array, "out")
    if is_in_place(entry, array):
        return (memory_of(array.detach()) if is_torch(array) else array), None
    if not is_torch(array) and not array.flags.writeable:
        raise ValueError(f"out: tensor {entry.name!r} is read-only")
    return empty(entry, is_torch(array))


def copy_to(array: Any, made: Any) -> None:
    """Writes the numbers of a new array to an array of any dtype and device."""
    if is_torch(array):
        import torch
        with torch.no_grad():
            array.copy_(made)
    else:
        array[...] = made


# ---- The form as bytes, which the servers hold with the weights.

_FORMAT = 1


def packed(form: Form) -> bytes:
    """The form as bytes."""
    return json.dumps({"format": _FORMAT, "list": form.is_list, "torch": form.is_torch,
                       "tensors": [list(entry) for entry in form.entries]}).encode()


def unpacked(given: bytes) -> Form:
    """The form that these bytes describe."""
    found = json.loads(given)
    if found["format"] != _FORMAT:
        raise ValueError(f"the description of the model has format {found['format']}; this release reads {_FORMAT}")
    entries = (Entry(name, dtype, tuple(shape), frozen) for name, dtype, shape, frozen in found["tensors"])
    return Form(tuple(entries), found["list"], found["torch"])
