"""The options of a table as the extension takes them (mr_ps_table_options in include/miniray/ps.h)."""

import inspect
import numbers
import operator
import re

from miniray import _core
from miniray._core_api import did_you_mean
from miniray.ps import _old_names

KINDS = ("sparse", "vectors", "dense")
_DTYPES = {"float32": 11, "float16": 9, "bfloat16": 10, "int64": 4}  # the numbers of mr_dtype
_U32, _U64 = 2**32 - 1, 2**64 - 1
_LEAST, _MOST = 2.0**-126, (2 - 2.0**-23) * 2.0**127  # normal numbers of float32


def packed(given):
    """The options of a table, checked, in the order in which ps_table_create (python/native/py_ps_table.c) reads them."""
    _old_names.refuse("a table", given, _NAMES)
    hyperparameters = tuple(number(name, given.get(name)) for name in _HYPERPARAMETERS)
    return _packed(hyperparameters, **{name: value for name, value in given.items() if name not in _HYPERPARAMETERS})


def documented(text):
    """`text` with a line for each hyperparameter of optimizers in place of HYPERPARAMETERS."""
    lines = [f"{name:<10}{what}" for name, what in _core.ps_hyperparameters]
    return text and re.sub("( *)HYPERPARAMETERS", lambda found: "\n".join(found[1] + line for line in lines), text)


def _text(name, value):
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {value!r}")
    return value


def _whole(name, value, most):
    return 0 if value is None else whole(name, value, most)


def whole(name, value, most):
    """A number of Python or NumPy without a fraction, from 0 to `most`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    value = operator.index(value)
    if not 0 <= value <= most:
        raise ValueError(f"{name} is {value}: it must be from 0 to {most}")
    return value


def number(name, value):
    """The number in the library's form: None (the default) is 0, and 0 is -1."""
    if value is None:
        return 0.0
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, not {value!r}")
    value = float(value)
    if value != 0 and not _LEAST <= value <= _MOST:
        raise ValueError(f"{name} is {value}: it must be 0, or from {_LEAST:.3g} to {_MOST:.3g}")
    return value if value > 0 else -1.0


def _rate(value):
    if value is not None and number("lr", value) < 0:
        raise ValueError(f"lr is {value}: it must be above 0")
    return number("lr", value)


def truth(name, value):
    """True or False, also as 1 or 0."""
    if value not in (False, True) or isinstance(value, float):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def _shapes(arrays):
    """{name: shape or an object with one} as a list, which is the form of `Table.options`."""
    try:
        arrays = dict(arrays or {})
    except (TypeError, ValueError):
        raise TypeError(f"arrays must be a dict such as {{'weight': (3, 4)}}, not {arrays!r}") from None
    return [(str(name), shape_of(name, shape)) for name, shape in arrays.items()]


def shape_of(name, shape):
    """A whole number, several of them, or the shape of an object, as a tuple."""
    try:
        sizes = [shape] if isinstance(shape, numbers.Integral) else getattr(shape, "shape", shape)
        shape = tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise TypeError(f"array {name!r} has the shape {shape!r}: it must be a whole number or several") from None
    if min(shape, default=1) < 1:
        raise ValueError(f"array {name!r} has the shape {shape}: every dimension has at least one item")
    return shape


def dtype_name(dtype):
    """The name of a dtype that is given by name, or as in NumPy (np.float32) or torch (torch.bfloat16)."""
    name = dtype.__name__ if isinstance(dtype, type) else str(dtype or "float32").rpartition(".")[2]
    if name not in _DTYPES:
        raise ValueError(f"unknown dtype {name!r}; expected {', '.join(_DTYPES)}")
    return name


def dtype_number(name):
    """The number of a dtype in the extension."""
    return _DTYPES[name]


def _packed(hyperparameters, /, kind=None, dim=None, dtype=None, arrays=None, optimizer=None, lr=None, *, schedule=None,
            initializer=None, compression=None, block=None, ordered=False, first_key=None, last_key=None, seed=None,
            clip_norm=None, average=False, refuse_nan=False, admit=None, rows_max=None, age_max=None, consistency=None,
            precision=None):
    kind = kind or ("sparse" if arrays is None else "dense")
    if kind not in KINDS:
        raise did_you_mean.one_of("kind of table", kind, KINDS)
    if (kind == "dense") != bool(arrays):
        raise ValueError("a dense table needs arrays, a dict such as {'weight': (3, 4)}" if kind == "dense" else
                         f"a table of the kind {kind!r} has keys: arrays are for the kind 'dense'")
    if dim == 0 and kind == "sparse":
        raise ValueError("dim is 0: a row has at least one number")
    return (KINDS.index(kind), _DTYPES[dtype_name(dtype)], _whole("dim", dim, _U32), _shapes(arrays), _whole("block", block, _U32),
            truth("ordered", ordered), _whole("first_key", first_key, _U64), _whole("last_key", last_key, _U64),
            _text("optimizer", optimizer), _text("schedule", schedule), _text("initializer", initializer),
            _text("compression", compression), _rate(lr), hyperparameters, _whole("seed", seed, _U64),
            max(number("clip_norm", clip_norm), 0.0), truth("average", average), truth("refuse_nan", refuse_nan),
            _whole("admit", admit, _U32), _whole("rows_max", rows_max, _U64), _whole("age_max", age_max, _U64),
            _text("consistency", consistency), _text("precision", precision))


_HYPERPARAMETERS = tuple(name for name, _ in _core.ps_hyperparameters)
_NAMES = (*tuple(inspect.signature(_packed).parameters)[1:], *_HYPERPARAMETERS)
