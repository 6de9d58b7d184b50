"""Things that programs build out of tasks and actors again and again."""

from miniray._cluster import get_node_ip_address, list_named_actors
from miniray.util.actor_pool import ActorPool
from miniray.util.check_serialize import inspect_serializability
from miniray.util.helpers import as_completed, map_unordered
from miniray.util.placement_group import (PlacementGroup, get_current_placement_group, get_placement_group,
                                          placement_group, placement_group_table, remove_placement_group)
from miniray.util.serialization import deregister_serializer, register_serializer

__all__ = ["ActorPool", "PlacementGroup", "as_completed", "deregister_serializer", "get_current_placement_group",
           "get_node_ip_address", "get_placement_group", "inspect_serializability", "list_named_actors",
           "map_unordered", "placement_group", "placement_group_table", "register_serializer", "remove_placement_group"]
