"""A worker's connection to a parameter server."""

from __future__ import annotations

import numbers
import operator
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from miniray import _core
from miniray.ps import _app_messages, _arrays, _dataset, _table_options
from miniray.ps._dataset import Data
from miniray.ps._app_messages import Request, Response
from miniray.ps._tables import Table, wrapped
from miniray.ps._callbacks import Teller
from miniray.ps.errors import PsError, PsTimeoutError, StaleError

TIMEOUT_S = 60.0
_ANY_RANK = -1
_MOST_RANKS = 1023
_END_S = 1.0  # that the end of a step is waited for, by who leaves
_SLICE_S = 0.25  # signals are heeded in between
_LONG_S = 1e9


def seconds(timeout: float) -> float:
    """A timeout, as what waits takes it."""
    try:
        number = float(timeout)
    except (TypeError, ValueError):
        raise TypeError(f"timeout is {timeout!r}: it is a number of seconds") from None
    if not number >= 0:
        raise ValueError(f"timeout is {timeout!r}: it is a number of seconds from 0")
    return min(number, _LONG_S)


def connect(address: Any = None, rank: int | None = None, *, timeout: float = TIMEOUT_S) -> Connection:
    """Joins a parameter server as the worker of that rank; waits until its servers are there.

    `address` is what `start()` gave, or "unix:PATH" or "tcp:HOST:PORT"; None: DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT of
    the environment. A rank of None is the lowest that nobody plays, or has played in the last two seconds. `timeout`,
    in seconds, is also that of everything that the connection waits for.
    """
    address = getattr(address, "address", address)
    if address is not None and not isinstance(address, str):
        raise TypeError(f"an address is a text or what start() gave, not {type(address).__name__}")
    timeout = seconds(timeout)
    rank = _ANY_RANK if rank is None else _table_options.whole("rank", rank, _MOST_RANKS)
    deadline = time.monotonic() + timeout
    _await_servers(address, deadline)
    left = max(0.0, deadline - time.monotonic())
    return Connection(_core.ps_connect(address, rank, left), timeout)


def _head(head):
    """A number of 32 bits, which may be negative."""
    if isinstance(head, numbers.Integral) and head < 0:
        return -_table_options.whole("-head", -head, _app_messages.INT_MAX)
    return _table_options.whole("head", head, _app_messages.INT_MAX)


def _await_servers(address, deadline):
    """What may take longest, and is told as such."""
    answered = False
    while True:
        left = deadline - time.monotonic()
        try:
            if _core.ps_chart(address, max(0.0, min(left, _SLICE_S)))["number"] > 0:
                return
            answered = True
        except PsTimeoutError:
            if left <= 0 and not answered:
                raise
        if left <= 0:
            raise PsTimeoutError(f"the scheduler at {address or 'the address in DMLC_PS_ROOT_URI'} waits for servers")
        if answered:
            time.sleep(min(0.002, left))


