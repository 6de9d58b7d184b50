"""Decorators that mark the stability of an API. They change the documentation string only."""


def _mark(words):
    def mark(*args, **about):
        """Used bare, or with arguments, which become part of the text."""
        if len(args) == 1 and callable(args[0]) and not about:
            return _note(args[0], words)
        return lambda thing: _note(thing, words)
    return mark


def _note(thing, words):
    if thing.__doc__:
        try:
            thing.__doc__ = f"{thing.__doc__}\n\n{words}"
        except AttributeError:  # an object written in C
            pass
    return thing


PublicAPI = _mark("PublicAPI: its meaning stays.")
DeveloperAPI = _mark("DeveloperAPI: it may change.")
Deprecated = _mark("Deprecated: it will go.")
