"""Arrays of NumPy and torch, and plain lists, as memory that the extension reads and writes; and the reverse.

Contiguous arrays of a fitting type are used in place: the library converts between the types of floats. Results are NumPy arrays, whether the program has imported NumPy
or not; where NumPy is not installed, they are memoryviews, which have shapes and `tolist()`.
"""

import array
import math
import operator
import sys

from miniray._weights._weight_tree import is_torch

_LETTERS = {"float32": "f", "int64": "q"}  # type codes of the array module and of buffers
_SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "int64": 8}
_FLOATS = ("float32", "float16", "bfloat16")  # a request about a table of one of them may have another one


def numpy():
    """The NumPy module, if it is imported: nothing is an array of it otherwise."""
    return sys.modules.get("numpy")


def _numpy_of_results():
    """The NumPy module, imported here if necessary; None: it is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _is_numpy(value):
    return numpy() is not None and isinstance(value, numpy().ndarray)


# ---- Keys.


def keys_in(keys):
    """(memory of 64-bit keys, the shape of the keys)"""
    if is_torch(keys):
        keys = keys.detach().cpu().numpy()
    if _is_numpy(keys) or (numpy() is not None and isinstance(keys, numpy().generic)):
        return _numpy_keys(numpy().asarray(keys))
    if isinstance(keys, array.array) and keys.typecode == "Q":
        return keys, (len(keys),)
    if hasattr(keys, "__index__"):
        return _list_keys([keys]), ()
    if isinstance(keys, memoryview) and numpy() is not None:
        return _numpy_keys(numpy().asarray(keys))
    if isinstance(keys, (str, bytes, bytearray)) or not hasattr(keys, "__iter__"):
        raise TypeError(f"keys must be whole numbers, or arrays or lists of them, not {keys!r:.80}")
    keys = list(keys)
    if keys and _is_numpy(keys[0]):
        return _numpy_keys(numpy().asarray(keys))
    flat, shape = _flattened(keys, "keys")
    return _list_keys(flat), shape


def _list_keys(keys):
    try:
        return array.array("Q", keys)
    except TypeError:
        wrong = next((place, key) for place, key in enumerate(keys) if not hasattr(key, "__index__"))
        raise TypeError(f"keys must be whole numbers, and key {wrong[0]} is {wrong[1]!r}") from None
    except OverflowError:
        wrong = next((place, key) for place, key in enumerate(keys) if not 0 <= operator.index(key) < 2**64)
        raise ValueError(f"keys must be from 0 to 2**64 - 1, and key {wrong[0]} is {wrong[1]}") from None


def _numpy_keys(keys):
    np = numpy()
    if keys.dtype.kind not in "iu" and keys.size > 0:
        raise TypeError(f"keys must be whole numbers, not {keys.dtype}: convert with astype('uint64')")
    if keys.dtype.kind == "i" and keys.size > 0 and keys.min() < 0:
        raise ValueError(f"keys must be from 0 to 2**64 - 1, and one is {keys.min()}")
    return np.ascontiguousarray(keys, np.uint64), keys.shape


def empty_keys(count):
    """Memory for this number of 64-bit keys."""
    np = _numpy_of_results()
    return array.array("Q", bytes(8 * count)) if np is None else np.empty(count, np.uint64)


def lengths_in(lengths, count, what="lengths"):
    """Memory of 32-bit lengths."""
    try:
        lengths = [operator.index(length) for length in lengths]
    except TypeError:
        raise TypeError(f"lengths must be whole numbers, one for each of {count} keys") from None
    if len(lengths) != count:
        raise ValueError(f"the number of {what} is {len(lengths)}, and that of keys is {count}: pass one for each key")
    if min(lengths, default=0) < 0 or max(lengths, default=0) >= 2**32:
        raise ValueError(f"lengths must be from 0 to 2**32 - 1; these are from {min(lengths)} to {max(lengths)}")
    return array.array("I", lengths)


# ---- Values.


def values_in(values, dtype, shape, what):
    """(memory of these values, their dtype). They must have this shape, and a dtype that fits `dtype`, that of the table;
    `what` names them in errors."""
    if is_torch(values):
        found = _checked(values, str(values.dtype).removeprefix("torch."), dtype, tuple(values.shape), shape, what)
        return _torch_memory(values.detach().cpu().contiguous()), found
    if _is_numpy(values):
        found = _checked(values, values.dtype.name, dtype, values.shape, shape, what)
        return numpy().ascontiguousarray(values, found), found
    if dtype not in _LETTERS:
        raise TypeError(f"{_is(what)} {type(values).__name__}: {dtype} needs arrays of NumPy or torch")
    if values is None:
        raise TypeError(f"{_is(what)} None: pass numbers")
    flat, found = _flattened(values, what)
    if not flat and 0 in shape:
        found = shape  # an empty list shows one dimension only
    _checked(values, dtype, dtype, found, shape, what)
    try:
        return array.array(_LETTERS[dtype], flat), dtype
    except TypeError:
        raise TypeError(f"{_is(what)} not numbers of {dtype}") from None
    except OverflowError:
        raise ValueError(f"{_is(what)} beyond the range of {dtype}") from None


def _is(what):
    return f"{what} are" if what in ("values", "keys") else f"{what} is"


def _checked(given, found, dtype, found_shape, shape, what):
    """`found`, the dtype of the given values."""
    if found != dtype and not (found in _FLOATS and dtype in _FLOATS):
        convert = f"to(torch.{dtype})" if is_torch(given) else f"astype({dtype!r})"
        raise TypeError(f"{_is(what)} {found}, and the table has {dtype}: convert with {convert}")
    if found_shape != shape:
        raise ValueError(f"{_is(what)} of shape {list(found_shape)}; expected {list(shape)}")
    return found


def _flattened(values, what):
    """A number, or nested lists of numbers, as one list and its shape."""
    if not hasattr(values, "__len__"):
        return [values], ()
    if isinstance(values, (str, bytes, dict)):
        raise TypeError(f"{_is(what)} {type(values).__name__}, not numbers")
    if hasattr(values, "tolist"):
        values = values.tolist()
    if len(values) == 0 or not hasattr(values[0], "__len__"):
        return values, (len(values),)
    parts = [_flattened(value, what) for value in values]
    if any(part[1] != parts[0][1] for part in parts):
        raise ValueError(f"{what} in lists of different lengths")
    return [item for part in parts for item in part[0]], (len(values), *parts[0][1])


def _torch_memory(tensor):
    """A contiguous CPU tensor as an array over its memory."""
    import torch
    if tensor.dtype == torch.bfloat16:  # NumPy has no bfloat16
        tensor = tensor.view(torch.int16)
    return tensor.numpy()


def copied(memory):
    """A copy of the memory."""
    return bytes(memoryview(memory).cast("B")) if memoryview(memory).nbytes else memory


# ---- Results.


def empty(dtype, shape, like=None):
    """(memory to be written, the array for the program): a torch tensor if `like` is one or only torch has the dtype,
    otherwise a NumPy array."""
    if is_torch(like) or (dtype == "bfloat16" and "torch" in sys.modules):
        import torch
        made = torch.empty(shape, dtype=getattr(torch, dtype))
        return _torch_memory(made), made
    np = None if dtype == "bfloat16" else _numpy_of_results()
    if np is not None:
        made = np.empty(shape, dtype)
        return made, made
    if dtype not in _LETTERS:
        need = "torch, which the program imports before" if dtype == "bfloat16" else "NumPy, which is not installed"
        raise TypeError(f"values of {dtype} need {need}")
    memory = bytearray(math.prod(shape) * _SIZES[dtype])
    seen = memoryview(memory)
    return memory, seen.cast(_LETTERS[dtype], shape) if memory and shape else seen.cast(_LETTERS[dtype])


def out_memory(out, dtype, shape, what):
    """(memory of an array into which results are written, its dtype)"""
    if is_torch(out):
        found = _checked(out, str(out.dtype).removeprefix("torch."), dtype, tuple(out.shape), shape, what)
        if out.device.type != "cpu" or not out.is_contiguous():
            raise ValueError(f"{what} is not contiguous, or is on another device")
        return _torch_memory(out.detach()), found
    if not _is_numpy(out):
        raise TypeError(f"{what} is {type(out).__name__}: pass an array of NumPy or torch")
    found = _checked(out, out.dtype.name, dtype, out.shape, shape, what)
    if not (out.flags.c_contiguous and out.flags.writeable and out.dtype.isnative):
        raise ValueError(f"{what} is not contiguous, is read-only, or has another byte order than this machine")
    return out, found


def within(memory, dtype, shape):
    """An array over this memory: of NumPy, or of torch if only torch has the dtype."""
    if dtype == "bfloat16":
        import torch
        return torch.frombuffer(memory, dtype=torch.bfloat16).reshape(shape)
    np = _numpy_of_results()
    if np is not None:
        return np.frombuffer(memory, dtype).reshape(shape)
    return memoryview(memory).cast(_LETTERS[dtype], shape)


def bytes_of(dtype, shape):
    """The size of an array in bytes."""
    return math.prod(shape) * _SIZES[dtype]
