"""The earlier name of miniray.util.state: `from miniray.experimental.state.api import list_actors`."""

import sys

from miniray.util import state as api

__path__ = []  # makes this module a package
sys.modules[f"{__name__}.api"] = api
