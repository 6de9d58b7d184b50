"""Tasks, actors and futures: Ray's names and meanings, on Miniray's runtime.

    import miniray

    @miniray.remote
    def square(x):
        return x * x

    print(miniray.get([square.remote(i) for i in range(4)]))
"""

from miniray import exceptions
from miniray._actors import ActorClass
from miniray._methods import method
from miniray._api import (cancel, get_actor, init, is_initialized, kill, remote, shutdown)
from miniray._core import ActorHandle, ActorMethod, ObjectRef, RemoteFunction, get, put, wait
from miniray._core import version as __version__
from miniray.runtime_context import get_runtime_context

__all__ = [
    "ActorClass", "ActorHandle", "ActorMethod", "ObjectRef", "RemoteFunction", "cancel", "exceptions", "get",
    "get_actor", "get_runtime_context", "init", "is_initialized", "kill", "method", "put", "remote", "shutdown", "wait",
]
