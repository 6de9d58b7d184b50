"""Simple functions as they travel: their code and what it needs, written by marshal.

Importing cloudpickle takes longer than starting an interpreter. A function that is sent by value, has no variables of an
outer function, and uses nothing global but builtins, modules and plain constants does without it, where it is sent and
where it is loaded; every other one is cloudpickle's. What comes out is the same.
"""

import marshal
import sys
import types

MARK = b"M"  # the first byte; a pickle begins with another
_SCALARS = (type(None), bool, int, float, complex, str, bytes)
_ABOUT_MODULE = ("__name__", "__package__", "__file__", "__path__")


def dump(function):
    """As bytes; None: it is not a simple one."""
    if type(function) is not types.FunctionType or not _travels_by_value(function):
        return None
    if function.__closure__ or function.__dict__ or function.__annotations__:
        return None
    defaults, keywords = function.__defaults__ or (), function.__kwdefaults__ or {}
    if not _are_scalars((*defaults, *keywords.values())) or _has_favourites():
        return None
    needed = _needed(function)
    if needed is None:
        return None
    about = (function.__name__, function.__qualname__, function.__module__, function.__doc__)
    try:
        return MARK + marshal.dumps((function.__code__, about, function.__defaults__, function.__kwdefaults__, *needed))
    except ValueError:  # a code object that no compiler made
        return None


def load(data):
    """The function again, with globals of its own."""
    code, (name, qualname, module, doc), defaults, keywords, constants, modules, more = marshal.loads(data[len(MARK):])
    known = {"__builtins__": __builtins__, **constants}
    for module_name in more:
        __import__(module_name)
    for variable, module_name in modules.items():
        __import__(module_name)
        known[variable] = sys.modules[module_name]
    function = types.FunctionType(code, known, name, defaults)
    function.__qualname__, function.__module__, function.__doc__ = qualname, module, doc
    function.__kwdefaults__ = keywords
    return function


def _travels_by_value(function):
    """Others are found by their names."""
    return function.__module__ == "__main__" or "<" in function.__qualname__


def _are_scalars(values):
    return all(type(value) in _SCALARS for value in values)


def _has_favourites():
    """Modules whose functions the user wants to travel by value."""
    pickler = sys.modules.get("cloudpickle")
    return pickler is not None and bool(pickler.list_registry_pickle_by_value())


def _names(code):
    """All that the code and the code inside of it may look up."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _needed(function):
    """({variable: constant}, {variable: name of a module}, [names of modules inside of those]); None: more than that."""
    names, known = _names(function.__code__), function.__globals__
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
    """Modules of packages that the program has imported and that the code seems to use: `concurrent.futures`."""
    found = []
    for name in list(sys.modules):
        package, _, rest = name.partition(".")
        if rest and package in packages and set(rest.split(".")) <= names:
            found.append(name)
    return sorted(found)
