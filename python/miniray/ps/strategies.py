"""Strategies that combine the weights of several workers: the built-in ones, and the base class of others.

A server with one of the built-in classes runs in C (src/train); the code here does the same in NumPy, in any process:

    AverageStrategy().aggregate([[a0, b0], [a1, b1]])

Floating-point tensors are aggregated, fp16 and bf16 in fp32; integer and bool tensors are those of the first worker. A
NaN of any worker is a NaN of the result.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

from miniray._core_api import did_you_mean
from miniray._core_api.tracebacks import public_module
from miniray._weights import _weight_tree
from miniray.ps import _old_names


class SyncStrategy:
    """Base of strategies: implement `aggregate`, and register the class: `STRATEGIES['mine'] = Mine`.

    A strategy whose attributes change from sync to sync also has `get_state()`, which returns them, and
    `set_state(state)`: the server then continues with them after the death of its process, and saves them.
    """

    worker_weights = {}  # {worker id: weight}, set by set_worker_weight

    def aggregate(self, weight_lists) -> Any:
        """The new weights, a list of tensors, from the lists of all workers."""
        raise NotImplementedError(f"{type(self).__name__} needs aggregate(self, weight_lists), which returns a list of "
                                  "tensors")


class _Builtin(SyncStrategy):
    """Base of the strategies that the library implements in C. `_native` is their form in C: (name, momentum, trim)."""

    _name = None

    def _native(self):
        return self._name, 0.0, 0.0

    def aggregate(self, weight_lists):
        lists = [list(each) for each in weight_lists]
        if not lists:
            raise ValueError("aggregate() got the weights of no workers: pass those of at least one")
        for worker, each in enumerate(lists):
            if len(each) != len(lists[0]):
                raise ValueError(f"worker {worker} has {len(each)} tensors, worker 0 has {len(lists[0])}")
        return [self._tensor(index, [each[index] for each in lists]) for index in range(len(lists[0]))]

    def _tensor(self, index, leaves):
        kinds = [_kind(leaf) for leaf in leaves]
        for worker, kind in enumerate(kinds):
            if kind != kinds[0]:
                raise ValueError(f"tensor {index} of worker {worker} is {kind}, that of worker 0 is {kinds[0]}")
        rows = [_rows(leaf) for leaf in leaves]
        if rows[0] is None:
            return leaves[0]
        import numpy
        with numpy.errstate(all="ignore"):
            return _like(leaves[0], self._fold(index, rows))

    def _fold(self, index, rows):
        raise NotImplementedError


def _kind(leaf):
    """A dtype and a shape as in the library's errors: float32[3, 4]."""
    if _weight_tree.is_tensor(leaf):
        return f"{str(leaf.dtype).replace('torch.', '')}{list(leaf.shape)}"
    return type(leaf).__name__


def _rows(leaf):
    """A floating-point leaf as an array to compute with; None: it is not floating-point."""
    import numpy
    if isinstance(leaf, float):
        return numpy.float64(leaf)
    if _weight_tree.is_torch(leaf):
        if not leaf.is_floating_point():
            return None
        leaf = leaf.detach().cpu()
        leaf = (leaf if leaf.element_size() >= 4 else leaf.float()).numpy()
    elif not isinstance(leaf, numpy.ndarray) or leaf.dtype.kind != "f":
        return None
    return leaf if leaf.dtype.itemsize >= 4 else leaf.astype(numpy.float32)


def _like(leaf, result):
    """The result in the type of the leaf."""
    if isinstance(leaf, float):
        return float(result)
    if _weight_tree.is_torch(leaf):
        import torch
        return torch.as_tensor(result).to(leaf.dtype).reshape(leaf.shape)
    import numpy
    return numpy.asarray(result, dtype=leaf.dtype).reshape(leaf.shape)


def _mean(rows):
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    return total / rows[0].dtype.type(len(rows))


class AverageStrategy(_Builtin):
    """The mean over all workers."""

    _name = "average"

    def _fold(self, index, rows):
        return _mean(rows)


class WeightedStrategy(_Builtin):
    """The mean with the weights of `set_worker_weight`; a weight that is not set is 1."""

    _name = "weighted"

    def aggregate(self, weight_lists) -> Any:
        """The weighted mean of the lists."""
        weight_lists = list(weight_lists)
        weights = [float(self.worker_weights.get(worker, 1.0)) for worker in range(len(weight_lists))]
        total = math.fsum(weights)
        if weights and not (0 < total < math.inf):
            raise ValueError(f"the weights of all workers add up to {total:g}: that has to be more than 0, and finite")
        self._shares = [weight / total for weight in weights]
        return super().aggregate(weight_lists)

    def _fold(self, index, rows):
        real = rows[0].dtype.type
        total = real(self._shares[0]) * rows[0]
        for share, row in zip(self._shares[1:], rows[1:]):
            total = total + real(share) * row
        return total


