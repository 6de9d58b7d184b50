"""The server of strategies that are written in Python: an actor with the methods of the native one (described in
src/train/model_server.h)."""

import copy
import re
import time
from numbers import Number

from miniray import _core, exceptions
from miniray._core_api import local_mode as _local_mode
from miniray._weights import _weight_tree

_SKIP_DEAD, _TRIES = 1, 2  # _TRIES: the result is not published, so the strategy's state stays as it is
_DEAD = (exceptions.ActorDiedError, exceptions.WorkerCrashedError)


class Server:
    """The actor that runs a strategy."""

    def __init__(self, strategy):
        if not _local_mode.is_on():
            _core.give_arrays()
        self.strategy = strategy
        self.worker_weights = {}
        self.version = self.syncs = self.bytes = 0
        self.model = self.last_error = None
        self.times = (0.0, 0.0, 0.0)

    # ---- A sync.

    def aggregate(self, flags, owed, began_us, *weights):
        """Combines the weights of the workers; returns the result for each worker, facts, and the model."""
        gathered_us = _now_us()
        _raise_if(owed)
        present = {worker: each for worker, each in enumerate(weights) if not isinstance(each, BaseException)}
        if not present:
            raise exceptions.ActorDiedError(f"cannot sync: no worker is alive (0 of {len(weights)})")
        first = next(iter(present))
        lists = self._lists(present, first)
        strategy = copy.deepcopy(self.strategy) if flags & _TRIES else self.strategy
        strategy.worker_weights = dict(self.worker_weights)
        result = strategy.aggregate(lists)
        if not hasattr(result, "__iter__") or isinstance(result, (dict, str)):
            raise TypeError(f"{type(self.strategy).__name__}.aggregate should return a list of tensors, not "
                            f"{type(result).__name__}")
        result = list(result)
        self._check(result, lists[0])
        facts = (began_us, gathered_us, _now_us(), sum(_size(leaf) for leaf in result))
        results = list(self._for_each(weights, present, first, result))
        return (*results, facts, results[first])

    def _lists(self, present, first):
        """The tensors of each worker, in the order and with the library of the first worker."""
        pattern = _weight_tree.tensors(present[first])
        if not pattern and not isinstance(present[first], (list, tuple, dict)):
            raise ValueError(f"the weights of worker {first} are {type(present[first]).__name__}: a list or a dict of "
                             "tensors is needed")
        lists = []
        for worker, tree in present.items():
            found = dict(_weight_tree.tensors(tree))
            if len(found) != len(pattern):
                raise ValueError(f"worker {worker} has {len(found)} tensors, worker {first} has {len(pattern)}")
            lists.append([_matched(worker, found, first, path, leaf) for path, leaf in pattern])
        return lists

    def _check(self, result, pattern):
        name = type(self.strategy).__name__
        if len(result) != len(pattern):
            raise ValueError(f"{name}.aggregate returned {len(result)} tensors, not {len(pattern)}")
        for number, (made, wanted) in enumerate(zip(result, pattern)):
            if not hasattr(made, "shape") and not isinstance(made, Number):
                raise TypeError(f"tensor {number} that {name}.aggregate returned is a {type(made).__name__}")
            shape = tuple(getattr(made, "shape", ()))
            if shape != tuple(wanted.shape):  # copy_ would silently broadcast the array
                raise ValueError(f"tensor {number} that {name}.aggregate returned has the shape {list(shape)}, "
                                 f"those of the workers have {list(wanted.shape)}")

    def _for_each(self, weights, present, first, result):
        """The weights for each worker: the same object for workers that use the same libraries."""
        pattern, made = present[first], {}
        for worker in range(len(weights)):
            flavours = tuple(_weight_tree.is_torch(leaf) for _, leaf in _weight_tree.tensors(present.get(worker, pattern)))
            if flavours not in made:
                made[flavours] = _weight_tree.rebuilt(pattern, map(_in_flavour, result, flavours))
            yield made[flavours]

    def publish(self, owed, facts, result, *returned):
        """Makes the result of a sync the global model; returns its version."""
        _raise_if(owed, facts, result)
        began_us, gathered_us, aggregated_us, self.bytes = facts
        self.times = ((gathered_us - began_us) * 1e-6, (aggregated_us - gathered_us) * 1e-6,
                      (_now_us() - aggregated_us) * 1e-6)
        self.syncs += 1
        return self._replace(result)

    def note(self, flags, facts, result, *returned):
        """Records the first error of a sync, if any."""
        if isinstance(facts, BaseException):
            self.last_error = _told(facts)
            return
        for worker, each in enumerate(returned):
            if isinstance(each, BaseException) and not (flags & _SKIP_DEAD and _is_death(each)):
                self.last_error = f"set_weights of worker {worker}: {_first_cause(each)}"
                return

    # ---- The other methods.

    def _replace(self, model):
        self.model = model
        self.version += 1
        return self.version

    def pull_weights(self, owed=None):
        """The global weights; None before the first sync."""
        return self.model

    def push_weights(self, weights):
        """Replaces the global weights; returns the new version."""
        leaves = _weight_tree.tensors(weights)
        if not leaves and not isinstance(weights, (list, tuple, dict)):
            raise ValueError("weights must be a list or a dict of tensors")
        self.bytes = sum(_size(leaf) for _, leaf in leaves)
        return self._replace(weights)

    def set_worker_weight(self, worker_id, weight):
        """Sets the weight of a worker."""
        self.worker_weights[worker_id] = weight

    def get_stats(self):
        """Version, number of syncs, strategy, sizes and times."""
        gather, aggregate, scatter = self.times
        return {"version": self.version, "num_syncs": self.syncs, "strategy": type(self.strategy).__name__,
                "initialized": self.version > 0, "bytes": self.bytes, "gather_s": gather, "aggregate_s": aggregate,
                "scatter_s": scatter, "last_error": self.last_error}


