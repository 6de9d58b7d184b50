"""Serialization of values that are not plain data: pickle 5 with separate buffers, and cloudpickle for functions and
classes.

References and handles inside a pickled value are sent beside the pickle, where the runtime sees them; the pickle
contains their numbers. Pickling and loading are tracked per thread. Modules are imported at their first use, so that
importing the package is cheap.
"""

import _thread

_inside = _thread._local()  # .going: references found while pickling; .coming: those that arrived with a pickle


def dumps(value):
    """(pickle, [buffers], [references and handles])"""
    buffers, found = [], []
    data = _dump_any(value, found, buffers.append)
    return data, [buffer.raw() for buffer in buffers], found


def _dump_any(value, found, buffer_callback=None):
    """The pickle of a value; the references and handles in it are added to `found`."""
    import cloudpickle
    from miniray._serialize import code as _code
    _code.tell_cloudpickle()
    before, _inside.going = getattr(_inside, "going", None), found
    try:
        return cloudpickle.dumps(value, 5, buffer_callback)
    except Exception as error:
        raise _unpicklable(value, error) from None
    finally:
        _inside.going = before


def loads(data, buffers, inside):
    """The value of a pickle that dumps has made; `inside` is a tuple of the references and handles, or None."""
    import pickle
    from miniray._serialize import code as _code
    _code.tell_cloudpickle_of(data)
    before, _inside.coming = getattr(_inside, "coming", None), inside
    try:
        return pickle.loads(data, buffers=buffers)
    finally:
        _inside.coming = before


def noted_inside(thing):
    """The entry of a runtime pickle for an ObjectRef or ActorHandle: its number among those sent along. None: the
    user pickles it, not the runtime."""
    going = getattr(_inside, "going", None)
    if going is None:
        return None
    going.append(thing)
    return _take_inside, (len(going) - 1,)


def _take_inside(number):
    return _inside.coming[number]


def dump_function(function):
    """(code, references and handles in it); the code is a hash of sixteen bytes, and the pickle or the result of
    code.py."""
    from _blake2 import blake2b  # hashlib's function, without loading OpenSSL
    from miniray._serialize import code as _code
    data, found = _code.dump(function), []
    if data is None:
        data = _dump_any(function, found)
    names = "".join(map(repr, found)).encode()
    return blake2b(data + names, digest_size=16).digest() + data, tuple(found)


def load_function(data, inside):
    """The function or class of a code that dump_function has made."""
    if data[:1] in (b"M", b"K"):
        from miniray._serialize import code as _code
        return _code.load(data)
    return loads(data, (), inside)


# ---- Objects that cannot be pickled, by name.


def _unpicklable(value, error):
    if isinstance(error, RecursionError) or "deep recursion" in str(error):  # text of cloudpickle
        return ValueError(f"{_short(value)} is nested too deeply to be sent")
    where = find_culprit(value, value.__name__ if _is_code(value) else type(value).__name__)
    if where is None:
        return TypeError(f"Could not serialize {_short(value)}: {error}")
    path, culprit, reason = where
    part = "" if culprit is value else f"{path} is {_short(culprit)}, which cannot be pickled: "
    return TypeError(f"Could not serialize {_short(value)}: {part}{reason}")


def _is_code(value):
    return isinstance(value, type) or hasattr(value, "__code__")


def _short(value):
    if _is_code(value):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"
    name = type(value).__name__
    article = "an" if name[0] in "AEIOUaeio" else "a"
    text = repr(value) if isinstance(value, (int, float, str, bytes)) else f"{article} {name}"
    return text if len(text) < 80 else text[:77] + "..."


def _fails(value):
    import cloudpickle
    before, _inside.going = getattr(_inside, "going", None), []
    try:
        cloudpickle.dumps(value)
    except Exception as error:
        return error
    finally:
        _inside.going = before
    return None


def _parts(value):
    """The parts of a value, each with its path."""
    if isinstance(value, dict):
        return [(f"[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(f"[{number}]", item) for number, item in enumerate(value)]
    parts = []
    for cell, name in zip(getattr(value, "__closure__", None) or (), getattr(
            getattr(value, "__code__", None), "co_freevars", ())):
        parts.append((f" (its variable '{name}')", cell.cell_contents))
    if hasattr(value, "__code__"):
        known = getattr(value, "__globals__", {})
        parts += [(f" (its variable '{name}')", known[name]) for name in value.__code__.co_names if name in known]
    attributes = getattr(value, "__dict__", None)
    if isinstance(value, type):
        parts += [(f".{name}", item) for name, item in attributes.items() if callable(item) or not name.startswith("__")]
    elif isinstance(attributes, dict):
        parts += [(f".{name}", item) for name, item in attributes.items()]
    return parts


def _is_ours(value):
    """Whether the value is an object of this package, whose class may say why it cannot be sent."""
    return type(value).__module__.partition(".")[0] == "miniray"


def find_culprit(value, path):
    """(path, part, reason) of the innermost part that cannot be pickled; None: there is none. `path` is the name of the
    value."""
    return _find(value, path, set(), 0)


def _find(value, path, seen, depth):
    error = None if id(value) in seen or depth > 20 else _fails(value)
    seen.add(id(value))
    if error is None:
        return None
    for name, part in _parts(value):
        found = _find(part, path + name, seen, depth + 1)
        if found and (str(found[2]) == str(error) or not _is_ours(value)):
            return found
    return path, value, error
