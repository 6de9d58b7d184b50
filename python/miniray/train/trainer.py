"""Trainers: the epoch loop, its hooks, and the methods that a subclass may override. The library does the rest
(miniray/train.h)."""

import contextlib
import inspect
import os
import time
import warnings

import miniray
from miniray import _core, exceptions
from miniray._core_api import did_you_mean, session as _session, tracebacks
from miniray._core_api.tracebacks import public
from miniray._weights import _weight_tree
from miniray.ps import _old_names, parameter_server, strategies
from miniray.train import arguments, checkpoint
from miniray.train.display import MODES, open_display


@public
class BaseTrainer:
    """Owns the workers and runs the epochs; a subclass implements `create_worker` and overrides what it wants to
    change.

    Nothing is started before `train`. `max_failures` is the number of deaths of workers that are tolerated; `callbacks`
    is a list of Callback; `display` is "auto" (a live line on a terminal, otherwise a line per epoch), "live", "lines"
    or "quiet". `init` has options for `miniray.init`, which `train` calls if the runtime is not running:
    `init={"object_store_memory": 2 << 30}`.
    """

    _needs = ("train_epoch",)  # methods that a worker needs, unless train_epoch is overridden

    def __init__(self, num_workers=4, *, max_failures=0, callbacks=(), display="auto", init=None, **others):
        if others:
            _old_names.refuse(f"{type(self).__name__}()", others, [*inspect.signature(BaseTrainer).parameters][:-1])
        _check_count("num_workers", num_workers, 1)
        _check_count("max_failures", max_failures, 0)
        if display not in MODES:
            raise did_you_mean.one_of("display", display, MODES)
        callbacks = _checked_callbacks(callbacks)
        self.num_workers, self.max_failures = num_workers, max_failures
        self.callbacks, self.display = callbacks, display
        self.workers, self.history, self.interrupted = [], [], False
        self.native = None  # the library's trainer, while there are workers
        self._runtime = None  # address of the runtime of the workers
        self._is_ours = False  # this trainer has started the runtime
        self._init = _checked_init(init)
        self._kwargs, self._display, self._stops, self._time_s, self._said = {}, None, False, 0.0, {}
        self._told = False  # that a train_epoch returned nothing

    # ---- Methods for subclasses.

    def create_worker(self, worker_id, **kwargs):
        """Returns the actor for this worker id. It is called again for a worker that died, if max_failures allows."""
        raise NotImplementedError(f"{type(self).__name__} needs create_worker(self, worker_id, **kwargs), which returns an "
                                  f"actor: MyWorker.remote(worker_id)")

    def train_epoch(self, epoch, **kwargs):
        """Runs one epoch: the average of the results of `train_epoch(epoch)` of all workers."""
        return self._epoch(epoch, sync=False)

    def on_train_start(self, **kwargs):
        """Hook: the workers exist and have their shards."""

    def on_epoch_start(self, epoch, **kwargs):
        """Hook: an epoch is about to begin."""

    def on_epoch_end(self, epoch, result, **kwargs):
        """Hook: an epoch has ended. Changes of `result` go into the history."""

    def on_train_end(self, history, **kwargs):
        """Hook: the training has ended. `train` returns its result, unless that is None."""
        return self._summary(history)

    # ---- Methods for programs.

    def train(self, epochs, **kwargs):
        """Trains and returns the result of on_train_end: {"epochs", "history", "final", "time_s", "sync"}.

        Other keyword arguments are passed to create_worker, to the hooks and, as far as it takes them, to
        load_data_shard; one that none of them takes is a TypeError. Ctrl-C ends the training with what was done:
        "interrupted" is True then.
        """
        _check_count("epochs", epochs, 0)
        self._check_subclass()
        arguments.check(kwargs, self._takers(), f"{type(self).__name__}.train()", ["epochs"])
        self._begin(kwargs)
        began, self.history, self._stops, self.interrupted = time.monotonic(), [], False, False
        self._told = False
        self._display = open_display(self.display, self, epochs)
        try:
            self._loop(epochs, kwargs)
        except KeyboardInterrupt as error:
            if isinstance(error, exceptions.RayTaskError):  # the KeyboardInterrupt of a worker is an ordinary error
                raise
            self.interrupted = True
        finally:
            self._time_s = time.monotonic() - began
            self._display.close()
            self._display = None
            self._tell_the_end(list(self.callbacks))
        given = self.on_train_end(self.history, **kwargs)
        return self._summary(self.history) if given is None else given

    def stop(self):
        """Ends the training after the current epoch; for hooks and callbacks."""
        self._stops = True

    def report(self):
        """Numbers of the training so far: epochs, syncs, failures, train_s, sync_s, epoch_s, slowest, slowest_s,
        fastest_s."""
        if self.native is not None:
            self._said = self.native.report()
        return dict(self._said)

    def get_weights(self):
        """The weights of the first worker."""
        if not self.workers:
            raise RuntimeError("the trainer has no workers: train() creates them, and shutdown() ends them")
        return miniray.get(_method(self, 0, "get_weights").remote())

    def save_checkpoint(self, epoch=None, dir=None):
        """Writes the weights to `checkpoints/epoch-0009.npz` (.pt for torch tensors) and returns the path."""
        epoch = len(self.history) if epoch is None else epoch
        return checkpoint.save_weights(self.get_weights(), os.path.join(dir or "checkpoints", f"epoch-{epoch:04d}"))

    def save_final_model(self, path=None):
        """Writes the weights to `model.npz` (.pt for torch tensors) and returns the path."""
        return checkpoint.save_weights(self.get_weights(), path or "model")

    def plot(self, path="loss.png", fields=None):
        """Plots numbers of the history over the epochs, all of them if none are named. Returns the path."""
        from miniray.train import plot
        return plot.draw(self.history, path, fields)

    def shutdown(self):
        """Ends the workers, and the runtime if this trainer has started it. A second call does nothing."""
        self.report()
        self._drop_workers()
        if self._is_ours and _core.address() == self._runtime:
            miniray.shutdown()
        self._runtime, self._is_ours = None, False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.shutdown()

    # ---- Internals.

    def _check_subclass(self):
        """Checks the subclass before any process is started."""
        if type(self).create_worker is BaseTrainer.create_worker:
            self.create_worker(0)

    def _takers(self):
        """The functions that get the keyword arguments of train(), as far as the program has written them."""
        own = [getattr(type(self), name) for name in ("create_worker", "train_epoch", *_HOOKS)]
        return [function for function in own if function not in _OWN]

    def _begin(self, kwargs):
        if not miniray.is_initialized():
            counts = {} if {"address", "num_workers", "num_cpus"} & set(self._init) else {"num_workers": self.num_workers}
            miniray.init(**counts, **self._init)
            self._is_ours = True
            self._runtime = None
        elif self._init and not self._is_ours:
            warnings.warn(f"init={self._init!r} of {type(self).__name__} has no effect: the runtime is running already",
                          stacklevel=3)
        if self._runtime != _core.address():
            self._drop_workers()
            self._runtime = _core.address()
        self._kwargs = kwargs
        if self.native is None:
            self._open()
        else:
            self._load_all()
        self._said = {}

    def _open(self):
        self.workers = []
        native = _core.Trainer(_Calls(self), self.num_workers, self._interval(), self.max_failures, self._syncs())
        try:
            with _named(native, "load_data_shard"):
                native.start()
        except BaseException:
            self.workers = []
            raise
        self.native = native

    def _load_all(self):
        """Loads the shards of this training; workers of an earlier training are used again."""
        calls = _Calls(self)
        miniray.get([ref for ref in map(calls.load, range(self.num_workers)) if ref is not None])

    def _interval(self):
        return -1

    def _syncs(self):
        return False

    def _drop_workers(self):
        self.native, self.workers = None, []

    def _loop(self, epochs, kwargs):
        self._tell("on_train_start")
        self.on_train_start(**kwargs)
        for epoch in range(epochs):
            self._tell("on_epoch_start", epoch)
            self.on_epoch_start(epoch, **kwargs)
            began = time.monotonic()
            result = self._one_epoch(epoch, kwargs)
            self.history.append(result)
            self._display.epoch(epoch, result, time.monotonic() - began)
            self.on_epoch_end(epoch, result, **kwargs)
            self._tell("on_epoch_end", epoch, result)
            if self._stops:
                break

    def _one_epoch(self, epoch, kwargs):
        while True:
            try:
                result = self.train_epoch(epoch, **kwargs)
                break
            except exceptions.RayActorError:
                if not self._is_overridden() or self.max_failures == 0 or self.native.mend() == 0:
                    raise
        if result is None:
            self._tell_nothing(f"train_epoch of {type(self).__name__}")
        result = {} if result is None else result
        if not isinstance(result, dict):
            raise TypeError(f"train_epoch should return a dict, not {type(result).__name__}")
        return result

    def _tell_nothing(self, who):
        """Warns, once in a training, that a train_epoch has returned nothing."""
        if not self._told:
            self._told = True
            tracebacks.warn(f"{who} returned nothing, so the history has no results of it: return a dict of numbers, such "
                            'as {"loss": 0.5}')

    def _is_overridden(self):
        """Whether the subclass calls the workers itself: then an epoch in which a worker dies is repeated."""
        return type(self).train_epoch not in (BaseTrainer.train_epoch, DataParallelTrainer.train_epoch)

    def _epoch(self, epoch, sync):
        native = self.native
        if native is None:
            raise RuntimeError("train_epoch() was called outside train(): call train()")
        with _named(native, f"epoch {epoch}"):
            return native.epoch(epoch, sync)

    def _tell(self, moment, *args):
        for callback in self.callbacks:
            if self._display is not None:
                self._display.pause()
            getattr(callback, moment)(self, *args)

    def _tell_the_end(self, callbacks):
        """Calls on_train_end of all callbacks, also after one raises, since callbacks close files there."""
        if callbacks:
            try:
                callbacks[0].on_train_end(self, self.history)
            finally:
                self._tell_the_end(callbacks[1:])

    def _summary(self, history):
        summary = {"epochs": len(history), "history": history, "final": history[-1] if history else {},
                   "time_s": self._time_s, "sync": self._sync_summary()}
        return {**summary, "interrupted": True} if self.interrupted else summary

    def _sync_summary(self):
        return {}


