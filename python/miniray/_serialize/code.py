"""Simple functions and classes as they are sent: their code and its global names, written by marshal.

Importing cloudpickle takes longer than starting an interpreter, and using it longer than starting a worker. A function
needs no cloudpickle, on either side, if it is sent by value, has no variables of an outer function, and uses no globals
but builtins, modules and plain constants; nor does a class without bases that consists of such functions and of
constants. All other functions and classes use cloudpickle. Both ways have the same result: a class that arrives twice
is one class, and a class that returns to its sender is the original one (tell_cloudpickle).
"""

import marshal
import os
import sys
import types
from _weakref import ref

MARK, CLASS_MARK = b"M", b"K"  # first byte of the code; a pickle begins with another byte
_SCALARS = (type(None), bool, int, float, complex, str, bytes)
_ABOUT_MODULE = ("__name__", "__package__", "__file__", "__path__")
_OF_EVERY_CLASS = ("__dict__", "__weakref__", "__module__")
_names_of_classes = {}  # {weak reference to a class that was sent or received: its name in all processes}
_classes = {}  # {name: weak reference to the class}
_untold = []  # names that cloudpickle does not know yet


def dump(thing):
    """A function or a class as bytes; None: not a simple one."""
    try:
        if type(thing) is types.FunctionType:
            return _dump_function(thing)
        if type(thing) is type:
            return _dump_class(thing)
    except ValueError:  # a code object that no compiler made
        pass
    return None


def load(data):
    """The function or class of these bytes, with its own globals."""
    if data[:1] == CLASS_MARK:
        return _load_class(*marshal.loads(data[1:]))
    described, *needed = marshal.loads(data[1:])
    return _function_of(described, _globals_of(*needed))


# ---- Functions.


def _dump_function(function):
    if not _travels_by_value(function) or not _is_simple(function) or _has_favourites():
        return None
    needed = _needed(_names(function.__code__), function.__globals__)
    return None if needed is None else MARK + marshal.dumps((_described(function), *needed))


def _travels_by_value(thing):
    """Whether the function is sent by value; other functions are found by their names."""
    return thing.__module__ == "__main__" or "<" in thing.__qualname__


def _is_simple(function):
    if function.__closure__ or function.__dict__ or function.__annotations__:
        return False
    return _are_scalars((*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()))


def _are_scalars(values):
    return all(type(value) in _SCALARS for value in values)


def _described(function):
    about = (function.__name__, function.__qualname__, function.__module__, function.__doc__)
    return function.__code__, about, function.__defaults__, function.__kwdefaults__


def _function_of(described, known):
    code, (name, qualname, module, doc), defaults, keywords = described
    function = types.FunctionType(code, known, name, defaults)
    function.__qualname__, function.__module__, function.__doc__ = qualname, module, doc
    function.__kwdefaults__ = keywords
    return function


def _globals_of(constants, modules, more):
    known = {"__builtins__": __builtins__, **constants}
    for module_name in more:
        __import__(module_name)
    for variable, module_name in modules.items():
        __import__(module_name)
        known[variable] = sys.modules[module_name]
    return known


# ---- Classes.


def _dump_class(cls):
    if cls.__bases__ != (object,) or not _travels_by_value(cls) or _has_favourites():
        return None
    functions, others, names, known = {}, {}, set(), None
    for name, value in cls.__dict__.items():
        if name in _OF_EVERY_CLASS:
            continue
        if type(value) in _SCALARS:
            others[name] = value
            continue
        if not _is_own_method(cls, value) or (known is not None and value.__globals__ is not known):
            return None
        functions[name], known = _described(value), value.__globals__
        names |= _names(value.__code__)
    needed = ({}, {}, []) if known is None else _needed(names, known)
    if needed is None:
        return None
    about = (cls.__name__, cls.__qualname__, cls.__module__)
    return CLASS_MARK + marshal.dumps((_name_of(cls), about, functions, others, needed))


def _is_own_method(cls, value):
    """Whether the method is written in the class, and simple."""
    if type(value) is not types.FunctionType or not _is_simple(value):
        return False
    return value.__module__ == cls.__module__ and value.__qualname__.startswith(cls.__qualname__ + ".")


def _load_class(name, about, functions, others, needed):
    known = _globals_of(*needed)
    body = {**others, **{key: _function_of(described, known) for key, described in functions.items()}}
    found = _classes.get(name)
    cls = None if found is None else found()
    if cls is None:
        cls = type(about[0], (), {**body, "__qualname__": about[1], "__module__": about[2]})
        _note(cls, name)
    else:  # as in cloudpickle, changes since the arrival of the class are kept
        for key, value in body.items():
            setattr(cls, key, value)
    return cls


def _name_of(cls):
    """The name of a class in all processes: cloudpickle's, if cloudpickle knows the class."""
    name = _names_of_classes.get(ref(cls))
    if name is None:
        tracker = _tracker()
        name = os.urandom(16).hex() if tracker is None else tracker._get_or_create_tracker_id(cls)
        _note(cls, name)
    return name


def _note(cls, name):
    def forget(gone):
        _names_of_classes.pop(gone, None)
        _classes.pop(name, None)
    weak = ref(cls, forget)
    _names_of_classes[weak], _classes[name] = name, weak
    _untold.append(name)


def tell_cloudpickle():
    """Gives cloudpickle, before it pickles or loads, the names of the classes that were sent without it."""
    tracker = _tracker() if _untold else None
    while tracker is not None and _untold:
        name = _untold.pop(0)
        found = _classes.get(name)
        cls = None if found is None else found()
        if cls is not None:
            tracker._lookup_class_or_track(name, cls)


def tell_cloudpickle_of(data):
    """The same before a pickle is loaded, which imports cloudpickle if needed."""
    if _untold and "cloudpickle" not in sys.modules and b"cloudpickle" in bytes(data):
        import cloudpickle  # noqa: F401
    tell_cloudpickle()


def _tracker():
    """cloudpickle's module, if it is imported and has the functions that track classes; otherwise None."""
    module = sys.modules.get("cloudpickle.cloudpickle")
    return module if hasattr(module, "_lookup_class_or_track") and hasattr(module, "_get_or_create_tracker_id") else None


# ---- Globals of a function.


def _has_favourites():
    """Whether the user has registered modules whose functions are sent by value."""
    pickler = sys.modules.get("cloudpickle")
    return pickler is not None and bool(pickler.list_registry_pickle_by_value())


def _names(code):
    """All names that the code and its inner code objects may look up."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _needed(names, known):
    """({variable: constant}, {variable: name of a module}, [names of submodules of those]) of the names that are
    known; None: there are other names."""
    constants, modules = {}, {}
    for variable in _ABOUT_MODULE:
        if variable in known and (type(known[variable]) is str or variable in names):
            constants[variable] = known[variable]
    for variable in sorted(names & known.keys()):
        value = known[variable]
        if type(value) is types.ModuleType and _is_importable(value):
            modules[variable] = value.__name__
        elif variable != "__builtins__":
            constants[variable] = value
    if not _are_scalars(constants.values()):
        return None
    return constants, modules, _parts(set(modules.values()), names)


def _is_importable(module):
    return module.__name__ != "__main__" and module.__spec__ is not None and sys.modules.get(module.__name__) is module


def _parts(packages, names):
    """Submodules that the program has imported and that the code seems to use: `concurrent.futures`."""
    found = []
    for name in list(sys.modules) if packages else ():
        package, _, rest = name.partition(".")
        if rest and package in packages and set(rest.split(".")) <= names:
            found.append(name)
    return sorted(found)