class Connection:
    """One rank of the workers. Usable from several threads; not in a process that was forked later.

        for step in connection.steps(100):       # a worker that is started again goes on where the first one was
            rows = table.pull(keys)
            table.push(keys, gradients)
    """

    def __init__(self, native: _core.PsConnection, timeout: float):
        self._native, self.timeout = native, timeout
        self._is_begun = False  # by the program, which has then to begin every step
        self._listeners: dict[int, _app_messages.Listener] = {}
        self._teller: Teller | None = None
        self._lock = threading.Lock()
        (self.rank, self.ranks, self.slots, self.servers, self.replicas, self.consistency,
         self.staleness, mixed) = native.info
        self._has_rounds = bool(mixed) or self.consistency == "bsp"
        self._unstepped = _Unstepped(native, self.consistency == "asp")
        self._leave = weakref.finalize(self, self._unstepped.end)  # also when the program ends

    def __repr__(self):
        return f"Connection(rank={self.rank} of {self.ranks}, {self.consistency})"

    def __reduce__(self):
        raise TypeError("a connection is one process's: pass the address, and connect() over there")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def close(self) -> None:
        """At once: what was not waited for may be lost. See `settle`."""
        while self._listeners:
            self._listeners.popitem()[1].end()
        self._leave()
        (self._native if self._teller is None else self._teller).close()

    # ---- Steps.

    def begin(self, timeout: float | None = None) -> int:
        """Begins a step, when it may be begun, and says which, counted from 0. If one is open, it is that."""
        self._is_begun, self._unstepped.is_wanted = True, False
        return self._native.begin(self._patience(timeout))

    def end(self) -> None:
        """My step is over; waits for nothing. In BSP what was pushed in it goes now."""
        self._native.end()

    def settle(self, timeout: float | None = None) -> None:
        """Waits until everything is acknowledged. Raises what requests failed with that nobody has waited for."""
        self._native.settle(self._patience(timeout))

    def leave(self, timeout: float | None = None) -> None:
        """Leaves the rounds of BSP: later ones do without this rank, so that it may end before the others do.

        No step may be open. A later `begin`, of this process or another of the rank, joins again."""
        self._native.leave(self._patience(timeout))

    def steps(self, count: int | None = None) -> Iterator[int]:
        """The numbers of the steps up to `count`, each begun before and ended after the body of the loop.

        They go on where an earlier process of this rank was: it may begin in the middle. After a StaleError in the body,
        `continue` goes on with the step that is to be played now. In the end everything is in, and the step that comes
        next is open, so that results can be pulled.
        """
        count = None if count is None else operator.index(count)
        while True:
            step = self.begin()
            if count is not None and step >= count:
                try:
                    self.settle()
                except StaleError:
                    continue  # of a step that was void, and perhaps has been played again: begin says
                return
            yield step
            try:
                self.end()
            except StaleError:
                pass  # begin says where to go on

    # ---- Meeting others.

    def barrier(self, name: str, group: str = "workers", timeout: float | None = None) -> None:
        """Waits until all of the group are here: "workers" (all ranks have come to the barrier of this name), "servers"
        (as many as were asked for, with all copies) or "all". A worker that is started again passes what it has passed
        before its first step, and what it plays again."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a barrier is a text, not {type(name).__name__}")
        self._native.barrier(name, _app_messages.group_of(group), self._patience(timeout))

    def report(self, key: str, value: float) -> None:
        """Tells the scheduler a number: `Deployment.board` and `miniray ps status` show it, and how fast it changes."""
        if not isinstance(key, str) or isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
            raise TypeError(f"a report is a text and a number, not {key!r} and {value!r}")
        self._native.report(key, float(value))

    def send(self, to: Any, app: int, head: int = 0, body: bytes = b"",
             timeout: float | None = None) -> Response | list[Response]:
        """Asks another process, and waits for what it answers.

        `to` is "scheduler", ("server", number) or ("worker", rank): a Response, or PsError; or "servers", "workers" or
        "all": a list, in which those that failed have an `error`. `body` has at most 64 KiB. While both live a message
        is handled once.
        """
        role, number = _app_messages.node_of(to)
        app, head = _table_options.whole("app", app, _app_messages.INT_MAX), _head(head)
        ticket = self._native.send(role, number, app, head, body)
        found = [_app_messages.response_of(*each) for each in self._native.responses(ticket, self._patience(timeout))]
        return found if isinstance(to, str) and to != "scheduler" else _app_messages.raise_if_failed(found[0])

    def handle(self, app: int, handler: Callable[[Request], Any]) -> None:
        """Requests of others for this app are given to `handler`, one after the other, in a thread of their own. What it
        returns is the answer: bytes, a number (the head), (head, bytes) or None. If it raises, the head is -1 and the body
        says what."""
        app = _table_options.whole("app", app, _app_messages.INT_MAX)
        before = self._listeners.pop(app, None)
        if before is not None:
            before.end()
        self._listeners[app] = _app_messages.Listener(self._native, app, handler)

    # ---- Tables.

    def table(self, name: str, kind: str | None = None, dim: int | None = None, dtype: Any = None,
              arrays: dict | None = None, optimizer: str | None = None, lr: float | None = None,
              **options: Any) -> Table:
        """The table of that name. With options it is made, or opened if it is there with the same ones; with a name
        alone it must be there.

        kind        "sparse": 64-bit key → row of `dim` numbers; "vectors": key → array of any length; "dense": named
                    arrays of fixed shapes, arrays={"w": (3, 4), "b": (4,)}
        dtype       "float32", "float16", "bfloat16" (both are kept as float32), "int64"
        optimizer   what a push does: "add", "sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw",
                    "lamb", "ftrl"; "own:NAME", of server programs that have one (miniray/ps.h). With lr, and those of
                    the hyperparameters below that the optimizer has
        schedule    of lr, by the number of the step: "constant", "step:EVERY:FACTOR", "cosine:STEPS[:END]",
                    "polynomial:STEPS:POWER[:END]", each with "+warmup:STEPS" or without
        initializer of rows: "zeros", "constant:A", "uniform:FROM:TO", "normal:MEAN:DEVIATION"; with seed
        consistency "asp", "ssp:S" or "bsp": that of the deployment where it is left out; bsp beside the others only
                    in a mixed one
        average     of BSP: the mean over the ranks counts, not the sum
        clip_norm   of BSP: the L2 norm that what a step adds to the whole table has at most; longer ones are scaled
        codec       of pushes: "fp16", "bf16", "int8", "sign", "topk[:PART]", "randk[:PART]", "lz4", "zstd", or one of the
                    first six with one of the last two, as in "int8+zstd"; what is lost is added to the next push
        others      refuse_nan, admit, rows_max, age_max, ordered, first_key, last_key, block: miniray/ps.h

        Hyperparameters:
            HYPERPARAMETERS
        """
        given = dict(kind=kind, dim=dim, dtype=dtype, arrays=arrays, optimizer=optimizer, lr=lr, **options)
        given = {option: value for option, value in given.items() if value is not None}
        if not isinstance(name, str):
            raise TypeError(f"the name of a table is a text, not {type(name).__name__}")
        if given:
            native = self._native.create(name, self.timeout, _table_options.packed(given))
        else:
            native = self._native.open(name, self.timeout)
        return wrapped(self, native)

    def tables(self) -> list[str]:
        """Their names, in the order in which they were made."""
        return self._native.tables(self.timeout)

    def drop(self, name: str) -> None:
        """Drops the table of that name, for everybody."""
        self.table(name).drop()

    def empty(self, shape: Any, dtype: Any = None) -> Any:
        """An array in memory that servers of this machine see: what is pushed from it to the arrays of a table is not
        sent, but read where it lies (of float32 and int64, outside BSP, at unix addresses; else it is an array like any
        other). It begins with zeros, and may outlive the connection."""
        name = _table_options.dtype_name(dtype)
        shape = _table_options.shape_of("empty", shape)
        return _arrays.within(self._native.memory(_arrays.bytes_of(name, shape)), name, shape)

    # ---- Data.

    def data(self, sizes: Any, batch: int = 1) -> Data:
        """The data that all workers learn from: so many items in each of its parts, and how many a step is to have.

        All workers say the same sizes. Every item is done once in an epoch, by one of them, whoever comes, leaves or
        dies; see `Data`. What an item is, and where it lies, is theirs to know."""
        sizes, batch = _dataset.sizes_of(sizes), _table_options.whole("batch", batch, _dataset._BATCH_MOST)
        if batch == 0:
            raise ValueError("batch is 0: a step has one item at least")
        self._native.cut(sizes, self.timeout)
        return Data(self, self._native, batch)

    # ---- Codecs.

    @property
    def traffic(self) -> dict[str, int]:
        """What went to servers: `push_bytes_sent` of the `push_bytes` that there would be without codecs, and the memory
        of their feedback; the fields are those of mr_ps_traffic in miniray/ps.h."""
        return self._native.traffic

    def keep(self, folder: Any) -> None:
        """Where the state of this rank is kept, so that a step which another process plays again is the same with lossy
        codecs, too: a folder that outlives the process; None: nowhere. Before the first step. A connection to a unix
        address keeps it beside the scheduler's socket."""
        self._native.keep(folder)

    # ---- For tables.

    def _patience(self, timeout):
        return self.timeout if timeout is None else seconds(timeout)

    def _told(self):
        """The thread that calls functions when requests are over."""
        with self._lock:
            if self._teller is None:
                self._teller = Teller(self._native)
            return self._teller

    def _ready(self):
        """Rounds need a step: a program that does not work in steps has one open all the time."""
        if self._has_rounds and not self._is_begun:
            self._native.begin(self.timeout)


Connection.table.__doc__ = _options.documented(Connection.table.__doc__)


class _Unstepped:
    """Ends what a program without steps has pushed: an exact checkpoint waits for the ends of steps."""

    def __init__(self, native, is_asp):
        self.native, self.is_wanted = native, is_asp

    def end(self):
        """Nothing if the program works in steps, or has pushed nothing."""
        is_wanted, self.is_wanted = self.is_wanted, False
        if is_wanted:
            try:
                self.native.end()
                self.native.settle(_END_S)
            except (PsError, RuntimeError, MemoryError, ValueError):
                pass  # nothing was open, or the connection is closed