_HOOKS = ("on_train_start", "on_epoch_start", "on_epoch_end", "on_train_end")


@public
class DataParallelTrainer(BaseTrainer):
    """The same model in every worker, each with its shard of the data. The strategy of this name (miniray.ps) combines
    their weights every `sync_interval` epochs; `strategy_kwargs` are its options: `momentum=0.9`.

    With `worker_class` no subclass is needed: workers are `worker_class.remote(worker_id, **kwargs)`, with the
    arguments of `train` that its constructor takes.
    """

    _needs = ("train_epoch", "get_weights", "set_weights")

    def __init__(self, num_workers=4, sync_interval=1, sync_strategy="average", *, worker_class=None, max_failures=0,
                 callbacks=(), display="auto", init=None, **strategy_kwargs):
        super().__init__(num_workers, max_failures=max_failures, callbacks=callbacks, display=display, init=init)
        _check_count("sync_interval", sync_interval, 1)
        if worker_class is not None and not (callable(worker_class) or hasattr(worker_class, "remote")):
            raise TypeError(f"worker_class should be a class, not {worker_class!r}")
        own = [*inspect.signature(DataParallelTrainer).parameters][:-1]
        made = strategies.make(sync_strategy, strategy_kwargs, f"{type(self).__name__}()", own)
        self.sync_interval, self.sync_strategy, self.strategy_kwargs = sync_interval, sync_strategy, strategy_kwargs
        self.worker_class, self.param_server = worker_class, None
        self._weights, self._stats, self._strategy_name = {}, None, type(made).__name__
        self._is_newer = False  # the workers have trained since the last sync

    def create_worker(self, worker_id, **kwargs):
        """Creates a worker of `worker_class`."""
        if self.worker_class is None:
            return super().create_worker(worker_id, **kwargs)
        cls = self.worker_class if hasattr(self.worker_class, "remote") else miniray.remote(self.worker_class)
        positional, taken = arguments.taken_by(getattr(cls, "_class", cls), kwargs)
        return cls.remote(*(worker_id,)[:positional], **taken)

    def train_epoch(self, epoch, **kwargs):
        """Runs one epoch, and the sync if it is due: "synced" of the result is True then."""
        return self._epoch(epoch, sync=True)

    def set_worker_weight(self, worker_id, weight):
        """Sets the weight of a worker for the strategy "weighted", such as its number of samples; also before `train`.
        """
        worker_id, weight = parameter_server.checked_weight(worker_id, weight)
        if worker_id >= self.num_workers:
            raise ValueError(f"worker_id is {worker_id}: it must be from 0 to {self.num_workers - 1}")
        self._weights[worker_id] = weight
        if self.param_server is not None:
            miniray.get(self.param_server.set_worker_weight.remote(worker_id, weight))

    def get_sync_stats(self):
        """The statistics of the parameter server: version, num_syncs, strategy, initialized, and times."""
        if self.param_server is not None and miniray.is_initialized() and _core.address() == self._runtime:
            self._stats = miniray.get(self.param_server.get_stats.remote())
        if self._stats is None:
            return {"version": 0, "num_syncs": 0, "strategy": self._strategy_name, "initialized": False}
        return dict(self._stats)

    def get_weights(self):
        """The model of the last epoch: the synced weights or, if the workers have trained since, what a sync would give
        them now; they keep their own weights. Before the first epoch, the weights of the first worker."""
        if self._is_newer and self.workers:
            return miniray.get(parameter_server.combined(self.param_server, self.workers))
        weights = None if self.param_server is None else miniray.get(self.param_server.pull_weights.remote())
        return super().get_weights() if weights is None else weights

    def shutdown(self):
        """Ends the workers and the parameter server, and the runtime if this trainer has started it."""
        if self.param_server is not None and self.workers:
            with contextlib.suppress(exceptions.RayError):
                self.get_sync_stats()
        super().shutdown()

    def _check_subclass(self):
        if type(self).create_worker is DataParallelTrainer.create_worker and self.worker_class is None:
            self.create_worker(0)
        super()._check_subclass()

    def _open(self):
        self.param_server = parameter_server.create_parameter_server(self.sync_strategy, **self.strategy_kwargs)
        miniray.get([self.param_server.set_worker_weight.remote(*pair) for pair in sorted(self._weights.items())])
        super()._open()

    def _one_epoch(self, epoch, kwargs):
        result = super()._one_epoch(epoch, kwargs)
        self._is_newer = result.get("synced") is not True
        return result

    def _takers(self):
        if self.worker_class is None or type(self).create_worker is not DataParallelTrainer.create_worker:
            return super()._takers()
        cls = getattr(self.worker_class, "_class", self.worker_class)
        return [*super()._takers(), cls, getattr(cls, "load_data_shard", None)]

    def _drop_workers(self):
        super()._drop_workers()
        self.param_server, self._is_newer = None, False

    def _interval(self):
        return self.sync_interval

    def _syncs(self):
        return True

    def _sync_summary(self):
        return {**self.get_sync_stats(), "sync_s": self.report().get("sync_s", 0.0)}


