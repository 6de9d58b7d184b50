"""Results in the order in which they are ready."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from miniray import _core
from miniray._core_api.tracebacks import public_module


def as_completed(refs, *, chunk_size=10, yield_obj_refs=False) -> Iterator[Any]:
    """Yields the values, or the references, in the order in which they are ready; `chunk_size` are waited for at once.
    """
    if chunk_size < 1:
        raise ValueError("`chunk_size` must be >= 1")
    waiting = list(refs)
    while waiting:
        ready, waiting = _core.wait(waiting, num_returns=min(chunk_size, len(waiting)), timeout=0)
        if not ready:
            ready, waiting = _core.wait(waiting, num_returns=1)
        yield from ready if yield_obj_refs else map(_core.get, ready)


def map_unordered(fn, items, *, backpressure_size=100, chunk_size=10, yield_obj_refs=False) -> Iterator[Any]:
    """Calls a remote function with each item, at most `backpressure_size` at once, and yields the results in the order
    in which they are ready."""
    if backpressure_size is None:
        backpressure_size = float("inf")
    elif backpressure_size <= 0:
        raise ValueError("backpressure_size must be positive.")
    waiting = []
    for item in items:
        waiting.append(fn.remote(item))
        if len(waiting) >= backpressure_size:
            ready, waiting = _core.wait(waiting, num_returns=1)
            yield from ready if yield_obj_refs else map(_core.get, ready)
    yield from as_completed(waiting, chunk_size=chunk_size, yield_obj_refs=yield_obj_refs)


public_module(globals())
