"""The handle of a parameter server with an optimizer, and the function that starts one."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os

from miniray import _core
from miniray._core_api import api as _api, local_mode as _local_mode
from miniray._core_api.tracebacks import public
from miniray._weights import _weight_tree
from miniray.ps import _deployment, _model_form, _model_requests, _optimizer_options
from miniray.ps._connection import TIMEOUT_S, connect
from miniray.ps._deployment import Deployment
from miniray.ps._model_session import Plan, Session
from miniray.ps.parameter_server import ParameterServer, checked_workers, method

_READERS = 2  # the actor of the handle, and its successor while the first one's place is not free yet
_CONNECTS = 16  # at the same time
_CALLS_MOST = 100_000  # that wait for ranks at the same time
_deployments: dict[str, Deployment] = {}  # those that this process has started, by their addresses


@public
class OptimizerServer(ParameterServer):
    """The handle of a parameter server with an optimizer; it may be passed to tasks, actors and other processes.

        ps.session(rank)                                               a session of this process, as that rank
        ps.sync_from_workers.remote(workers)                           one optimizer step with get_gradients() of each worker,
                                                                       and set_weights() on each; the version
        ps.push_gradients.remote(gradients, worker_id, step=None)      the version that includes the push
        ps.pull_weights.remote(if_newer=None)                          the weights; None if there are no newer ones
        ps.get_stats.remote()                                          version, bytes, skipped, servers, …

    `deployment` is the engine's handle for operators. The servers end with the program that created them, with
    `miniray.kill(ps)`, or at the end of `with create_parameter_server(…) as ps`.
    """

    def __repr__(self):
        return f"ParameterServer({self._plan.table['optimizer']}, {self.deployment.address})"

    def __reduce__(self):
        return _handle, (_Pickled(self._actor), self.deployment, self._plan, self._owner, self._ranks)

    def __eq__(self, other):
        return isinstance(other, OptimizerServer) and self.deployment.address == other.deployment.address

    def __hash__(self):
        return hash(self.deployment.address)

    def _method(self, name, **options):
        return super()._method(name, **options) if self._usable() else None

    def _usable(self):
        if self._actor is None:
            raise RuntimeError("requests of a parameter server need the runtime of the program that created it, and this process "
                               f"({os.getpid()}) is none of its workers: use ps.session(rank)")
        return True

    def __enter__(self) -> OptimizerServer:
        return self

    def __exit__(self, *error) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the servers, in the program that created them."""
        if os.getpid() != self._owner:
            raise ValueError(f"the servers end in the program that created them, which is process {self._owner}: call "
                             "miniray.kill(ps) there")
        deployment = _deployments.pop(self.deployment.address, None)
        if deployment is not None:
            if _core.is_initialized():
                _core.kill(self._actor, True)
            deployment.stop()

    def _kill(self, no_restart):
        if no_restart:
            self.stop()
        else:
            super()._kill(no_restart)

    def session(self, rank: int | None = None, *, timeout: float = TIMEOUT_S) -> Session:
        """A session of this process, as the worker of that rank (see Session); None: the lowest rank that no process has.
        An earlier process of the rank is replaced. `timeout`, in seconds, also applies to every call of the session that
        waits."""
        return Session(connect(self.deployment.address, rank, timeout=timeout), self._plan)

    @method
    def sync_from_workers(self, workers, on_dead="raise"):
        """Makes one optimizer step with the gradients of all workers, of which the first is rank 0, and gives the new weights
        to all of them: get_gradients() and set_weights() of each; the version. With `on_dead="skip"` dead workers are left
        out."""
        workers = checked_workers(workers, on_dead)
        self._usable()
        for number, worker in enumerate(workers):
            for name in ("get_gradients", "set_weights"):
                if not hasattr(worker, name):
                    raise AttributeError(f"worker {number}, {worker!r}, has no method {name}: with an optimizer a worker needs "
                                         "get_gradients and set_weights")
        return _core.model_sync(self._actor, workers, on_dead == "skip", "get_gradients", "set_weights", None)

    @method
    def push_gradients(self, gradients, worker_id, step=None):
        """Pushes gradients as the rank `worker_id`: a list or a dict of arrays like the model. The version that includes them,
        when the step has ended. A repeated push of the same step counts once; without `step` each call is another push."""
        if isinstance(worker_id, bool) or not isinstance(worker_id, int) or not 0 <= worker_id < self._ranks:
            raise ValueError(f"worker_id is {worker_id!r}: it must be a rank, from 0 to {self._ranks - 1}")
        if not isinstance(gradients, _core.ObjectRef):
            gradients = _weight_tree.plain(gradients)
        return self._method("push_gradients").remote(gradients, worker_id, step)

    @method
    def pull_weights(self, if_newer=None):
        """The weights, a dict or a list like the model; None if there are none yet, or no newer ones than the version
        `if_newer`."""
        return _core.model_pull(self._actor) if if_newer is None and self._usable() else self._method("pull_weights").remote(None, if_newer)

    @method
    def push_weights(self, weights):
        """Raises ValueError: gradients change the weights."""
        raise ValueError("a parameter server with an optimizer changes its weights by gradients: pass the first weights as "
                         "model=, or by session.push_weights(model) of rank 0")

    @method
    def set_worker_weight(self, worker_id, weight):
        """Raises ValueError: the gradients of all ranks have the same weight."""
        raise ValueError("weights of workers need a strategy, such as create_parameter_server('weighted')")

    @method
    def save(self, path):
        """Raises ValueError: checkpoints are in the checkpoint_dir."""
        raise ValueError("save() needs a strategy; with an optimizer pass checkpoint_dir=, or call ps.deployment.checkpoint()")