_OWN = {getattr(cls, name) for cls in (BaseTrainer, DataParallelTrainer) for name in ("create_worker", "train_epoch", *_HOOKS)}


class _Calls:
    """The callbacks of the library's trainer (python/native/py_train.h)."""

    def __init__(self, trainer):
        self._trainer = trainer

    def create(self, worker_id):
        trainer = self._trainer
        worker = trainer.create_worker(worker_id, **trainer._kwargs)
        if not isinstance(worker, miniray.ActorHandle):
            raise TypeError(f"create_worker should return an actor (MyWorker.remote(…)), not {type(worker).__name__}")
        trainer.workers[worker_id : worker_id + 1] = [worker]
        if not trainer._is_overridden():
            for name in trainer._needs:
                _method(trainer, worker_id, name)

    def load(self, worker_id):
        trainer = self._trainer
        method = getattr(trainer.workers[worker_id], "load_data_shard", None)
        if method is None:
            return None
        return method.remote(worker_id, trainer.num_workers, **arguments.taken_by_method(method, trainer._kwargs))

    def train(self, worker_id, epoch):
        return _method(self._trainer, worker_id, "train_epoch").remote(epoch)

    def returned_nothing(self):
        self._trainer._tell_nothing("train_epoch of a worker")

    def alive(self, worker_id):
        return self._trainer.workers[worker_id].__ray_ready__.remote()

    def gather(self, worker_id):
        return parameter_server.copied_weights(self._trainer.workers[worker_id])

    def sync(self, weights):
        trainer = self._trainer
        return trainer.param_server.sync_from_workers.remote(trainer.workers, weights=weights)

    def restore(self, worker_id):
        trainer = self._trainer
        weights, worker = trainer.param_server.pull_weights.remote(), trainer.workers[worker_id]
        pulled = miniray.get(weights)
        leaves = _weight_tree.leaves(pulled)
        if leaves is not pulled or any(leaf.ndim == 0 for leaf in leaves):  # the weights are no flat list of arrays
            with contextlib.suppress(exceptions.RayError):  # a failure here repeats in the next call
                # This call makes the worker record the types of its weights.
                miniray.get(parameter_server.copied_weights(worker))
        if pulled is None:
            return None
        name = "__ray_set_weights__" if hasattr(worker, "__ray_set_weights__") else "set_weights"
        return _method(trainer, worker_id, name).remote(weights)

    def poll(self, done):
        if self._trainer._display is not None:
            self._trainer._display.tick(done)
        return True


