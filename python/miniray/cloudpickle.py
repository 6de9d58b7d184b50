"""cloudpickle under Ray's name for it."""

from cloudpickle import *  # noqa: F401,F403
