"""Tasks in a graph."""

from __future__ import annotations

from miniray._core_api.tracebacks import public_module
from miniray.dag.dag_node import DAGNode


class FunctionNode(DAGNode):
    """A task of a graph."""

    def __init__(self, function, args, kwargs) -> None:
        super().__init__(args, kwargs, function._default_options)
        self._body = function

    def _run(self, run, args, kwargs):
        return self._body.remote(*args, **kwargs)


public_module(globals())
