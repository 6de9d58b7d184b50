"""Things that programs build out of tasks and actors again and again."""

from miniray._cluster import list_named_actors
from miniray.util.actor_pool import ActorPool
from miniray.util.check_serialize import inspect_serializability
from miniray.util.serialization import deregister_serializer, register_serializer

__all__ = ["ActorPool", "deregister_serializer", "inspect_serializability", "list_named_actors", "register_serializer"]
