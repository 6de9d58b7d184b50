"""Compiled graphs, which are ordinary graphs: a call here takes no longer than a step of a compiled graph."""

from __future__ import annotations

from typing import Any

from miniray._core_api.tracebacks import public_module


class CompiledDAG:
    """A graph that is run many times."""

    def __init__(self, node) -> None:
        self._node = node

    def execute(self, *args, **kwargs) -> Any:
        """Runs the graph, as `execute` of the node does."""
        return self._node.execute(*args, **kwargs)

    async def execute_async(self, *args, **kwargs) -> Any:
        """Runs the graph; the result can be awaited."""
        return self._node.execute(*args, **kwargs)

    def teardown(self, kill_actors=False) -> None:
        """Does nothing: the program that created the actors owns them."""


public_module(globals())
