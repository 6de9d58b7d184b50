"""Remote functions, under the name of Ray's module."""

from miniray._core import RemoteFunction

__all__ = ["RemoteFunction"]
