"""Compiled graphs, which are ordinary graphs: a call here takes no longer than a step of a compiled graph."""


class CompiledDAG:
    """A graph that is run many times."""

    def __init__(self, node):
        self._node = node

    def execute(self, *args, **kwargs):
        """Runs the graph, as `execute` of the node does."""
        return self._node.execute(*args, **kwargs)

    async def execute_async(self, *args, **kwargs):
        """Runs the graph; the result can be awaited."""
        return self._node.execute(*args, **kwargs)

    def teardown(self, kill_actors=False):
        """Does nothing: the program that created the actors owns them."""
