"""The handle of a parameter server for models, and the function that starts one."""

import functools
import operator
import types
import warnings

from miniray import _core, exceptions
from miniray._core_api import did_you_mean, local_mode as _local_mode, options as _options
from miniray._core_api.tracebacks import public
from miniray._weights import _shared_model, _weight_tree
from miniray.ps import _checkpoints, _model_server, strategies
from miniray.ps.strategies import SyncStrategy


@public
def create_parameter_server(strategy=None, **kwargs):
    """Starts a server with the strategy of this name (`STRATEGIES` lists them, "average" is the default) and its options.

    Built-in strategies run in C. A strategy of the user, found in `STRATEGIES` by its name, is sent to the server by
    value and runs there in Python.

    `checkpoint_dir`: the server saves there, every `checkpoint_every` seconds if the model has changed, and begins with
    the checkpoint that is there; with `resume=False` that one is moved into the folder's folder old-1, old-2, …
    `restore`: the server begins with this checkpoint of `save`; the strategy and its options may be left out.

    With `optimizer`, the name of one, the servers hold the model and apply gradients of the workers to it (docs/models.md):

    optimizer, lr    "sgd" (with momentum, nesterov), "adagrad", "rmsprop", "adam", "adamw", "lamb", "ftrl", and its learning
                     rate; with torch's names of its other options, and schedule, clip_norm, seed
    model            the first weights: a torch module, a dict of arrays (a state_dict) or a list of arrays; None: rank 0 gives
                     them. `buffers`: names of arrays of the dict that are not optimized
    num_workers      number of ranks; required unless the consistency is "async"
    consistency      "sync": all ranks make a step together, with the mean of their gradients; "ssp:S": no rank is more than S
                     steps ahead; "async": no rank waits
    num_servers, replicas   processes that hold the model, and how many of them hold each part [2, 2]
    precision        "bf16" or "fp16" for weights and gradients on the wire; the servers hold float32
    compression      of pushed gradients: "int8", "sign", "topk:0.01", "zstd", "int8+zstd", …
    checkpoint_dir, checkpoint_every   as above, with the state of the optimizer
    """
    return ParameterServer.remote(strategy, **kwargs)


@public
class method:
    """A method of the handle, with `remote` like methods of actors."""

    def __init__(self, function, server=None):
        self._function, self._server = function, server
        self._name, self.__doc__ = function.__name__, function.__doc__

    def __get__(self, server, owner=None):
        return self if server is None else method(self._function, server)

    def remote(self, *args, **kwargs):
        """Calls the method; returns an ObjectRef at once."""
        return self._function(self._server, *args, **kwargs)

    def __call__(self, *args, **kwargs):
        raise TypeError(f"Actor methods cannot be called directly. Instead of running 'object.{self._name}()', try "
                        f"'object.{self._name}.remote()'.")

    def __repr__(self):
        return f"ActorMethod(ParameterServer.{self._name})"