def _now_us():
    return time.monotonic_ns() // 1000


def _raise_if(*values):
    """Raises the first error among the results; the deaths of workers count only if they are not skipped."""
    for value in values:
        if isinstance(value, BaseException):
            raise value


def _is_death(error):
    return isinstance(error, _DEAD)


def _chain(error):
    while error is not None:
        yield error
        error = error.__cause__


def _first_cause(error):
    """The text of the first cause, without the call that raised it."""
    cause = list(_chain(error))[-1]
    return getattr(cause, "message_text", str(cause))


def _told(error):
    """The text of the first cause of an error, with the worker if it is known."""
    named = None
    for each in _chain(error):
        named = named or re.fullmatch(r"worker (\d+) (?:failed in \w+|died)", str(each))
    return f"worker {named[1]}: {_first_cause(error)}" if named else _first_cause(error)


def _size(leaf):
    if _weight_tree.is_torch(leaf):
        return leaf.numel() * leaf.element_size()
    return getattr(leaf, "nbytes", 0)


def _in_flavour(leaf, torch_wanted):
    if _weight_tree.is_torch(leaf) == torch_wanted and _weight_tree.is_tensor(leaf):
        return leaf
    import numpy
    if not torch_wanted:  # NumPy turns arrays without dimensions into numbers
        return leaf.detach().cpu().numpy() if _weight_tree.is_torch(leaf) else numpy.asarray(leaf)
    import torch
    return torch.as_tensor(numpy.asarray(leaf))


def _matched(worker, found, first, path, leaf):
    if path not in found:
        raise ValueError(f"worker {worker} has no tensor {path}, which worker {first} has")
    kinds = [f"{str(each.dtype).replace('torch.', '')}{list(each.shape)}" for each in (found[path], leaf)]
    if kinds[0] != kinds[1]:
        named = f"tensor {path}" if path else "the model"
        raise ValueError(f"{named} of worker {worker} is {kinds[0]}, that of worker {first} is {kinds[1]}")
    return _in_flavour(found[path], _weight_tree.is_torch(leaf))
