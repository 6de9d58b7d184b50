"""The functions of `import miniray`: init, remote, get, wait, errors and options."""

import os

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Files of the package whose frames are not shown to users.
FOLDERS = {_PACKAGE, *(os.path.join(_PACKAGE, name) for name in ("_actors", "_compat", "_core_api", "_output", "_serialize"))}