@public
class ParameterServer:
    """The handle of a server; it may be passed to tasks and actors.

        ps.sync_from_workers.remote(workers, on_dead="raise")   the new version, when every worker has the new weights
        ps.pull_weights.remote()                                the global weights; None before the first sync
        ps.push_weights.remote(weights)                         replaces the global weights; the new version
        ps.get_stats.remote()                                   version, num_syncs, strategy, initialized, …
        ps.set_worker_weight.remote(worker_id, weight)          for the weighted strategy, and for the user's own
        ps.save.remote(path)                                    the path, when a checkpoint is on the disk

    Each returns an ObjectRef at once. `ParameterServer.remote('average')` starts a server.
    """

    def __init__(self, *args, **kwargs):
        raise TypeError("Actors cannot be instantiated directly. Instead of 'ParameterServer()', use "
                        "'ParameterServer.remote()'.")

    @classmethod
    def remote(cls, strategy=None, **kwargs):
        """Starts a server, as create_parameter_server does."""
        return _start({}, strategy, **kwargs)

    @classmethod
    def options(cls, **options):
        """The same with options of actors: `ParameterServer.options(name='ps').remote('average')`."""
        return types.SimpleNamespace(remote=functools.partial(_start, options))

    def __repr__(self):
        return f"ParameterServer({self._label}, {self._actor.__actor_id__})"

    def __reduce__(self):
        return _handle, (self._actor, self._label, self._weighs, self._native, self._retries)

    def _method(self, name, **options):
        """A method of the server; a call that is lost with the server's process is sent again, by any caller."""
        return getattr(self._actor, name).options(max_task_retries=self._retries, **options)

    def _kill(self, no_restart):
        """What miniray.kill(ps) does."""
        from miniray import kill
        kill(self._actor, no_restart=no_restart)

    def __eq__(self, other):
        return isinstance(other, ParameterServer) and self._actor == other._actor

    def __hash__(self):
        return hash(self._actor)

    @method
    def sync_from_workers(self, workers, on_dead="raise", *, weights=None):
        """Collects the weights of all workers, combines them, and gives the result to all workers; the new version. With
        `on_dead="skip"` dead workers are left out. `weights` are results of copied_weights, if they were asked for
        already."""
        workers = checked_workers(workers, on_dead)
        own = _core.have_methods(workers, _PYTHONS) or _are_pythons(workers)
        if _local_mode.is_on():
            return _sync_here(self._actor, workers, on_dead == "skip")
        return _core.model_sync(self._actor, workers, on_dead == "skip", *_methods(self, workers, own), weights)

    @method
    def pull_weights(self):
        """The global weights; None before the first sync."""
        return self._method("pull_weights").remote() if _local_mode.is_on() else _core.model_pull(self._actor)

    @method
    def push_weights(self, weights):
        """Replaces the global weights; the new version."""
        if not isinstance(weights, _core.ObjectRef):
            weights = _shared_model.known(weights) if self._native else _weight_tree.plain(weights)
            if not isinstance(weights, (list, tuple, dict)) and not _weight_tree.is_tensor(weights):
                raise ValueError(f"weights must be a list or a dict of tensors, not {type(weights).__name__}")
        return self._method("push_weights").remote(weights)

    @method
    def get_stats(self):
        """Version, number of syncs, strategy, sizes and times, as a dict."""
        return self._method("get_stats").remote()

    @method
    def save(self, path):
        """Writes a checkpoint of the server into this folder; the absolute path, when it is on the disk. A relative path
        is relative to this process. `create_parameter_server(restore=path)` continues from there."""
        path = _checkpoints.absolute("path", path)
        if _local_mode.is_on():
            raise ValueError("checkpoints need processes: local mode has none; call init() without local_mode=True")
        return _core.checkpoint_save(self._actor, path) if self._native else self._method("save").remote(path)

    @method
    def set_worker_weight(self, worker_id, weight):
        """Sets the weight of a worker, by its index in the list of workers."""
        worker_id, weight = checked_weight(worker_id, weight)
        if not self._weighs:
            warnings.warn(f"the strategy is {self._label}: the weight of worker {worker_id} has no effect", stacklevel=3)
            return _core.put(None)
        return self._method("set_worker_weight").remote(worker_id, weight)


def checked_workers(workers, on_dead):
    """The workers of a sync as a list."""
    if on_dead not in ("raise", "skip"):
        raise did_you_mean.one_of("on_dead", on_dead, ("raise", "skip"))
    if not hasattr(workers, "__iter__"):
        raise TypeError(f"the workers should be a list of actors, not {workers!r}")
    workers = list(workers)
    if not workers:
        raise ValueError("sync_from_workers() got an empty list: pass at least one worker")
    return workers


def _handle(actor, label, weighs, native, retries):
    made = object.__new__(ParameterServer)
    made._actor, made._label, made._weighs, made._native, made._retries = actor, label, weighs, native, retries
    return made


def _native_form(made, given, checkpoints):
    """The strategy as the library takes it; an option that was not given is the checkpoint's. An instance gives all."""
    name, momentum, trim = made._native()
    if checkpoints.facts is not None and given is not made:
        momentum, trim = momentum if "momentum" in given else 0.0, trim if "trim" in given else 0.0
    return name, momentum, trim


_OF_OPTIMIZERS = ("consistency", "num_workers", "replicas", "compression", "model", "buffers")


def _is_optimizer(strategy, optimizer):
    """Whether an optimizer is asked for: a name that is both is a strategy."""
    from miniray.ps import _optimizer_options
    return optimizer is not None or (isinstance(strategy, str) and strategy not in strategies.STRATEGIES
                                     and strategy in _optimizer_options.OPTIMIZERS)


def _start(options, strategy=None, *, optimizer=None, **kwargs):
    if not _is_optimizer(strategy, optimizer):
        return _start_strategy(options, strategy, **kwargs)
    from miniray.ps import _optimizer_server
    if optimizer is not None and strategy is not None:
        raise ValueError(f"strategy {strategy!r} and optimizer={optimizer!r}: pass one of them. A strategy combines the weights "
                         "of workers, an optimizer applies their gradients")
    return _optimizer_server.start(options, strategy if optimizer is None else optimizer, **kwargs)