class MomentumStrategy(_Builtin):
    """A moving average: the first sync takes the mean, later ones momentum · old + (1 - momentum) · mean."""

    _name = "momentum"

    def __init__(self, momentum=0.9) -> None:
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum is {momentum}: it must be at least 0 and below 1")
        self.momentum = float(momentum)
        self._before = None

    def _native(self):
        return self._name, self.momentum or -1.0, 0.0  # 0 is the library's default, so 0 is passed as -1

    def aggregate(self, weight_lists) -> Any:
        """The moving average after the mean of the lists."""
        result = super().aggregate(weight_lists)
        self._before = [_rows(leaf) for leaf in result]
        return result

    def get_state(self) -> Any:
        """The moving average, for the server's next process."""
        return self._before

    def set_state(self, state) -> None:
        """Continues from a moving average."""
        self._before = state

    def _fold(self, index, rows):
        mean, real = _mean(rows), rows[0].dtype.type
        if self._before is None:
            return mean
        return real(self.momentum) * self._before[index] + real(1 - self.momentum) * mean


class _Sorted(_Builtin):
    def _fold(self, index, rows):
        import numpy
        ordered = numpy.sort(numpy.stack(rows), axis=0)  # sorts NaNs to the end
        first, last = self._kept(len(rows))
        return numpy.where(numpy.isnan(ordered[-1]), ordered[-1], _mean(list(ordered[first:last])))


class MedianStrategy(_Sorted):
    """The median over all workers; of an even number, the mean of the two middle ones."""

    _name = "median"

    def _kept(self, workers):
        return (workers - 1) // 2, workers // 2 + 1


class TrimmedMeanStrategy(_Sorted):
    """The mean without the largest and the smallest values; `trim` is the share that is left out at each end."""

    _name = "trimmed_mean"

    def __init__(self, trim=0.1) -> None:
        if not 0 <= trim < 0.5:
            raise ValueError(f"trim is {trim}: it must be at least 0 and below 0.5")
        self.trim = float(trim)

    def _native(self):
        return self._name, 0.0, self.trim or -1.0

    def _kept(self, workers):
        return int(self.trim * workers), workers - int(self.trim * workers)


class MaxStrategy(_Builtin):
    """The maximum over all workers."""

    _name = "max"

    def _fold(self, index, rows):
        import numpy
        return numpy.maximum.reduce(rows)


_BUILTIN = (AverageStrategy, WeightedStrategy, MomentumStrategy, MedianStrategy, TrimmedMeanStrategy, MaxStrategy)
STRATEGIES: dict[str, type[SyncStrategy]] = {each._name: each for each in _BUILTIN}


def is_builtin(strategy) -> bool:
    """Whether the library has this strategy: an instance of exactly a built-in class."""
    return is_builtin_class(type(strategy))


def is_builtin_class(strategy) -> bool:
    """Whether this is a built-in class."""
    return strategy in _BUILTIN


def _refuse_unknown(given, kwargs, callee, known):
    """Raises TypeError for options that the strategy does not take."""
    try:
        taken = inspect.signature(given).parameters
    except (TypeError, ValueError):
        return
    if not any(each.kind is each.VAR_KEYWORD for each in taken.values()):
        _old_names.refuse(callee or getattr(given, "__name__", given), kwargs, [*known, *taken])


def _of_function(function, kwargs):
    """A strategy whose `aggregate` is this function of the lists; None: the function creates a strategy."""
    if not inspect.isfunction(function):
        return None
    try:
        signature = inspect.signature(function)
        signature.bind(None, **kwargs)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(**kwargs)
        return None
    except TypeError:
        pass
    return type(function.__name__, (SyncStrategy,), {"aggregate": lambda self, lists: function(lists, **kwargs)})()


def make(given, kwargs, callee=None, known=()) -> SyncStrategy:
    """The strategy for a name in STRATEGIES, a class, a function of the lists, or an instance. An error about an option
    names the `callee` instead of the strategy, with its `known` options."""
    if not isinstance(given, type) and callable(getattr(given, "aggregate", None)):
        if kwargs:
            if callee is not None:
                _old_names.refuse(callee, kwargs, known)
            raise TypeError(f"{type(given).__name__} is an instance already and takes no {', '.join(kwargs)}")
        return given
    if isinstance(given, str):
        if given not in STRATEGIES:
            raise did_you_mean.one_of("strategy", given, sorted(STRATEGIES))
        given = STRATEGIES[given]
    if not callable(given):
        raise TypeError("a strategy must be a name of STRATEGIES, a class with aggregate(self, weight_lists), or a function "
                        f"of the lists, not {given!r}")
    _refuse_unknown(given, kwargs, callee, known)
    made = _of_function(given, kwargs) or given(**kwargs)
    if not callable(getattr(made, "aggregate", None)):
        raise TypeError(f"{type(made).__name__} has no method aggregate(self, weight_lists)")
    return made


public_module(globals())
