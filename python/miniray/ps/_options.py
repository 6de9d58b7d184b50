"""The options of a table as the extension takes them (mr_ps_table_options in include/miniray/ps.h)."""

KINDS = ("sparse", "vectors", "dense")
_DTYPES = {"float32": 11, "float16": 9, "bfloat16": 10, "int64": 4}  # the numbers of mr_dtype
_OPTIMIZERS = ("add", "sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw", "lamb", "ftrl")
_U32, _U64 = 2**32 - 1, 2**64 - 1


def _text(name, value):
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is a text, not {type(value).__name__}")
    return value


def _whole(name, value, most):
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, not {type(value).__name__}")
    if not 0 <= value <= most:
        raise ValueError(f"{name} is {value}: it is a number from 0 to {most}")
    return value


def _number(name, value):
    """0 stands for the default there, and what is negative for 0."""
    if value is None:
        return 0.0
    value = float(value)
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} is {value}: it is a number from 0")
    return value if value > 0 else -1.0


def _shapes(arrays):
    """{name: shape, or anything that has one} as a list."""
    if arrays is None:
        return []
    found = []
    for name, shape in arrays.items():
        shape = getattr(shape, "shape", shape)
        shape = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
        if min(shape, default=1) < 1:
            raise ValueError(f"array {name!r} has the shape {shape}: every dimension has at least one item")
        found.append((str(name), shape))
    return found


def packed(kind=None, dim=None, dtype=None, arrays=None, optimizer=None, lr=None, *, schedule=None, initializer=None,
           codec=None, momentum=None, beta1=None, beta2=None, epsilon=None, decay=None, beta=None, l1=None, l2=None,
           block=None, ordered=False, first_key=None, last_key=None, seed=None, clip_norm=None, average=False,
           refuse_nan=False, admit=None, rows_max=None, age_max=None, consistency=None):
    """In the order in which ps_table_create (python/native/ps_table.c) reads them."""
    kind = kind or ("sparse" if arrays is None else "dense")
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}: {', '.join(KINDS)}")
    if (kind == "dense") != (arrays is not None):
        raise ValueError("a dense table needs arrays={name: shape}" if kind == "dense" else
                         f"a {kind} table has keys, no arrays")
    dtype = str(dtype or "float32").rpartition(".")[2]
    if dtype not in _DTYPES:
        raise ValueError(f"dtype is {dtype!r}: {', '.join(_DTYPES)}")
    if _text("optimizer", optimizer) is not None and optimizer not in _OPTIMIZERS:
        raise ValueError(f"optimizer is {optimizer!r}: {', '.join(_OPTIMIZERS)}")
    return (KINDS.index(kind), _DTYPES[dtype], _whole("dim", dim, _U32), _shapes(arrays), _whole("block", block, _U32),
            bool(ordered), _whole("first_key", first_key, _U64), _whole("last_key", last_key, _U64), optimizer,
            _text("schedule", schedule), _text("initializer", initializer), _text("codec", codec), _number("lr", lr),
            _number("momentum", momentum), _number("beta1", beta1), _number("beta2", beta2),
            _number("epsilon", epsilon), _number("decay", decay), _number("beta", beta), _number("l1", l1),
            _number("l2", l2), _whole("seed", seed, _U64), _number("clip_norm", clip_norm or None), bool(average),
            bool(refuse_nan),
            _whole("admit", admit, _U32), _whole("rows_max", rows_max, _U64), _whole("age_max", age_max, _U64),
            _text("consistency", consistency))
