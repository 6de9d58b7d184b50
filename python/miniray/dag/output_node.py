"""Graphs with several results."""

from __future__ import annotations

from miniray._core_api.tracebacks import public_module
from miniray.dag.dag_node import DAGNode


class MultiOutputNode(DAGNode):
    """Several results: `execute` returns a list of references."""

    def __init__(self, args, other_args_to_resolve=None) -> None:
        if not isinstance(args, (list, tuple)):
            raise ValueError(f"Invalid input type for `args`, {type(args)}.")
        super().__init__(args, other_args_to_resolve=other_args_to_resolve)

    def _run(self, run, args, kwargs):
        return list(args)


public_module(globals())
