"""A parameter server on this machine: one scheduler and some servers, native code in processes of their own."""

from __future__ import annotations

import inspect
import os
import weakref
from typing import Any

from miniray import _core
from miniray._core_api import options as _options
from miniray._core_api.tracebacks import public
from miniray.ps import _deployment_options, _old_names
from miniray.ps._connection import TIMEOUT_S, Connection, connect, seconds
from miniray.ps._local_processes import LocalProcesses

_PIDS_S = 2.0


@public
def start(num_servers: int = 2, replicas: int = 1, num_workers: int = 1, consistency: str = "asp",
          slots: int | None = None, checkpoint_dir: str | os.PathLike | None = None, checkpoint_every: float | None = None,
          mixed_consistency: bool = False, balance_every: float | None = None, backup_workers: int = 0,
          deadline: float | None = None, readers: int = 0, *, actors: bool | None = None, num_cpus: float | None = None,
          resources: dict[str, float] | None = None, **others: Any) -> Deployment:
    """Starts a parameter server on this machine.

    num_servers       processes that store the tables; a server that dies is started again
    replicas          servers that have a copy of each slot: with 2, any one of them may die without a loss
    num_workers       number of ranks
    consistency       of tables that name none: "asp" (no rank waits), "ssp:S" (no rank is more than S steps ahead) or "bsp"
                      (all ranks do a step together, and the final bits do not depend on deaths)
    slots             parts into which every table is divided; None: as many as `checkpoint_dir` has, 16 in a new one.
                      Another number than that of a deployment that was stopped distributes its tables anew
    checkpoint_dir    folder of the checkpoints and of the scheduler's state. Started again with it and the same
                      num_workers and consistency, the tables are as the last deployment left them; None: no folder
    checkpoint_every  seconds between two checkpoints; None: only on request
    mixed_consistency allows tables of "bsp" beside tables of "ssp:S" and "asp". Each kind has its own slots, so there are
                      twice as many
    balance_every     seconds between two decisions to move slots from overloaded servers, and to add read replicas of hot
                      ones; None: 5, 0: never
    backup_workers    of "bsp": a step ends when all workers but this number have ended it. The pushes of late workers are
                      left out (StaleError, if they wait for the ticket); they continue with the step of the others
    deadline          of "bsp", seconds: a step ends this long after its first worker has ended it, without late workers
    readers           connections that only pull (`connect(reader=True)`) that may exist at once
    actors            True: scheduler and servers are actors of the runtime, which is started if necessary. Its node
                      restarts those that die, and `miniray list actors`, `status`, `why` and `logs` show them; False: they
                      are children of a supervisor process, which restarts them; None: actors after `init()`
    num_cpus          CPUs that the node reserves for each server that is an actor; the same holds for `resources`

    Everything ends with this process, however it ends; with `stop()`; or at the end of a `with` block. Actors also end with
    `shutdown()`.
    """
    if others:
        _old_names.refuse("start()", others, [*inspect.signature(start).parameters][:-1])
    options = _deployment_options.checked(num_servers, replicas, num_workers, consistency, slots, checkpoint_dir,
                                          checkpoint_every, mixed_consistency, balance_every, backup_workers, deadline, readers)
    needs = _options.amount("num_cpus", num_cpus), 0.0, _options.resources(resources)
    if actors is None:
        actors = _core.is_initialized()
    if not actors and (needs[0] or needs[2]):
        raise ValueError("num_cpus and resources are for servers that are actors: call init() first, or say actors=True")
    supervisor = _Actors(options, needs) if actors else LocalProcesses(options)
    return Deployment(supervisor.address, supervisor)


class _Actors:
    """The actors of a deployment, which the node runs."""

    def __init__(self, options, needs):
        self._native = _core.ps_start(None, *options, needs, TIMEOUT_S)
        self.address, self.pids, self.stop = self._native.address, self._native.pids, self._native.stop


@public
class Deployment:
    """A parameter server that `start()` has started. In a task or an actor that receives it, the object has the address
    and ends nothing."""

    __getattr__ = _old_names.attributes(chart="cluster_map", board="processes")

    def __init__(self, address: str, supervisor: Any = None):
        self.address = address
        self._supervisor = supervisor  # ends and knows the processes; None: this object was passed to another process
        if supervisor is not None:
            self._end = weakref.finalize(self, supervisor.stop)

    def __repr__(self):
        return f"Deployment({self.address!r})"

    def __reduce__(self):
        return Deployment, (self.address,)

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *error) -> None:
        self.stop()

    def connect(self, rank: int | None = None, *, reader: bool = False, timeout: float = TIMEOUT_S) -> Connection:
        """A connection as the worker of that rank, or as a reader, which only pulls."""
        return connect(self.address, rank, reader=reader, timeout=timeout)

    def cluster_map(self, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        """The servers by number, the servers that have each slot, and the slots that are hot."""
        return _core.ps_chart(self.address, seconds(timeout))

    def processes(self, timeout: float = TIMEOUT_S) -> list[dict[str, Any]]:
        """Every process with its role, number, step, load, memory and metrics."""
        return _core.ps_board(self.address, seconds(timeout))

    def overview(self, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        """The tables with their sizes; the checkpoints and their errors; the cause of a stall, if any."""
        return _core.ps_overview(self.address, seconds(timeout))

    def checkpoint(self, timeout: float = TIMEOUT_S) -> int:
        """Creates a checkpoint, waits for it and returns its number. It contains every push that was acknowledged before.

        In BSP it has all steps that every rank has ended. It is taken at the end of a step, or within seconds if no step
        ends because the workers wait, compute or have ended."""
        return _core.ps_checkpoint(self.address, seconds(timeout))

    def pids(self) -> dict[str | int, int]:
        """The process ids: {"scheduler": pid, 0: pid of server 0, …}."""
        return self._supervisor.pids(_PIDS_S) if self._supervisor is not None else {}

    def stop(self) -> None:
        """Ends the scheduler and the servers. A second call, and a call in another process, does nothing."""
        if self._supervisor is not None:
            self._end()
