"""Texts of errors: the known name that a mistyped one most likely means, lists of known names, and Python's names in place
of those of C."""

from miniray import _core

_LISTED_MAX = 12  # more names are not listed
_UNKNOWN_KEYWORD = " got an unexpected keyword argument '"  # Python 3.13 adds a hint of its own
_CONSTANTS = (("MR_STREAM", '"streaming"'), ("MR_NO_LIMIT", "-1"), ("MR_FOREVER", "None"))
# Functions of C whose Python methods have other names.
_OF_C = {"table_create": "table", "table_open": "table", "dataset_define": "dataset", "actor_kill": "kill"}


def hint(name, known):
    """'; did you mean num_cpus?', or '' if no known name is similar."""
    try:
        found = _core.nearest_name(name, [each for each in known if isinstance(each, str)])
    except (TypeError, ValueError):  # not a text, or not one that is UTF-8
        return ""
    return "" if found is None or found == name else f"; did you mean {found}?"


def one_of(what, value, known):
    """The ValueError for a value that is none of the known ones: unknown display 'line'; expected auto, live, lines or
    quiet; did you mean lines?"""
    known = [str(each) for each in known]
    *others, last = known
    listed = f"{', '.join(others)} or {last}" if others else last
    return ValueError(f"unknown {what} {value!r}; expected {listed}{hint(value, known)}")


def no_ref(call, value, place):
    """Raises the error of get() or wait() for a value, or for the item of a list at `place` >= 0, that is no
    ObjectRef."""
    name = type(value).__name__
    given = f"not {name}" if place < 0 else f"and item {place} is {name}"
    wanted = "a list of ObjectRefs" if call == "wait" else "an ObjectRef or a list of ObjectRefs"
    raise (TypeError if call == "wait" else ValueError)(f"{call}() takes {wanted}, {given}{_INSTEAD.get(name, '')}")


_INSTEAD = {"ObjectRef": "; pass [ref]", "ActorHandle": "; pass the result of a method: actor.method.remote()",
            "RemoteFunction": "; pass the result of its remote()", "ActorMethod": "; pass the result of its remote()",
            **dict.fromkeys(("tuple", "set", "dict_values", "generator", "map"), "; make it a list with list()")}


def no_attribute(owner, name, known):
    """Raises AttributeError for a missing method of an actor of the class `owner`. Names that begin with '_' are not
    suggested."""
    raise attribute_error(f"'{owner}' object has no attribute '{name}'", name, known, "the actor's methods are")


def attribute_error(text, name, known, listed=None):
    """The AttributeError with this text and a hint or, after `listed`, the known names. It has no object: Python would
    add a hint of its own."""
    known = sorted(each for each in known if not each.startswith("_"))
    meant = hint(name, known)
    if not meant and listed is not None and 0 < len(known) <= _LISTED_MAX:
        meant = f"; {listed} {', '.join(known)}"
    return AttributeError(text + meant, name=name, obj=None)


def add_keyword(error, known):
    """Adds a hint to a TypeError about an unknown keyword argument of a function with the known parameters."""
    text = str(error)
    name = text.rpartition(_UNKNOWN_KEYWORD)[2]
    if name != text and name.endswith("'"):
        error.args = (text + hint(name[:-1], known),)


def add_keyword_of(error, function):
    """The same, for the parameters of a function."""
    if _UNKNOWN_KEYWORD in str(error):
        import inspect
        add_keyword(error, inspect.signature(function).parameters)


def in_python(text):
    """A text of the library with Python's names: begin() for mr_ps_begin."""
    for constant, value in _CONSTANTS:
        text = text.replace(constant, value)
    if "mr_" not in text:
        return text
    import re
    return re.sub(r"\bmr_(?:ps_)?(\w+)", lambda found: f"{_OF_C.get(found[1], found[1])}()", text)
