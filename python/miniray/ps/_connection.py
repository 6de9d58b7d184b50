"""A worker's connection to a parameter server."""

from __future__ import annotations

import contextlib
import numbers
import operator
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from miniray import _core
from miniray._core_api.tracebacks import public
from miniray.ps import _app_messages, _arrays, _dataset, _old_names, _table_options
from miniray.ps._app_messages import Request, Response
from miniray.ps._callbacks import CallbackThread
from miniray.ps._dataset import Dataset
from miniray.ps._tables import DenseTable, SparseTable, Table, VectorTable, wrapped
from miniray.ps.errors import PsError, PsTimeoutError, StaleError

TIMEOUT_S = 60.0
_ANY_RANK, _READER = -1, -2  # MR_PS_ANY_RANK, MR_PS_READER
_MOST_RANKS = 1023
_NO_RANK = 0xFFFFFFFF  # UINT32_MAX
_END_S = 1.0  # longest wait for the end of a step when a connection is closed
_SLICE_S = 0.25  # signals are handled after each slice
_LONG_S = 1e9


def seconds(timeout: float) -> float:
    """A timeout in seconds, checked."""
    try:
        number = float(timeout)
    except (TypeError, ValueError):
        raise TypeError(f"timeout is {timeout!r}: it must be a number of seconds") from None
    if not number >= 0:
        raise ValueError(f"timeout is {timeout!r}: it must be a number of seconds, at least 0")
    return min(number, _LONG_S)


@public
def connect(address: Any = None, rank: int | None = None, *, reader: bool = False,
            timeout: float = TIMEOUT_S) -> Connection:
    """Joins a parameter server as the worker of this rank; waits until its servers are connected.

    `address` is a Deployment, "unix:PATH" or "tcp:HOST:PORT"; None: DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT of the
    environment. A rank of None is the lowest that no process has, or has had in the last two seconds. `timeout`, in
    seconds, also applies to every call of the connection that waits.

    A reader holds no rank and only pulls: no rank waits for it, and it begins no steps. A pull from a table of "bsp" shows
    one step of all ranks, the newest that had ended when the pull was made, or a later one. The deployment must allow
    readers (`start(readers=N)`, `miniray ps scheduler --readers N`).
    """
    address = getattr(address, "address", address)
    if address is not None and not isinstance(address, str):
        raise TypeError(f"the address must be a str or what start() returned, not {address!r}")
    timeout = seconds(timeout)
    if reader and rank is not None:
        raise ValueError(f"rank is {rank!r}, but a reader has no rank: leave out rank or reader")
    rank = (_READER if reader else _ANY_RANK) if rank is None else _table_options.whole("rank", rank, _MOST_RANKS)
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
    """Waits until the scheduler has its servers: the longest part of a start, with a separate error."""
    answered, failure = False, None
    while True:
        left = deadline - time.monotonic()
        try:
            if _core.ps_chart(address, max(0.0, min(left, _SLICE_S)))["number"] > 0:
                return
            answered = True
        except PsTimeoutError as error:
            failure = failure if failure is not None and left <= 0 else error
        if deadline <= time.monotonic():
            raise (PsTimeoutError(f"timed out waiting for servers: {_stall(address)}") if answered else failure) from None
        if answered:
            time.sleep(0.002)


def _stall(address):
    """Why a parameter server has no tables yet, and the next step."""
    name = address or "DMLC_PS_ROOT_URI"
    with contextlib.suppress(PsError):
        overview = _core.ps_overview(address, _SLICE_S)
        if overview["stall"]:
            return f"the scheduler at {name}: {overview['stall']}; try `{overview['stall_hint'][0]}`"
    return f"the scheduler at {name} has too few; `miniray ps status` shows which are missing"