@contextlib.contextmanager
def _named(native, what):
    """Adds the worker's call to errors that are raised inside."""
    try:
        yield
    except Exception as error:
        with contextlib.suppress(Exception):
            if native.failed_worker is not None:
                error.add_note(f"in worker {native.failed_worker}, {what}")
        raise


def _checked_callbacks(callbacks):
    if not hasattr(callbacks, "__iter__"):
        raise TypeError(f"callbacks should be a list, not {callbacks!r}")
    callbacks = list(callbacks)
    for callback in callbacks:
        if isinstance(callback, type) or not hasattr(callback, "on_train_end"):
            raise TypeError(f"a callback should be an object such as EarlyStopping('loss'), not {callback!r}")
    return callbacks


def _checked_init(options):
    """The options for `miniray.init`, checked before any process is started."""
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise TypeError(f"init should be a dict of options for miniray.init, not {options!r}")
    known = inspect.signature(miniray.init).parameters
    for name in options:
        if name not in known and name not in _session.WITHOUT_EFFECT and not str(name).startswith("_"):
            listed = f"; it takes {', '.join(list(known)[:-1])}"
            raise TypeError(f"init has an option {name!r} that miniray.init does not take"
                            + (did_you_mean.hint(name, list(known)[:-1]) or listed))
    return dict(options)


def _check_count(name, value, least):
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise ValueError(f"{name} should be a whole number of at least {least}, not {value!r}")


def _method(trainer, worker_id, name):
    worker = trainer.workers[worker_id]
    try:
        return getattr(worker, name)
    except AttributeError:
        raise AttributeError(f"worker {worker_id} of {type(trainer).__name__}, {worker!r}, has no method {name}; a worker "
                             f"needs {', '.join(trainer._needs)}") from None
