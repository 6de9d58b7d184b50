"""Remote functions, by the name that Ray's module of this name has."""

from miniray._core import RemoteFunction

__all__ = ["RemoteFunction"]
