"""A parameter server on this machine: one scheduler and some servers, which are native processes (`miniray ps local`)."""

from __future__ import annotations

import os
import subprocess
import tempfile
import weakref
from typing import Any

import miniray
from miniray import _core
from miniray.ps._connection import TIMEOUT_S, Connection, connect, seconds
from miniray.ps.errors import PsError

_COMMAND = os.path.join(os.path.dirname(miniray.__file__), "miniray-node")
_SLOTS = 16
_USAGE, _END_S = 64, 20.0


def start(servers: int = 2, replicas: int = 1, workers: int = 1, consistency: str = "asp", slots: int = _SLOTS,
          folder: str | os.PathLike | None = None, checkpoint_every: float | None = None,
          mixed: bool = False, balance_every: float | None = None, backup: int = 0,
          deadline: float | None = None) -> Deployment:
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

    Everything ends with this process, whatever ends it; or by `stop()`, or a `with` block.
    """
    return Deployment(_spawned(servers, replicas, workers, consistency, slots, folder, checkpoint_every, mixed,
                               balance_every, backup, deadline))


class Deployment:
    """What `start()` gives. It may be passed to tasks and actors: there it is the address, and ends nothing."""

    def __init__(self, started: tuple[str, subprocess.Popen | None]):
        self.address, self._process = started
        if self._process is not None:
            self._end = weakref.finalize(self, _end, self._process, os.getpid())

    def __repr__(self):
        return f"Deployment({self.address!r})"

    def __reduce__(self):
        return Deployment, ((self.address, None),)

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
        if self._process is None or self._process.poll() is not None:
            return {}
        found = {}
        for pid in _read(f"/proc/{self._process.pid}/task/{self._process.pid}/children").split():
            name = _read(f"/proc/{pid}/comm").strip()
            if name.startswith("ps-"):
                number = name.rpartition("-")[2]
                found[int(number) if number.isdecimal() else number] = int(pid)
        return found

    def stop(self) -> None:
        """Ends the scheduler and the servers. Again, or where it was passed to: nothing happens."""
        if self._process is not None:
            self._end()


def _read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:  # it is gone
        return ""


def _spawned(servers, replicas, workers, consistency, slots, folder, checkpoint_every, mixed, balance_every, backup,
             deadline):
    for name, number in (("servers", servers), ("replicas", replicas), ("workers", workers), ("slots", slots)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} is {number!r}: it is a whole number from 1")
    arguments = ["--with", os.getpid(), "--servers", servers, "--copies", replicas, "--workers", workers, "--slots",
                 slots, "--consistency", consistency]
    if backup != 0:
        arguments += ["--backup", backup]
    if deadline is not None:
        arguments += ["--deadline", deadline]
    if mixed:
        arguments += ["--mixed"]
    if folder is not None:
        arguments += ["--folder", os.path.abspath(folder)]
    if checkpoint_every is not None:
        arguments += ["--checkpoint-every", checkpoint_every]
    if balance_every is not None:
        arguments += ["--balance-every", balance_every or "never"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("MINIRAY_BOOT")}
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen([_COMMAND, "ps", "local", *map(str, arguments)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=words, env=own, start_new_session=True, text=True)
        with process.stdout as said:
            line = said.readline()
        if line.endswith("\n"):
            return line.split(" at ", 1)[1].strip(), process
        process.wait()
        words.seek(0)
        text = words.read().decode(errors="replace").partition("\n")[0]
    text = text.removeprefix("miniray ps local: ").removeprefix("ps-scheduler: ")
    raise (ValueError if process.returncode == _USAGE else PsError)(text or "the parameter server did not start")


def _end(process, pid):
    if os.getpid() != pid:  # a process that was forked from the one whose it is
        return
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
