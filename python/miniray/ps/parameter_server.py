"""The handle of a parameter server, and what starts one."""

import operator
import warnings

from miniray import _core, exceptions
from miniray._core_api import local_mode as _local_mode, options as _options
from miniray._weights import _shared_model, _weight_tree
from miniray.ps import _model_server, strategies


def create_parameter_server(strategy="average", **kwargs):
    """Starts a server with the strategy of that name (`STRATEGIES` lists them) and its options.

    Built-in strategies run in C. A strategy of the user's own, found in `STRATEGIES` under its name, travels to the
    server by value and runs there in Python.
    """
    return ParameterServer.remote(strategy, **kwargs)


class ParameterServer:
    """The handle of a server; it may be passed to tasks and actors.

        ps.sync_from_workers.remote(workers, on_dead="raise")   the new version, when every worker has the new weights
        ps.pull_weights.remote()                                the global weights; None before the first sync
        ps.push_weights.remote(weights)                         these are the global weights from now on
        ps.get_stats.remote()                                   version, num_syncs, strategy, initialized, …
        ps.set_worker_weight.remote(worker_id, weight)          of the weighted strategy, and of the user's own

    Each returns an ObjectRef at once. `ParameterServer.remote('average')` starts one.
    """

    def __init__(self, *args, **kwargs):
        raise TypeError("Actors cannot be instantiated directly. Instead of 'ParameterServer()', use "
                        "'ParameterServer.remote()'.")

    @classmethod
    def remote(cls, strategy="average", **kwargs):
        return _start({}, strategy, kwargs)

    @classmethod
    def options(cls, **options):
        """The same with options of actors: `ParameterServer.options(name='ps').remote('average')`."""
        return _WithOptions(options)

    def __repr__(self):
        return f"ParameterServer({self._label}, {self._actor.__actor_id__})"

    def __reduce__(self):
        return _handle, (self._actor, self._label, self._weighs, self._native)

    def __eq__(self, other):
        return isinstance(other, ParameterServer) and self._actor == other._actor

    def __hash__(self):
        return hash(self._actor)

    @property
    def sync_from_workers(self):
        return _Method(self, "sync_from_workers", _sync)

    @property
    def pull_weights(self):
        return _Method(self, "pull_weights", _pull)

    @property
    def push_weights(self):
        return _Method(self, "push_weights", _push)

    @property
    def get_stats(self):
        return _Method(self, "get_stats", _stats)

    @property
    def set_worker_weight(self):
        return _Method(self, "set_worker_weight", _set_weight)


class _WithOptions:
    def __init__(self, options):
        self._given = options

    def remote(self, strategy="average", **kwargs):
        return _start(self._given, strategy, kwargs)


class _Method:
    """A method of the handle, as those of actors are."""

    def __init__(self, server, name, function):
        self._server, self._name, self._function = server, name, function

    def remote(self, *args, **kwargs):
        return self._function(self._server, *args, **kwargs)

    def __call__(self, *args, **kwargs):
        raise TypeError(f"Actor methods cannot be called directly. Instead of running 'object.{self._name}()', try "
                        f"'object.{self._name}.remote()'.")

    def __repr__(self):
        return f"ActorMethod(ParameterServer.{self._name})"


def _handle(actor, label, weighs, native):
    made = object.__new__(ParameterServer)
    made._actor, made._label, made._weighs, made._native = actor, label, weighs, native
    return made


def _start(options, strategy, kwargs):
    made = strategies.make(strategy, kwargs)
    label, builtin = type(made).__name__, strategies.is_builtin(made)
    native = builtin and not _local_mode.is_on()
    if native:
        actor = _core.model_server(*made._native(), _options.actor_options(options))
    else:
        from miniray import remote
        actor = remote(_model_server.Server).options(**options).remote(made)
    return _handle(actor, label, not builtin or isinstance(made, strategies.WeightedStrategy), native)


# ---- The methods.


