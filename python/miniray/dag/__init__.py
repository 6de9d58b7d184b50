"""Graphs of tasks and calls that are written down first and run later: `f.bind(…)` instead of `f.remote(…)`.

A node is a call with arguments, some of which are nodes. `execute` runs each node of a graph once, those before it first,
and hands what comes of it on as a reference; a node of a class becomes an actor, a new one in every run. For what is not
known yet when the graph is written stands an InputNode.
"""

from miniray import _core
from miniray.dag.class_node import PARENT_CLASS_NODE_KEY, PREV_CLASS_METHOD_CALL_KEY, ClassMethodNode, ClassNode
from miniray.dag.compiled_dag_node import CompiledDAG
from miniray.dag.dag_node import DAGNode
from miniray.dag.function_node import FunctionNode
from miniray.dag.input_node import InputAttributeNode, InputNode
from miniray.dag.output_node import MultiOutputNode

__all__ = ["ClassMethodNode", "ClassNode", "CompiledDAG", "DAGNode", "FunctionNode", "InputAttributeNode", "InputNode",
           "MultiOutputNode", "PARENT_CLASS_NODE_KEY", "PREV_CLASS_METHOD_CALL_KEY", "bind"]


def bind(target, *args, **kwargs):
    """What `bind` of functions and of methods of handles does."""
    if isinstance(target, _core.RemoteFunction):
        return FunctionNode(target, args, kwargs)
    return ClassMethodNode(target, args, kwargs, {}, {})