@public
class Connection:
    """The connection of one rank, or of a reader. Several threads may use it; a process that was forked later may not.

        for step in connection.steps(100):       # a worker that is started again continues at the step of the first one
            rows = table.pull(keys)
            table.push(keys, gradients)

    Attributes: `rank` (of a reader: None), `num_workers`, `num_servers`, `replicas`, `slots`, `consistency`, `staleness`, `timeout`.
    """

    __getattr__ = _old_names.attributes(data="dataset", keep="set_state_dir", ranks="num_workers", report="metric",
                                        servers="num_servers", settle="flush")

    def __init__(self, native: _core.PsConnection, timeout: float):
        self._native, self.timeout = native, timeout
        # The program has begun a step itself, and so must begin every step; a reader begins none.
        self._is_begun = native.info[0] == _NO_RANK
        self._listeners: dict[int, _app_messages.Listener] = {}
        self._callback_thread: CallbackThread | None = None
        self._lock = threading.Lock()
        (self.rank, self.num_workers, self.slots, self.num_servers, self.replicas, self.consistency,
         self.staleness, mixed) = native.info
        self.rank = None if self.rank == _NO_RANK else self.rank
        self._has_rounds = bool(mixed) or self.consistency == "bsp"
        self._unstepped = _Unstepped(native, self.consistency == "asp" and self.rank is not None)
        self._leave = weakref.finalize(self, self._unstepped.end)  # ends the open step, also when the program ends

    def __repr__(self):
        who = "reader" if self.rank is None else f"rank={self.rank} of {self.num_workers}"
        return f"Connection({who}, {self.consistency})"

    def __reduce__(self):
        raise TypeError("a connection cannot be passed to another process: pass its address and call connect() there")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection at once: requests that were not waited for may be lost (see `flush`)."""
        while self._listeners:
            self._listeners.popitem()[1].end()
        self._leave()
        (self._native if self._callback_thread is None else self._callback_thread).close()

    # ---- Steps.

    def begin(self, timeout: float | None = None) -> int:
        """Waits until the next step may begin, begins it and returns its number, from 0. If a step is open, returns its
        number."""
        self._is_begun, self._unstepped.is_wanted = True, False
        return self._native.begin(self._patience(timeout))

    def end(self) -> None:
        """Ends the step of this rank, without waiting. In BSP the pushes of the step are sent now."""
        self._native.end()

    def skip(self) -> None:
        """Leaves this rank out of the open step in BSP: none of its pushes to tables of "bsp" counts, and `average` divides
        by the other ranks. A push with `skip_nonfinite` does the same if a value is not finite. Changes nothing of tables
        without rounds. StaleError: no step is open."""
        self._native.skip()

    @property
    def skipped(self) -> int:
        """The number of steps of BSP, and of pushes outside BSP, that were left out."""
        return self._native.skipped

    def flush(self, timeout: float | None = None) -> None:
        """Waits until all requests are acknowledged. Raises the errors of requests that were not waited for."""
        self._native.settle(self._patience(timeout))

    def leave(self, timeout: float | None = None) -> None:
        """Leaves: no rank waits for this one any more, in BSP or SSP, so that it may end before the others.

        End an open step before, unless it has no pushes and is none of BSP: then it begins again. A later `begin`, of this process or another one of the rank, returns."""
        self._native.leave(self._patience(timeout))

    def steps(self, count: int | None = None) -> Iterator[int]:
        """The numbers of the steps up to `count`, each begun before and ended after the body of the loop.

        They continue at the step of an earlier process of this rank, which need not be 0. After a StaleError in the body,
        `continue` goes on with the step that is due. At the end everything is acknowledged, and the next step is open, so
        that results can be pulled.
        """
        count = None if count is None else operator.index(count)
        while True:
            step = self.begin()
            if count is not None and step >= count:
                try:
                    self.flush()
                except StaleError:
                    # An error of a void step, which may have been repeated: begin() returns the step that is due.
                    continue
                return
            yield step
            try:
                self.end()
            except StaleError:
                pass  # begin() returns the step that is due

    # ---- Barriers, metrics and messages.

    def barrier(self, name: str, group: str = "workers", timeout: float | None = None) -> None:
        """Waits until the whole group is ready: "workers" (all ranks have reached the barrier of this name), "servers"
        (as many as were asked for, with all replicas) or "all". A worker that is started again passes the barriers that
        it has passed before its first step, and those of the steps that it repeats."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a barrier must be a str, not {name!r}")
        self._native.barrier(name, _app_messages.group_of(group), self._patience(timeout))

    def metric(self, key: str, value: float) -> None:
        """Sends a number to the scheduler. `Deployment.processes` and `miniray ps status` show it and its rate."""
        if not isinstance(key, str) or isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
            raise TypeError(f"a metric is a str and a number, not {key!r} and {value!r}")
        self._native.report(key, float(value))

    def send(self, to: Any, app: int, head: int = 0, body: bytes = b"",
             timeout: float | None = None) -> Response | list[Response]:
        """Sends a message to another process and waits for its response.

        `to` is "scheduler", ("server", number), ("worker", rank) or ("reader", number): returns a Response, or raises PsError; or "servers",
        "workers" or "all": returns a list, in which those that failed have an `error`. `body` has at most 64 KiB. A
        message is handled once while both processes live.
        """
        role, number = _app_messages.node_of(to)
        app, head = _table_options.whole("app", app, _app_messages.INT_MAX), _head(head)
        ticket = self._native.send(role, number, app, head, body)
        found = [_app_messages.response_of(*each) for each in self._native.responses(ticket, self._patience(timeout))]
        return found if isinstance(to, str) and to != "scheduler" else _app_messages.raise_if_failed(found[0])

    def handle(self, app: int, handler: Callable[[Request], Any]) -> None:
        """Calls `handler` with the requests of other processes for this app, one after another, in a thread. Its result
        is the response: bytes, a number (the head), (head, bytes) or None. If it raises, the head is -1 and the body is
        the error."""
        app = _table_options.whole("app", app, _app_messages.INT_MAX)
        before = self._listeners.pop(app, None)
        if before is not None:
            before.end()
        self._listeners[app] = _app_messages.Listener(self._native, app, handler)

    # ---- Tables.

    if TYPE_CHECKING:
        @overload
        def table(self, name: str) -> Any: ...
        @overload
        def table(self, name: str, kind: Literal["vectors"], dim: int | None = ..., dtype: Any = ..., arrays: None = ...,
                  optimizer: str | None = ..., lr: float | None = ..., **options: Any) -> VectorTable: ...
        @overload
        def table(self, name: str, kind: Literal["dense"] | None = ..., dim: None = ..., dtype: Any = ..., *,
                  arrays: Mapping[str, Any], optimizer: str | None = ..., lr: float | None = ...,
                  **options: Any) -> DenseTable: ...
        @overload
        def table(self, name: str, kind: Literal["sparse"] | None = ..., dim: int | None = ..., dtype: Any = ...,
                  arrays: None = ..., optimizer: str | None = ..., lr: float | None = ...,
                  **options: Any) -> SparseTable: ...

    def table(self, name: str, kind: str | None = None, dim: int | None = None, dtype: Any = None,
              arrays: dict | None = None, optimizer: str | None = None, lr: float | None = None,
              **options: Any) -> Table:
        """The table of this name. With options the table is created, or opened if it exists with the same options; with a
        name alone it must exist.

        kind        "sparse": 64-bit key → row of `dim` numbers; "vectors": key → array of any length; "dense": named
                    arrays of fixed shapes, arrays={"w": (3, 4), "b": (4,)}
        dtype       "float32", "float16", "bfloat16" (servers store both as float32), "int64". Requests about floats may
                    have arrays of another float dtype
        precision   of float32, on the wire: "fp32", "bf16", "fp16": pulled values and pushed gradients are rounded to it;
                    servers keep float32. Others have that of their dtype
        optimizer   effect of a push: "add", "sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw",
                    "lamb", "ftrl"; "own:NAME", of server programs that have one (miniray/ps.h). With lr, and those of
                    the hyperparameters below that the optimizer has
        schedule    of lr, by the number of the step: "constant", "step:EVERY:FACTOR", "cosine:STEPS[:END]",
                    "polynomial:STEPS:POWER[:END]", each with "+warmup:STEPS" or without
        initializer of rows: "zeros", "constant:A", "uniform:FROM:TO", "normal:MEAN:DEVIATION"; with seed
        consistency "asp", "ssp:S" or "bsp"; None: that of the deployment; bsp beside the others only with
                    mixed_consistency
        average     of BSP only: a step applies the mean over the ranks, not the sum
        clip_norm   of BSP: largest L2 norm of the gradient of a step over the whole table; larger gradients are scaled
        compression of pushes: "fp16", "bf16", "int8", "sign", "topk[:PART]", "randk[:PART]", "lz4", "zstd", or one of the
                    first six with one of the last two, as in "int8+zstd"; the error is added to the next push
        others      refuse_nan, admit, rows_max, age_max, ordered, first_key, last_key, block: miniray/ps.h

        Hyperparameters:
            HYPERPARAMETERS
        """
        given = dict(kind=kind, dim=dim, dtype=dtype, arrays=arrays, optimizer=optimizer, lr=lr, **options)
        given = {option: value for option, value in given.items() if value is not None}
        if not isinstance(name, str):
            raise TypeError(f"the name of a table must be a str, not {name!r}")
        if given:
            native = self._native.create(name, self.timeout, _table_options.packed(given))
        else:
            native = self._native.open(name, self.timeout)
        return wrapped(self, native)

    def tables(self) -> list[str]:
        """The names of the tables, in the order in which they were created."""
        return self._native.tables(self.timeout)

    def drop(self, name: str) -> None:
        """Drops the table of this name, for all workers."""
        self.table(name).drop()

    def empty(self, shape: Any, dtype: Any = None) -> Any:
        """An array of zeros in memory that servers on this machine can read: a push from it to the arrays of a table is
        read in place instead of sent (float32 and int64, outside BSP, at unix addresses; otherwise it is an ordinary
        array). It may outlive the connection."""
        name = _table_options.dtype_name(dtype)
        shape = _table_options.shape_of("empty", shape)
        return _arrays.within(self._native.memory(_arrays.bytes_of(name, shape)), name, shape)

    # ---- Data.

    def dataset(self, sizes: Any, batch: int = 1) -> Dataset:
        """The training data of all workers: the number of items in each shard, and the number of items in a step.

        All workers pass the same sizes. In an epoch every item is given to one worker, once, also when workers join, leave
        or die (see `Dataset`). The parameter server knows items by their numbers only."""
        sizes, batch = _dataset.sizes_of(sizes), _table_options.whole("batch", batch, _dataset._BATCH_MOST)
        if batch == 0:
            raise ValueError("batch is 0: it must be at least 1")
        self._native.cut(sizes, self.timeout)
        return Dataset(self, self._native, batch)

    # ---- Compression.

    @property
    def traffic(self) -> dict[str, int]:
        """Bytes to and from servers: `push_bytes_sent`, of `push_bytes` without compression, and the memory of the error
        feedback. docs/ps-python.md lists the fields."""
        return self._native.traffic

    def set_state_dir(self, path: Any) -> None:
        """Sets the folder for the state of this rank, before the first step. The folder outlives the process, so that a
        step which another process repeats has the same bits with lossy compression, too; None: no folder. A connection to
        a unix address has one beside the scheduler's socket."""
        self._native.keep(path)

    # ---- Internal functions of tables.

    def _patience(self, timeout):
        return self.timeout if timeout is None else seconds(timeout)

    def _callbacks(self):
        """The thread that calls the functions of `done=`."""
        with self._lock:
            if self._callback_thread is None:
                self._callback_thread = CallbackThread(self._native)
            return self._callback_thread

    def _leaves_steps(self):
        """A session of a model begins the steps, and no other caller."""
        self._is_begun, self._unstepped.is_wanted = True, False

    def _ready(self):
        """Begins a step for a program without steps, since rounds need one."""
        if self._has_rounds and not self._is_begun:
            self._native.begin(self.timeout)

    def _check_push(self, table):
        """Raises StaleError for a push to a table of "bsp" of a program without steps, which would never be applied."""
        if not self._is_begun and table.options["consistency"] == "bsp":
            raise StaleError(f"table {table.name!r} is bsp, and no step is open: a push is applied when its step ends. Push "
                             "inside `for step in connection.steps(n):`, or between connection.begin() and "
                             "connection.end(); the next step's pull shows it")


Connection.table.__doc__ = _table_options.documented(Connection.table.__doc__)


class _Unstepped:
    """Ends the step of a program without steps, since a consistent checkpoint waits for the ends of steps."""

    def __init__(self, native, is_asp):
        self.native, self.is_wanted = native, is_asp

    def end(self):
        """Ends the open step; no-op if the program has steps, or has pushed nothing."""
        is_wanted, self.is_wanted = self.is_wanted, False
        if is_wanted:
            try:
                self.native.end()
                self.native.settle(_END_S)
            except (PsError, RuntimeError, MemoryError, ValueError):
                pass  # no step was open, or the connection is closed