def _sync(server, workers, on_dead="raise", *, weights=None):
    """`weights`: what copied_weights has given of each worker, if they were asked for already."""
    if on_dead not in ("raise", "skip"):
        raise ValueError(f"on_dead is {on_dead!r}: 'raise' or 'skip'")
    if not hasattr(workers, "__iter__"):
        raise TypeError(f"the workers should be a list of actors, not {workers!r}")
    workers = list(workers)
    if not workers:
        raise ValueError("there are no workers to sync")
    own = _core.have_methods(workers, _PYTHONS) or _are_pythons(workers)
    if _local_mode.is_on():
        return _sync_here(server._actor, workers, on_dead == "skip")
    return _core.model_sync(server._actor, workers, on_dead == "skip", *_methods(server, workers, own), weights)


def _methods(server, workers, own):
    """What is called of the workers. What a worker lends is for one reader, so one that is there twice sends copies."""
    if not own:
        return None, None
    lends = server._native and len(frozenset(workers)) == len(workers)
    return "__ray_lend_weights__" if lends else "__ray_get_weights__", "__ray_set_weights__"


_PYTHONS = ("get_weights", "set_weights", "__ray_get_weights__")


def _are_pythons(workers):
    """Whether all are actors of Python; raises where one is none that can be synced."""
    own = True
    for number, worker in enumerate(workers):
        if not isinstance(worker, _core.ActorHandle):
            raise TypeError(f"worker {number} is no actor: {worker!r}")
        for name in ("get_weights", "set_weights"):
            if not hasattr(worker, name):
                raise AttributeError(f"worker {number}, {worker!r}, has no method {name}")
        own = own and hasattr(worker, "__ray_get_weights__")
    return own


def copied_weights(worker):
    """A reference to the weights of a worker, as a sync takes them; also if its model is shared."""
    return getattr(worker, "__ray_get_weights__" if hasattr(worker, "__ray_get_weights__") else "get_weights").remote()


def _sync_here(actor, workers, skip):
    """The same calls in local mode, where each has ended when it returns."""
    dead = [skip and _local_mode.is_dead(worker) for worker in workers]
    weights = [exceptions.ActorDiedError("it is dead") if gone else worker.__ray_get_weights__.remote()
               for worker, gone in zip(workers, dead)]
    *results, facts, model = actor.aggregate.options(num_returns=len(workers) + 2).remote(0, None, 0, *weights)
    returned = [worker.__ray_set_weights__.remote(result)
                for worker, result, gone in zip(workers, results, dead) if not gone]
    return actor.publish.remote(None, facts, model, *returned)


def _pull(server):
    return server._actor.pull_weights.remote() if _local_mode.is_on() else _core.model_pull(server._actor)


def _push(server, weights):
    if not isinstance(weights, _core.ObjectRef):
        weights = _shared_model.known(weights) if server._native else _weight_tree.plain(weights)
        if not isinstance(weights, (list, tuple, dict)) and not _weight_tree.is_tensor(weights):
            raise ValueError(f"weights are a list or a dict of tensors, not {type(weights).__name__}")
    return server._actor.push_weights.remote(weights)


def _stats(server):
    return server._actor.get_stats.remote()


def checked_weight(worker_id, weight):
    """Both as the library takes them; raises where they cannot be."""
    if isinstance(worker_id, bool) or not hasattr(worker_id, "__index__") or worker_id < 0:
        raise ValueError(f"worker_id is {worker_id!r}: the worker's place in the list, from 0")
    weight = float(weight)
    if weight != weight or weight in (float("inf"), float("-inf")):
        raise ValueError(f"the weight of worker {worker_id} is {weight}")
    return operator.index(worker_id), weight


def _set_weight(server, worker_id, weight):
    worker_id, weight = checked_weight(worker_id, weight)
    if not server._weighs:
        warnings.warn(f"the strategy is {server._label}: the weight of worker {worker_id} has no effect", stacklevel=3)
        return _core.put(None)
    return server._actor.set_worker_weight.remote(worker_id, weight)
