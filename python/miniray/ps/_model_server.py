"""The server of strategies that are written in Python: an actor with the methods of the native one (described in
src/train/model_server.h).

The server survives its process, as the native one does: `_core.state_set` keeps facts, the model and the state of the
strategy (`get_state`) before a change is answered, and the next process continues from them. `aggregate` returns the
state that the strategy has after it, and `publish` makes that state the strategy's: an aggregation that is not published
leaves no trace.
"""

import copy
import pickle
import re
import struct
import time
import uuid
import warnings
from numbers import Number

from miniray import _core, exceptions
from miniray._core_api import local_mode as _local_mode
from miniray._weights import _weight_tree

SKIP_DEAD, _TRIES = 1, 2  # _TRIES: the result is not published, so the strategy's state stays as it is
_AGGREGATION, _STATE = 4, 5  # in what `aggregate` returns about itself, of a strategy with get_state
_FORMAT = 1  # of the facts
_CALLERS_MAX = 64  # the caller whose last change is the oldest is forgotten
_FACTS = "version", "syncs", "bytes", "times", "worker_weights", "last_error", "callers", "warned"
_NOTHING = b""  # a part without a value: no model yet, or a strategy without get_state
_AS_IT_IS = None  # a part that does not change; a number: that argument of the running call
_LAST = -1  # a call with options for retries has one more argument, before the others
_DEAD = (exceptions.ActorDiedError, exceptions.WorkerCrashedError)


