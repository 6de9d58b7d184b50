"""What programs build out of actors again and again."""

from miniray.util.actor_pool import ActorPool

__all__ = ["ActorPool"]
