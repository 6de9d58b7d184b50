"""The earlier name of miniray.util.state: `from miniray.experimental.state.api import list_actors`."""

import sys

from miniray.util import state as api

__path__ = []  # so that it has a module in it
sys.modules[f"{__name__}.api"] = api
