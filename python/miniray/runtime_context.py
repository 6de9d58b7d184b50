"""What a task or an actor can ask about itself."""

from miniray import _core


class RuntimeContext:
    """The place where this code runs."""

    @property
    def current_actor(self):
        """The handle of this actor, for others to call; outside of one a RuntimeError."""
        actor = _core.current_actor()
        if actor is None:
            raise RuntimeError("This method is only available in an actor.")
        return actor

    def get_actor_id(self):
        """The actor's id, as it is printed; None outside of one."""
        actor = _core.current_actor()
        return None if actor is None else actor.__actor_id__


def get_runtime_context():
    """What this process is."""
    return RuntimeContext()
