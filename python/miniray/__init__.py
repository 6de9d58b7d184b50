"""Tasks, actors and futures: Ray's names and meanings, on Miniray's runtime.

    import miniray

    @miniray.remote
    def square(x):
        return x * x

    print(miniray.get([square.remote(i) for i in range(4)]))
"""

from miniray import exceptions
from miniray._compat import missing as _missing
from miniray._core import version as __version__
from miniray._actors.actor_class import ActorClass
from miniray._actors.decorator import remote
from miniray._core_api.api import cancel, get_actor, init, is_initialized, kill, shutdown
from miniray._core_api.cluster import available_resources, cluster_resources, get_gpu_ids, nodes, timeline
from miniray._core import ActorHandle, ActorMethod, ObjectRef, RemoteFunction, get, put, wait
from miniray._actors.generators import DynamicObjectRefGenerator, ObjectRefGenerator
from miniray._core_api.ids import (ActorClassID, ActorID, FunctionID, JobID, NodeID, PlacementGroupID, TaskID, UniqueID,
                          WorkerID)
from miniray._actors.methods import method
from miniray._core_api.session import LOCAL_MODE, SCRIPT_MODE, WORKER_MODE, Language, LoggingConfig
from miniray._core_api.tracebacks import public as _public
from miniray.runtime_context import get_runtime_context

ObjectID = ObjectRef  # the old name
StreamingObjectRefGenerator = ObjectRefGenerator  # the old name

__all__ = [
    "ActorClass", "ActorClassID", "ActorHandle", "ActorID", "ActorMethod", "DynamicObjectRefGenerator", "FunctionID",
    "JobID", "LOCAL_MODE", "Language", "LoggingConfig", "NodeID", "ObjectID", "ObjectRef", "ObjectRefGenerator",
    "PlacementGroupID", "RemoteFunction", "SCRIPT_MODE", "StreamingObjectRefGenerator", "TaskID", "UniqueID",
    "WORKER_MODE", "WorkerID", "__version__", "available_resources", "cancel", "cluster_resources", "exceptions", "get",
    "get_actor", "get_gpu_ids", "get_runtime_context", "init", "is_initialized", "kill", "method", "nodes", "put",
    "remote", "shutdown", "timeline", "wait",
]


@_public
def __getattr__(name):
    """Imports, at their first use, modules that few programs need."""
    if name in ("_common", "_private", "actor", "cloudpickle", "dag", "experimental", "internal", "ps", "runtime_env", "train",
                "types", "util"):
        import importlib
        return importlib.import_module(f"miniray.{name}")
    raise _missing.missing("miniray", name)