def _handle(actor, deployment, plan, owner, ranks):
    made = object.__new__(OptimizerServer)
    made._actor, made.deployment, made._plan, made._owner, made._ranks = actor, deployment, plan, owner, ranks
    made._retries = -1
    return made


class _Pickled:
    """The actor of a handle, as it is pickled: None where there is no runtime."""

    def __init__(self, actor):
        self.actor = actor

    def __reduce__(self):
        return (_found, (None, ())) if self.actor is None else (_found, self.actor.__reduce__()[:2])


def _found(function, args):
    try:
        return None if function is None else function(*args)
    except TypeError:
        return None


def _set_weights(address, plan, model, ranks, timeout):
    """Sets the first weights, as the first processes of these ranks do: rank 0 sets them in the first step, which in BSP all
    ranks end. A deployment that continues from a checkpoint has weights."""
    with connect(address, reader=True, timeout=timeout) as reader:
        if _model_requests.tables_of(reader) is not None:
            return
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(_CONNECTS) as pool:
        for other in pool.map(lambda rank: connect(address, rank, timeout=timeout), range(1, ranks)):
            stack.enter_context(contextlib.closing(other))
            other.begin()
            other.end()
        session = Session(connect(address, 0, timeout=timeout), plan)
        stack.enter_context(contextlib.closing(session))
        session.push_weights(model)
        session.begin()


def start(actor_options, optimizer, *, lr=None, model=None, buffers=(), num_workers=None, consistency=None, num_servers=2,
          replicas=None, checkpoint_dir=None, checkpoint_every=None, resume=True, timeout=TIMEOUT_S, **kwargs):
    """Starts the servers, and the actor that makes the requests of the handle."""
    from miniray import remote
    if _local_mode.is_on():
        raise ValueError("an optimizer needs servers: local mode has no processes; call init() without local_mode=True")
    table = _optimizer_options.table(optimizer, lr, kwargs)
    kind = _optimizer_options.consistency_of(consistency)
    ranks = _optimizer_options.ranks_of(num_workers, kind)
    form = None if model is None else _model_form.form_of(model, buffers)
    _api.auto_init()
    deployment = _deployment.start(
        num_servers, min(2, num_servers) if replicas is None else replicas, ranks, kind,
        _optimizer_options.slots_for(None if form is None else form.bytes, num_servers), checkpoint_dir, checkpoint_every,
        readers=_READERS, actors=True)
    plan = Plan(table, form, tuple(buffers))
    if model is not None:
        _set_weights(deployment.address, plan, model, ranks if kind == "bsp" else 1, timeout)
    options = {"max_restarts": -1, "max_task_retries": -1, "num_cpus": 0, "max_concurrency": _CALLS_MOST, **actor_options}
    actor = remote(_model_requests.Requests).options(**options).remote(deployment.address, plan, ranks, kind == "bsp", timeout)
    _deployments[deployment.address] = deployment
    return _handle(actor, deployment, plan, os.getpid(), ranks)
