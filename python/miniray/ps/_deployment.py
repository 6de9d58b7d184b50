"""A parameter server on this machine: one scheduler and some servers, native code in processes of their own."""

from __future__ import annotations

import os
import weakref
from typing import Any

from miniray import _core
from miniray._core_api import options as _options
from miniray.ps._connection import TIMEOUT_S, Connection, connect, seconds
from miniray.ps._local_processes import Local
from miniray.ps._deployment_options import shape_of

_SLOTS = 16
_PIDS_S = 2.0


def start(servers: int = 2, replicas: int = 1, workers: int = 1, consistency: str = "asp", slots: int = _SLOTS,
          folder: str | os.PathLike | None = None, checkpoint_every: float | None = None,
          mixed: bool = False, balance_every: float | None = None, backup: int = 0,
          deadline: float | None = None, *, actors: bool | None = None, num_cpus: float | None = None,
          resources: dict[str, float] | None = None) -> Deployment:
    """Starts a parameter server on this machine.

    servers           processes that keep the tables; one that dies is started again
    replicas          servers that have a copy of each part of the tables: 2 survive any one death without a loss
    workers           how many ranks there are
    consistency       "asp": nobody waits; "ssp:S": nobody is more than S steps ahead; "bsp": all do a step together, and
                      the bits at the end do not depend on who dies. Of tables that name none
    slots             parts that every table is cut into; in BSP each takes 15 MB of pushes in a step
    folder            where checkpoints and what the scheduler knows are kept: started again with it, and the same
                      workers, slots and consistency, the tables are as the last one left them; None: nowhere
    checkpoint_every  seconds
    mixed             tables of "bsp" beside tables of "ssp:S" and "asp": each has its own slots, so there are twice as
                      many
    balance_every     seconds: so often slots may move from servers that carry too much, and hot ones get copies for
                      reading; None: 5, 0: never
    backup            of "bsp": a step is over when all workers but so many have ended it. What the late ones push in it
                      is left out (StaleError, for who asks); they go on with the step of the others
    deadline          of "bsp", seconds: so long after the first has ended a step it is over, without those that are late
    actors            True: scheduler and servers are actors of the runtime, which is started if need be. Its node starts
                      again who dies, and `miniray list actors`, `status`, `why` and `logs` show them; False: they are
                      children of a process of their own, which does that; None: actors after `init()`
    num_cpus          of each server that is an actor: what the node sets aside for it; and so with `resources`

    Everything ends with this process, whatever ends it; or by `stop()`, or a `with` block. What is an actor ends with
    `shutdown()`, too.
    """
    shape = shape_of(servers, replicas, workers, consistency, slots, folder, checkpoint_every, mixed, balance_every,
                     backup, deadline)
    needs = _options.amount("num_cpus", num_cpus), 0.0, _options.resources(resources)
    if actors is None:
        actors = _core.is_initialized()
    if not actors and (needs[0] or needs[2]):
        raise ValueError("num_cpus and resources are for servers that are actors: call init() first, or say actors=True")
    keeper = _as_actors(shape, needs) if actors else Local(shape)
    return Deployment(keeper.address, keeper)


def _as_actors(shape, needs):
    return _core.ps_start(None, shape.folder, shape.servers, shape.replicas, shape.workers, shape.slots,
                          shape.consistency, shape.staleness, shape.mixed, shape.checkpoint, shape.balance,
                          shape.backup, shape.deadline, needs, TIMEOUT_S)


class Deployment:
    """What `start()` gives. It may be passed to tasks and actors: there it is the address, and ends nothing."""

    def __init__(self, address: str, keeper: Any = None):
        self.address = address
        self._keeper = keeper  # which ends them, and knows their processes
        if keeper is not None:
            self._end = weakref.finalize(self, keeper.stop)

    def __repr__(self):
        return f"Deployment({self.address!r})"

    def __reduce__(self):
        return Deployment, (self.address,)

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *error) -> None:
        self.stop()

    def connect(self, rank: int | None = None, *, timeout: float = TIMEOUT_S) -> Connection:
        """A connection as the worker of that rank."""
        return connect(self.address, rank, timeout=timeout)

    def chart(self, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        """Where everything is: the servers by number, which of them have each slot, and which slots are hot."""
        return _core.ps_chart(self.address, seconds(timeout))

    def board(self, timeout: float = TIMEOUT_S) -> list[dict[str, Any]]:
        """How every process stands: role, number, step, load, memory, and what it reports."""
        return _core.ps_board(self.address, seconds(timeout))

    def overview(self, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        """Tables with what is in them; checkpoints, and trouble with them; what is awaited, if nothing goes on."""
        return _core.ps_overview(self.address, seconds(timeout))

    def checkpoint(self, timeout: float = TIMEOUT_S) -> int:
        """Makes a checkpoint now, and waits for it: all that was acknowledged before is in it. Its number.

        In BSP it is cut when a step ends, so a worker in the middle of one would wait for itself."""
        return _core.ps_checkpoint(self.address, seconds(timeout))

    def pids(self) -> dict[str | int, int]:
        """The processes: {"scheduler": pid, 0: pid of server 0, …}."""
        return self._keeper.pids(_PIDS_S) if self._keeper is not None else {}

    def stop(self) -> None:
        """Ends the scheduler and the servers. Again, or where it was passed to: nothing happens."""
        if self._keeper is not None:
            self._end()
