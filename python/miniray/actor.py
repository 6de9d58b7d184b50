"""Actors, under the name of Ray's module."""

from miniray._actors.actor_class import ActorClass, ActorClassInheritanceException
from miniray._actors.methods import method
from miniray._core import ActorHandle, ActorMethod
from miniray._core_api.actor_exit import exit_actor

ActorProxy = ActorHandle  # Ray's name for a handle whose class type checkers know

__all__ = ["ActorClass", "ActorClassInheritanceException", "ActorHandle", "ActorMethod", "ActorProxy", "exit_actor",
           "method"]
