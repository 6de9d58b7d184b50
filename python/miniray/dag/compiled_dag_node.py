"""Graphs that are compiled. There is nothing to be gained here: a call takes no longer than a step of a compiled graph."""


class CompiledDAG:
    """A graph that is run again and again."""

    def __init__(self, node):
        self._node = node

    def execute(self, *args, **kwargs):
        """As that of the graph."""
        return self._node.execute(*args, **kwargs)

    async def execute_async(self, *args, **kwargs):
        """As execute; what comes back can be awaited."""
        return self._node.execute(*args, **kwargs)

    def teardown(self, kill_actors=False):
        """The actors are their owner's: nothing is to be ended."""