class Server:
    """The actor that runs a strategy."""

    def __init__(self, strategy, checkpoints=None):
        self.strategy = strategy
        self.worker_weights = {}
        self.version = self.syncs = self.bytes = 0
        self.model = self.last_error = None
        self.times = (0.0, 0.0, 0.0)
        self.callers = {}  # of a process: number and answer of its last call that changed the model
        self.warned = False
        self.aggregation = None  # the last one, if its state is the strategy's and is not published
        self.has_state = hasattr(strategy, "get_state") and hasattr(strategy, "set_state")
        self.strategy_state = copy.deepcopy(strategy.get_state()) if self.has_state else None  # the published one
        self.lasts = not _local_mode.is_on()
        self.saver = None
        if self.lasts:
            _core.give_arrays()
            self._recall(checkpoints)
        if checkpoints and checkpoints.folder:
            self.saver = _core.checkpoint_saver(checkpoints.folder, checkpoints.every)
            if self.version > 0:
                self._offer()

    # ---- What the next process continues from.

    def _keep(self, model=_AS_IT_IS, strategy=_AS_IT_IS, **changes):
        """Makes the changes, when the next process is sure to see them."""
        facts = {name: changes.get(name, getattr(self, name)) for name in _FACTS}
        if self.lasts:
            _core.state_set((pickle.dumps((_FORMAT, facts)), model, strategy))
        self.__dict__.update(facts)

    def _recall(self, checkpoints):
        """Continues from what the last process has kept, else from a checkpoint."""
        parts = _core.state_get()
        if not parts:
            self._begin(checkpoints)
            return
        format_number, facts = pickle.loads(parts[0])
        if format_number != _FORMAT:
            raise ValueError(f"the state of a model server has format {format_number}, not {_FORMAT}")
        self.__dict__.update(facts)
        if self.version > 0:
            self.model = parts[1]
        if self.has_state and parts[2] != _NOTHING:
            self.strategy_state = pickle.loads(parts[2]) if isinstance(parts[2], bytes) else parts[2][_STATE]
        if self.has_state:
            self.strategy.set_state(copy.deepcopy(self.strategy_state))
        elif vars(self.strategy) and not self.warned:
            name = type(self.strategy).__name__
            warnings.warn(f"the server of {name} was restarted: the attributes of the strategy are those of its creation, "
                          f"because {name} has no get_state() and set_state(state)", stacklevel=1)
            self._keep(warned=True)

    def _begin(self, checkpoints):
        """Begins with a checkpoint, or anew; either way the next process continues from here."""
        if checkpoints and checkpoints.sets_aside:
            _core.checkpoint_set_aside(checkpoints.folder)
        if not checkpoints or not checkpoints.restore:
            self._keep(_NOTHING, _NOTHING)
            return
        _, _, _, version, syncs = _core.checkpoint_peek(checkpoints.restore)
        model, lists = _core.checkpoint_read(checkpoints.restore)
        weights, state = _core.get(lists)
        self.model = _core.get(model)
        if self.has_state and state:
            self.strategy_state = pickle.loads(state)
            self.strategy.set_state(copy.deepcopy(self.strategy_state))
        numbers = struct.unpack(f"{len(weights) // 8}d", weights)
        self._keep(model if version > 0 else _NOTHING, state if self.has_state else _NOTHING, version=version, syncs=syncs,
                   bytes=sum(_size(leaf) for _, leaf in _weight_tree.tensors(self.model)) if version > 0 else 0,
                   worker_weights={worker: each for worker, each in enumerate(numbers) if each == each})

    # ---- Checkpoints.

    def _checkpoint(self):
        """What a checkpoint has beside the model."""
        weights = [float("nan")] * (max(self.worker_weights, default=-1) + 1)
        for worker, weight in self.worker_weights.items():
            weights[worker] = weight
        state = pickle.dumps(self.strategy_state) if self.has_state else b""
        return type(self.strategy).__name__, self.version, self.syncs, struct.pack(f"{len(weights)}d", *weights), state

    def _offer(self):
        """Offers the new version to the thread that writes checkpoints."""
        if self.saver is not None:
            _core.checkpoint_offer(self.saver, self._checkpoint())

    def save(self, path):
        """Writes a checkpoint; returns its path."""
        _core.checkpoint_write(path, self._checkpoint())
        return path

    def _repeated(self):
        """The answer of the running call, if the last process has changed the model for it."""
        running = _core.call_number() if self.lasts else None
        number, version = self.callers.get(running[0], (0, None)) if running else (0, None)
        return version if running and running[1] <= number else None

    def _callers_with(self, version):
        running = _core.call_number() if self.lasts else None
        if running is None:
            return self.callers
        callers = {process: line for process, line in self.callers.items() if process != running[0]}
        callers[running[0]] = running[1], version
        return dict(list(callers.items())[-_CALLERS_MAX:])

    # ---- A sync.

    def aggregate(self, flags, owed, began_us, *weights):
        """Combines the weights of the workers; returns the result for each worker, facts, and the model."""
        gathered_us = _now_us()
        raise_if(owed)
        present = {worker: each for worker, each in enumerate(weights) if not isinstance(each, BaseException)}
        if not present:
            raise exceptions.ActorDiedError(f"cannot sync: no worker is alive (0 of {len(weights)})")
        first = next(iter(present))
        lists = self._lists(present, first)
        strategy = self._strategy_as_published()
        if flags & _TRIES:
            strategy = copy.deepcopy(strategy)
        else:
            self.aggregation = uuid.uuid4().bytes
        strategy.worker_weights = dict(self.worker_weights)
        result = strategy.aggregate(lists)
        if not hasattr(result, "__iter__") or isinstance(result, (dict, str)):
            raise TypeError(f"{type(self.strategy).__name__}.aggregate should return a list of tensors, not "
                            f"{type(result).__name__}")
        result = list(result)
        self._check(result, lists[0])
        facts = (began_us, gathered_us, _now_us(), sum(_size(leaf) for leaf in result))
        if self.has_state:
            state = strategy.get_state()
            facts += (self.aggregation, state if self.lasts else copy.deepcopy(state))
        results = list(self._for_each(weights, present, first, result))
        return (*results, facts, results[first])

    def _strategy_as_published(self):
        """The strategy, without the effect of an aggregation that was not published."""
        if self.has_state and self.aggregation is not None:
            self.strategy.set_state(copy.deepcopy(self.strategy_state))
            self.aggregation = None
        return self.strategy

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
        if (version := self._repeated()) is not None:
            return version
        raise_if(owed, facts, result)
        began_us, gathered_us, aggregated_us, size = facts[:_AGGREGATION]
        times = ((gathered_us - began_us) * 1e-6, (aggregated_us - gathered_us) * 1e-6,
                 (_now_us() - aggregated_us) * 1e-6)
        version = self._replace(result, 2, 1 if self.has_state else _AS_IT_IS, bytes=size, times=times,
                                syncs=self.syncs + 1)
        if self.has_state:
            self.strategy_state = facts[_STATE]
            if self.aggregation != facts[_AGGREGATION]:  # of the last process, or before another caller's
                self.strategy.set_state(copy.deepcopy(self.strategy_state))
            self.aggregation = None
        self._offer()
        return version

    def note(self, flags, facts, result, *returned):
        """Records the first error of a sync, if any."""
        error = first_error(flags, facts, returned)
        if error is not None:
            self._keep(last_error=error)

    # ---- The other methods.

    def _replace(self, model, argument, strategy=_AS_IT_IS, **changes):
        """Makes this argument of the running call the next version."""
        version = self.version + 1
        self._keep(argument, strategy, version=version, callers=self._callers_with(version), **changes)
        self.model = model
        return version

    def pull_weights(self, owed=None):
        """The global weights; None before the first sync."""
        return self.model

    def push_weights(self, weights):
        """Replaces the global weights; returns the new version."""
        if (version := self._repeated()) is not None:
            return version
        leaves = _weight_tree.tensors(weights)
        if not leaves and not isinstance(weights, (list, tuple, dict)):
            raise ValueError("weights must be a list or a dict of tensors")
        version = self._replace(weights, _LAST, bytes=sum(_size(leaf) for _, leaf in leaves))
        self._offer()
        return version

    def set_worker_weight(self, worker_id, weight):
        """Sets the weight of a worker."""
        self._keep(worker_weights={**self.worker_weights, worker_id: weight})

    def get_stats(self):
        """Version, number of syncs, strategy, sizes and times."""
        gather, aggregate, scatter = self.times
        return {"version": self.version, "num_syncs": self.syncs, "strategy": type(self.strategy).__name__,
                "initialized": self.version > 0, "bytes": self.bytes, "gather_s": gather, "aggregate_s": aggregate,
                "scatter_s": scatter, "last_error": self.last_error}


def first_error(flags, facts, returned):
    """The text of the first error among the results of a sync; None: there is none."""
    if isinstance(facts, BaseException):
        return _told(facts)
    for worker, each in enumerate(returned):
        if isinstance(each, BaseException) and not (flags & SKIP_DEAD and _is_death(each)):
            return f"set_weights of worker {worker}: {_first_cause(each)}"
    return None


def _now_us():
    return time.monotonic_ns() // 1000


def raise_if(*values):
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
