"""The actor that makes the requests of a parameter server with an optimizer: `ps.push_gradients.remote(…)` and others.

It holds no state that the servers do not have: they count each push and each sync once (the step of a rank, and the table
of syncs), so a call that is lost with the actor's process is sent to the next one, which finds what was done. Sessions of
ranks are opened when they are first needed. Each rank has a thread, in which its pushes wait for the other ranks.
"""

import asyncio
import concurrent.futures
import struct
import time

from miniray import _core, exceptions
from miniray.ps import _model_form, errors
from miniray.ps._connection import connect
from miniray.ps._model_server import SKIP_DEAD, first_error, raise_if
from miniray.ps._model_session import MODEL, Session
from miniray.ps.strategies import AverageStrategy

_STATE = MODEL + ".state"
_READY, _VERSION, _ABOUT = 0, 1, 2  # keys of that table (src/train/model_session.c)
_SYNCS = MODEL + ".syncs"  # by the time at which they were requested: the number of their step, plus one
_SYNCS_MOST = 4096  # in a slot
_LOOKS = 5  # how often a pull is repeated for weights of one version
_FREE_S = 2.0  # how long the rank of a process that died may seem to be held


class Requests:
    """The actor. `aggregate`, `publish`, `note` and `pull_weights` are called by syncs, as those of a model server are
    (src/train/model_server.h)."""

    def __init__(self, address, plan, num_workers, rounds, timeout):
        self.address, self.plan, self.num_workers, self.rounds, self.timeout = address, plan, num_workers, rounds, timeout
        self.form = plan.form
        self.threads = {}  # of ranks; "read" and "sync"
        self.sessions = {}
        self.syncs = {}  # the table of syncs, by the rank of its connection
        self.reader = None
        self.last_error = None
        self.times = (0.0, 0.0, 0.0)
        _core.give_arrays()

    async def _in_thread(self, name, function, *args):
        thread = self.threads.get(name)
        if thread is None:
            thread = self.threads[name] = concurrent.futures.ThreadPoolExecutor(1)
        return await asyncio.get_running_loop().run_in_executor(thread, function, *args)

    # ---- Reading.

    def _tables(self):
        """As tables_of."""
        if self.reader is None:
            self.reader = connect(self.address, reader=True, timeout=self.timeout)
        return tables_of(self.reader)

    def _about(self, state):
        if self.form is None:
            held = state.pull([_ABOUT])[0].tobytes()
            size = struct.unpack_from("q", held)[0]
            self.form = _model_form.unpacked(held[8:8 + size])
        return self.form

    def _version(self, state):
        return int(state.pull([_VERSION], [1])[0][0])

    def _read(self, if_newer=None):
        """(version, weights): of the same step, unless steps are faster than pulls; the weights are None if they are not newer
        than `if_newer`, or if there are none yet."""
        tables = self._tables()
        if tables is None:
            return 0, None
        model, state = tables
        form, version = self._about(state), self._version(state)
        if if_newer is not None and version <= if_newer:
            return version, None
        pairs = [_model_form.empty(entry, form.is_torch) for entry in form.entries]
        names = [name for name, _ in model.options["arrays"]]
        out = {name: memory for name, (entry, (_, memory)) in zip(names, zip(form.entries, pairs)) if 0 not in entry.shape}
        for _ in range(_LOOKS):
            model.pull(out=out)
            before, version = version, self._version(state)
            if version == before:
                break
        return version, form.tree([array for _, array in pairs])

    async def pull_weights(self, owed=None, if_newer=None):
        """The weights; None if there are none yet, or none that are newer than the version `if_newer`."""
        return (await self._in_thread("read", self._read, if_newer))[1]

    # ---- Pushes.

    def _session(self, rank):
        """The session of a rank, which no other process may hold."""
        if rank not in self.sessions:
            self._await_free(rank)
            session = Session(connect(self.address, rank, timeout=self.timeout), self.plan)
            if self.form is not None:
                session.form = self.form
            self.sessions[rank] = session
        return self.sessions[rank]

    def _await_free(self, rank):
        deadline = time.monotonic() + _FREE_S
        while any(each["role"] == "worker" and each["number"] == rank and each["here"]
                  for each in _core.ps_board(self.address, self.timeout)):
            if time.monotonic() > deadline:
                raise ValueError(f"worker_id {rank} is used by a session: end that session, or use another worker_id")
            time.sleep(0.05)

    def _drop(self, rank):
        """Ends the session of a rank that another process has taken."""
        self.syncs.pop(rank, None)
        self.sessions.pop(rank).close()
        return ValueError(f"worker_id {rank} is used by a session of another process now: end that session, or use another "
                          "worker_id")

    def _push(self, gradients, rank, step):
        """Pushes once for (rank, step), waits until the step is done, and returns the version."""
        try:
            session = self._session(rank)
            due = session.begin()
            if step is not None and step > due:
                raise ValueError(f"push_gradients: step {step} of worker {rank} is too high; its next step is {due}")
            if step is None or step == due:
                self._end_step(session, gradients)
            return session.version()
        except errors.RankTakenError:
            raise self._drop(rank) from None

    def _end_step(self, session, gradients, sync=None):
        """Ends the open step with these gradients, None: without this rank; waits until the step is done."""
        while True:
            step = session.begin()
            try:
                if sync is not None:
                    self.syncs[session.rank].set([sync], [step + 1], wait=False)
                if gradients is None:
                    session.skip()
                else:
                    session.push_gradients(gradients, keep=True)
                break
            except errors.StaleError:
                continue  # the servers went back to a checkpoint, and begin() returns the step that is due
        session.begin()

    async def push_gradients(self, gradients, worker_id, step=None):
        """The version that includes the push."""
        return await self._in_thread(worker_id, self._push, gradients, worker_id, step)

    # ---- Syncs: gradients of all workers, one optimizer step, weights for all workers.

    def _contribute(self, rank, gradients, sync):
        """Makes one rank's part of a sync, unless it is in the weights; gradients None: its worker is dead."""
        try:
            session = self._session(rank)
            due = session.begin()
            if rank not in self.syncs:
                self.syncs[rank] = session.connection.table(_SYNCS, kind="sparse", dtype="int64", dim=1, rows_max=_SYNCS_MOST)
            if 0 < int(self.syncs[rank].pull([sync])[0]) <= due:
                return
            self._end_step(session, gradients, sync)
        except errors.RankTakenError:
            raise self._drop(rank) from None

    def _contribute_mean(self, gradients, sync):
        """Without rounds rank 0 pushes the mean."""
        self._session(0).begin()
        self._contribute(0, _mean(self._session(0).form, [each for each in gradients if each is not None]), sync)

    async def aggregate(self, flags, owed, began_us, *gradients):
        """Makes one optimizer step with the gradients of the workers, of which the first is rank 0; returns the weights for
        each worker, facts, and the weights."""
        gathered_us = _now_us()
        raise_if(owed, *(() if flags & SKIP_DEAD else gradients))
        present = [None if isinstance(each, BaseException) else each for each in gradients]
        if all(each is None for each in present):
            raise exceptions.ActorDiedError(f"cannot sync: no worker is alive (0 of {len(present)})")
        if len(present) > self.num_workers or (self.rounds and len(present) != self.num_workers):
            raise ValueError(f"sync_from_workers: there are {len(present)} workers, and num_workers is {self.num_workers}: each "
                             "rank needs one")
        if self.rounds:
            await asyncio.gather(*(self._in_thread(rank, self._contribute, rank, each, began_us)
                                   for rank, each in enumerate(present)))
        else:
            await self._in_thread(0, self._contribute_mean, present, began_us)
        version, weights = await self._in_thread("read", self._read)
        facts = (began_us, gathered_us, _now_us(), version)
        return (*[weights] * len(present), facts, None)

    async def publish(self, owed, facts, result, *returned):
        """The version of a sync, when every worker has the weights."""
        raise_if(owed, facts, result)
        began_us, gathered_us, stepped_us, version = facts
        self.times = tuple(us * 1e-6 for us in (gathered_us - began_us, stepped_us - gathered_us, _now_us() - stepped_us))
        return version

    async def note(self, flags, facts, result, *returned):
        """Records the first error of a sync, if any."""
        self.last_error = first_error(flags, facts, returned) or self.last_error

    # ---- The other requests.

    def _stats(self):
        tables = self._tables()
        board = _core.ps_board(self.address, self.timeout)
        sums = dict.fromkeys(("push_bytes", "push_bytes_sent", "pull_bytes", "skipped"), 0)
        for each in board:
            for name in sums.keys() & each["metrics"].keys():
                sums[name] += int(each["metrics"][name]["value"])
        servers = {each["number"]: each["memory"] for each in board if each["role"] == "server"}
        return tables is not None, 0 if tables is None else self._version(tables[1]), sums, servers

    async def get_stats(self):
        """Version, counts, bytes, and the memory of the servers."""
        initialized, version, sums, servers = await self._in_thread("read", self._stats)
        gather, step, scatter = self.times
        return {"version": version, "num_syncs": version, "strategy": self.plan.table["optimizer"], "initialized": initialized,
                "bytes": 0 if self.form is None else self.form.bytes, **sums, "servers": servers, "gather_s": gather,
                "aggregate_s": step, "scatter_s": scatter, "last_error": self.last_error}


def tables_of(reader):
    """The tables of the model and its state, by a reader's connection; None: the model has no weights yet."""
    try:
        state = reader.table(_STATE)
        return (reader.table(MODEL), state) if int(state.pull([_READY], [1])[0][0]) != 0 else None
    except errors.TableNotFoundError:
        return None


def _mean(form, gradients):
    """The mean over workers, in the order of the form; a worker without a gradient of a tensor counts as 0."""
    lists = [_model_form.gradients_of(form, each) for each in gradients]
    made = [None] * len(form.entries)
    for at, arrays in enumerate(zip(*lists)):
        one = next((array for array in arrays if array is not None), None)
        if one is not None:
            made[at], = AverageStrategy().aggregate([[one * 0 if array is None else array] for array in arrays])
    return made


def _now_us():
    return time.monotonic_ns() // 1000
