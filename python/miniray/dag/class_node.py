"""Actors and their calls in a graph."""

from __future__ import annotations

from miniray._core_api.tracebacks import public_module
from miniray.dag.dag_node import DAGNode, nodes_in
from miniray.dag.input_node import InputNode

PARENT_CLASS_NODE_KEY, PREV_CLASS_METHOD_CALL_KEY = "parent_class_node", "prev_class_method_call"


class ClassNode(DAGNode):
    """An actor of a graph. Its methods may be bound; they run in the order in which they were bound."""

    def __init__(self, cls, args, kwargs) -> None:
        super().__init__(args, kwargs, cls._default_options)
        if any(isinstance(each, InputNode) for each in nodes_in((self._bound_args, self._bound_kwargs))):
            raise ValueError("InputNode handles user dynamic input the the DAG, and cannot be used as args, kwargs, or "
                             "other_args_to_resolve in ClassNode constructor because it is not available at class "
                             "construction or binding time.")
        self._body, self._last_call = cls, None

    def _run(self, run, args, kwargs):
        return self._body.remote(*args, **kwargs)

    def __getattr__(self, name):
        if name == "bind":
            raise AttributeError(f".bind() cannot be used again on {type(self).__name__}")
        if name.startswith("_") or name not in self.__dict__["_body"]._methods:
            raise AttributeError(f"'{self.__dict__['_body'].__name__}' has no attribute '{name}'")
        return _UnboundMethod(self, name, {})


class _UnboundMethod:
    """A method of a ClassNode before `bind`."""

    def __init__(self, node, name, options):
        self._node, self._name, self._options = node, name, options

    def options(self, **options):
        """The same method with options for its calls."""
        return _UnboundMethod(self._node, self._name, options)

    def bind(self, *args, **kwargs):
        """A node that calls the method with these arguments."""
        node = ClassMethodNode(self._name, args, kwargs, self._options, {
            PARENT_CLASS_NODE_KEY: self._node, PREV_CLASS_METHOD_CALL_KEY: self._node._last_call})
        self._node._last_call = node
        return node

    def __getattr__(self, name):
        if name == "remote":
            raise AttributeError(".remote() cannot be used on ClassMethodNodes. Use .bind() instead to express a node in "
                                 "the graph.")
        raise AttributeError(name)


class ClassMethodNode(DAGNode):
    """A call of an actor that the graph creates, or of an existing one."""

    def __init__(self, method, args, kwargs, options, other_args_to_resolve) -> None:
        super().__init__(args, kwargs, options, other_args_to_resolve)
        self._method = method  # a method of a handle, or the name of a method of the parent node's actor

    def _run(self, run, args, kwargs):
        before = self._bound_other.get(PREV_CLASS_METHOD_CALL_KEY)
        if before is not None:
            run.value(before)
        method = self._method
        if isinstance(method, str):
            method = getattr(run.value(self._bound_other[PARENT_CLASS_NODE_KEY]), method)
        return (method.options(**self._bound_options) if self._bound_options else method).remote(*args, **kwargs)


public_module(globals())
