"""cloudpickle, by the name under which Ray has it."""

from cloudpickle import *  # noqa: F401,F403
