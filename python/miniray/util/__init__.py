"""Common building blocks over tasks and actors."""

from miniray._compat import missing as _missing
from miniray._core_api.cluster import get_node_instance_id, get_node_ip_address, list_named_actors
from miniray._core_api.tracebacks import public as _public
from miniray.util.actor_pool import ActorPool
from miniray.util.check_serialize import inspect_serializability
from miniray.util.debug import disable_log_once_globally, enable_periodic_logging, log_once
from miniray.util.helpers import as_completed, map_unordered
from miniray.util.placement_group import (PlacementGroup, get_current_placement_group, get_placement_group,
                                          placement_group, placement_group_table, remove_placement_group)
from miniray.util.serialization import deregister_serializer, register_serializer

__all__ = ["ActorPool", "PlacementGroup", "as_completed", "deregister_serializer", "disable_log_once_globally",
           "enable_periodic_logging", "get_current_placement_group", "get_node_instance_id", "get_node_ip_address",
           "get_placement_group", "inspect_serializability", "list_named_actors", "log_once", "map_unordered",
           "placement_group", "placement_group_table", "register_serializer", "remove_placement_group"]


@_public
def __getattr__(name):
    """Imports, at their first use, modules that few programs need."""
    if name in ("accelerators", "annotations", "collective", "joblib", "metrics", "multiprocessing", "queue",
                "scheduling_strategies", "state"):
        import importlib
        return importlib.import_module(f"miniray.util.{name}")
    raise _missing.missing("miniray.util", name)