def _start_strategy(options, strategy=None, *, checkpoint_dir=None, checkpoint_every=None, restore=None, resume=True, **kwargs):
    needs = next((name for name in _OF_OPTIMIZERS if name in kwargs), None)
    if needs is not None:
        raise ValueError(f"{needs} needs an optimizer, such as optimizer='adam', lr=0.001: a strategy has no ranks and no "
                         "gradients")
    checkpoints = _checkpoints.read(checkpoint_dir, checkpoint_every, restore, resume)
    given = strategy if isinstance(strategy, SyncStrategy) else kwargs
    if strategy is None:
        strategy = "average" if checkpoints.facts is None else _checkpoints.strategy_of(checkpoints, strategies.STRATEGIES)
    made = strategies.make(strategy, kwargs)
    if checkpoints.facts is not None:
        _checkpoints.check(checkpoints, made)
    label, builtin = type(made).__name__, strategies.is_builtin(made)
    native = builtin and not _local_mode.is_on()
    options = {"max_restarts": -1, "max_task_retries": -1, **options}
    if native:
        actor = _core.model_server(*_native_form(made, given, checkpoints), _options.actor_options(options),
                                   checkpoints.native())
    else:
        from miniray import remote
        actor = remote(_model_server.Server).options(**options).remote(made, checkpoints.for_server())
    return _handle(actor, label, not builtin or isinstance(made, strategies.WeightedStrategy), native,
                   options["max_task_retries"])


# ---- A sync.


def _methods(server, workers, own):
    """The names of the worker methods. A worker exports its weights to one reader, so a worker that is listed twice
    sends copies."""
    if not own:
        return None, None
    lends = server._native and len(frozenset(workers)) == len(workers)
    return "__ray_lend_weights__" if lends else "__ray_get_weights__", "__ray_set_weights__"


_PYTHONS = ("get_weights", "set_weights", "__ray_get_weights__")


def _are_pythons(workers):
    """Whether all workers are Python actors; raises for one that cannot be synced."""
    own = True
    for number, worker in enumerate(workers):
        if not isinstance(worker, _core.ActorHandle):
            raise TypeError(f"worker {number} must be an actor, made with remote(), not {worker!r}")
        for name in ("get_weights", "set_weights"):
            if not hasattr(worker, name):
                raise AttributeError(f"worker {number}, {worker!r}, has no method {name}: a worker needs get_weights "
                                     "and set_weights")
        own = own and hasattr(worker, "__ray_get_weights__")
    return own


def copied_weights(worker):
    """A reference to a copy of a worker's weights, also if its model is shared."""
    return getattr(worker, "__ray_get_weights__" if hasattr(worker, "__ray_get_weights__") else "get_weights").remote()


def _sync_here(actor, workers, skip):
    """A sync in local mode, where each call ends before it returns."""
    dead = [skip and _local_mode.is_dead(worker) for worker in workers]
    weights = [exceptions.ActorDiedError("the worker is dead") if gone else worker.__ray_get_weights__.remote()
               for worker, gone in zip(workers, dead)]
    *results, facts, model = actor.aggregate.options(num_returns=len(workers) + 2).remote(0, None, 0, *weights)
    returned = [worker.__ray_set_weights__.remote(result)
                for worker, result, gone in zip(workers, results, dead) if not gone]
    return actor.publish.remote(None, facts, model, *returned)


_TRIES = 2  # a flag of `aggregate` (_model_server.py)


def combined(server, workers):
    """A reference to what a sync of the workers would give them now. Neither the server nor a worker changes."""
    weights = [copied_weights(worker) for worker in workers]
    method = server._method("aggregate", num_returns=len(workers) + 2)
    return method.remote(0 if server._native else _TRIES, None, 0, *weights)[-1]


def checked_weight(worker_id, weight):
    """The worker id and the weight, checked."""
    if isinstance(worker_id, bool) or not hasattr(worker_id, "__index__") or worker_id < 0:
        raise ValueError(f"worker_id is {worker_id!r}: it must be the worker's place in the list, from 0")
    try:
        number = float(weight)
    except (TypeError, ValueError):
        raise TypeError(f"the weight of worker {worker_id} must be a number, not {weight!r}") from None
    if not -float("inf") < number < float("inf"):
        raise ValueError(f"the weight of worker {worker_id} is {number}: it must be finite")
    weight = number
    return operator.index(worker_id), weight
