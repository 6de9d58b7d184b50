"""Graphs of calls that are written first and run later: `f.bind(…)` instead of `f.remote(…)`.

A node is a call; its arguments may be other nodes. `execute` runs every node of a graph once, after the nodes of its
arguments, and passes results on as references. A node of a class becomes an actor, a new one in every run. An InputNode
stands for the arguments of `execute`.
"""

from __future__ import annotations

from typing import Any

from miniray import _core
from miniray._core_api.tracebacks import public_module
from miniray.dag.class_node import PARENT_CLASS_NODE_KEY, PREV_CLASS_METHOD_CALL_KEY, ClassMethodNode, ClassNode
from miniray.dag.compiled_dag_node import CompiledDAG
from miniray.dag.dag_node import DAGNode
from miniray.dag.function_node import FunctionNode
from miniray.dag.input_node import InputAttributeNode, InputNode
from miniray.dag.output_node import MultiOutputNode

__all__ = ["ClassMethodNode", "ClassNode", "CompiledDAG", "DAGNode", "FunctionNode", "InputAttributeNode", "InputNode",
           "MultiOutputNode", "PARENT_CLASS_NODE_KEY", "PREV_CLASS_METHOD_CALL_KEY", "bind"]


def bind(target, *args, **kwargs) -> Any:
    """Makes a node of a remote function, or of a method of an actor handle: their `bind` calls this function."""
    if isinstance(target, _core.RemoteFunction):
        return FunctionNode(target, args, kwargs)
    return ClassMethodNode(target, args, kwargs, {}, {})


public_module(globals())
