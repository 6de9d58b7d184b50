"""The base class of the nodes of a graph, and the execution of a graph."""

from __future__ import annotations

from typing import Any

from miniray._core_api.tracebacks import public_module


class DAGNode:
    """A call that runs when its graph is executed."""

    is_input = False

    def __init__(self, args=(), kwargs=None, options=None, other_args_to_resolve=None) -> None:
        self._bound_args, self._bound_kwargs = tuple(args), dict(kwargs or {})
        self._bound_options, self._bound_other = dict(options or {}), dict(other_args_to_resolve or {})

    def get_args(self) -> tuple[Any, ...]:
        """The positional arguments that were bound."""
        return self._bound_args

    def get_kwargs(self) -> dict[str, Any]:
        """The keyword arguments that were bound."""
        return dict(self._bound_kwargs)

    def get_options(self) -> dict[str, Any]:
        """The options that were bound."""
        return dict(self._bound_options)

    def get_other_args_to_resolve(self) -> dict[str, Any]:
        """The nodes on which this one depends besides its arguments, by Ray's keys."""
        return dict(self._bound_other)

    def execute(self, *args, **kwargs) -> Any:
        """Runs the graph that ends in this node, with these arguments for its InputNode. Returns a reference, or for a
        class the handle of an actor."""
        return _Run(args, kwargs).value(self)

    def experimental_compile(self, **options) -> Any:
        """The same graph, for many runs."""
        from miniray.dag.compiled_dag_node import CompiledDAG
        return CompiledDAG(self)

    def _run(self, run, args, kwargs):
        """Runs the node with resolved arguments and returns its result."""
        raise NotImplementedError

    def __getattr__(self, name):
        if name == "remote":
            raise AttributeError(f".remote() cannot be used on {type(self).__name__}. Use .bind() instead to express a "
                                 "node in the graph, and .execute() to run it.")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __reduce__(self):
        raise ValueError("DAGNode cannot be serialized: it is executed where it was written")

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(map(repr, self._bound_args))})"


class _Run:
    """One execution of a graph, with the results of its nodes so far."""

    def __init__(self, args, kwargs):
        self.args, self.kwargs = args, kwargs
        self.done, self.given = {}, None

    def value(self, node):
        """The result of a node, which runs at most once."""
        if node not in self.done:
            if node.is_input:
                assert self.given in (None, node), "Each DAG should only have one unique InputNode."
                self.given = node
            self.done[node] = node._run(self, self.resolved(node._bound_args), self.resolved(node._bound_kwargs))
        return self.done[node]

    def resolved(self, thing):
        """A copy of a value in which nodes are replaced by their results."""
        if isinstance(thing, DAGNode):
            return self.value(thing)
        if type(thing) in (list, tuple):
            return type(thing)(map(self.resolved, thing))
        if type(thing) is dict:
            return {key: self.resolved(value) for key, value in thing.items()}
        return thing



def nodes_in(thing) -> list[Any]:
    """The nodes in a value: the value, or items of lists, tuples and dicts."""
    if isinstance(thing, DAGNode):
        yield thing
    elif type(thing) in (list, tuple, dict):
        for each in thing.values() if type(thing) is dict else thing:
            yield from nodes_in(each)


public_module(globals())
