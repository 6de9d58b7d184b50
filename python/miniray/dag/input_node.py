"""The arguments of `execute` as nodes."""

from __future__ import annotations

from typing import Any

from miniray._core_api.tracebacks import public_module
from miniray.dag.dag_node import DAGNode


class InputNode(DAGNode):
    """The argument of `execute`: `with InputNode() as given:`; given[0], given["key"] and given.name are parts of it.
    """

    is_input = True

    def __init__(self, *args, **kwargs) -> None:
        if args or kwargs:
            raise ValueError("InputNode should not take any args or kwargs")
        super().__init__()
        self._entered = False

    def __enter__(self) -> InputNode:
        self._entered = True
        return self

    def __exit__(self, *error) -> None:
        pass

    def __getitem__(self, key):
        assert isinstance(key, (int, str)), ("Please only use int index or str as first-level key to access fields of "
                                             "dag input.")
        return InputAttributeNode(self, key, "__getitem__")

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return InputAttributeNode(self, name, "__getattr__")

    def execute(self, *args, **kwargs) -> Any:
        """Runs the graph that is this node alone: the result is the argument."""
        self._check()
        return super().execute(*args, **kwargs)

    def _check(self):
        assert self._entered, ("InputNode is a singleton instance that should be only used in context manager for dag "
                               "building and execution.")

    def _run(self, run, args, kwargs):
        self._check()
        if len(run.args) == 1 and not run.kwargs:
            return run.args[0]
        return run.args, run.kwargs


class InputAttributeNode(DAGNode):
    """A part of the input: an attribute or an item of its one argument, or one of several arguments."""

    def __init__(self, given, key, accessor) -> None:
        super().__init__((given,))
        self._key, self._accessor = key, accessor

    def _run(self, run, args, kwargs):
        if len(run.args) != 1 or run.kwargs:
            return run.args[self._key] if isinstance(self._key, int) else run.kwargs[self._key]
        return args[0][self._key] if self._accessor == "__getitem__" else getattr(args[0], self._key)


public_module(globals())
