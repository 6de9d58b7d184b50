"""The known name that a mistyped one most likely means, as the end of an error's text."""

from miniray import _core


def hint(name, known):
    """'; did you mean num_cpus?', or '' if no known name is similar."""
    try:
        found = _core.nearest_name(name, [each for each in known if isinstance(each, str)])
    except (TypeError, ValueError):  # not a text, or not one that is UTF-8
        return ""
    return "" if found is None else f"; did you mean {found}?"


def no_attribute(owner, name, known):
    """Raises AttributeError for an attribute of an object of the class `owner`. Names that begin with '_' are not
    suggested."""
    raise attribute_error(f"'{owner}' object has no attribute '{name}'", name, known)


def attribute_error(text, name, known):
    """The AttributeError with this text and a hint. It has no object: Python would add a hint of its own."""
    return AttributeError(text + hint(name, [each for each in known if not each.startswith("_")]), name=name, obj=None)
