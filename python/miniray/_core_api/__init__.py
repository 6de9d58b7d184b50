"""Runtime functions below tasks and actors: starting and ending, options, ids, errors, and the state of the cluster."""

import os

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_INTERNAL = ("_actors", "_compat", "_core_api", "_output", "_serialize")
# User-visible tracebacks omit frames of files in these folders.
FOLDERS = {_PACKAGE, *(os.path.join(_PACKAGE, name) for name in _INTERNAL)}
