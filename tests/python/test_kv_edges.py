"""Requests at the limits: mistakes of a program raise errors with a text, and no request is taken for another."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pytest

import miniray
from miniray import ps

MOST = 2**64 - 1


@pytest.fixture(scope="module")
def connection():
    with ps.start(num_servers=2, num_workers=1, slots=4) as deployment, deployment.connect() as connection:
        yield connection


def test_options_in_any_form(connection):
    tables = connection.table("form", dim=2), connection.table("form", dim=2, admit=1)  # equal options
    assert [table.options["admit"] for table in tables] == [1, 1]
    for number, dtype in enumerate((np.float16, np.dtype("float16"), "float16", "numpy.float16")):
        assert connection.table(f"form {number}", dim=np.int64(3), dtype=dtype).options["dtype"] == "float16"
    assert connection.table("forms", arrays={"a": np.int32(3), "b": [2, np.int64(2)], "c": ()}).shapes == {
        "a": (3,), "b": (2, 2), "c": ()}


@pytest.mark.parametrize("options, error, told", [
    (dict(dim=2, size=3), TypeError, "a table takes no size; it takes "), (dict(dim=0), ValueError, "dim is 0"),
    (dict(dim=2.0), TypeError, "dim must be a whole number, not 2.0"), (dict(dim=2, lr=0), ValueError, "lr is 0"),
    (dict(dim=2, dtype=np.float64), ValueError, "unknown dtype 'float64'"), (dict(arrays=["w"]), TypeError, "a dict such as"),
    (dict(arrays={"w": None}), TypeError, "array 'w' has the shape"), (dict(arrays={"w": "ab"}), TypeError, "'w'"),
    (dict(dim=2, optimizer="own:mine"), ps.PsError, "mine"), (dict(dim=70_000), ValueError, "1 to 65536"),
    (dict(dim=1, ordered=True, first_key=1, last_key=2), ValueError, "fewer keys than slots"),
    (dict(dim=1, compression="gzip"), ValueError, "lz4"),
])
def test_options_that_cannot_be(connection, options, error, told):
    before = connection.tables()
    with pytest.raises(error, match=told):
        connection.table("cannot be", **options)
    assert connection.tables() == before


def test_keys_in_any_form(connection):
    table = connection.table("keys", dim=2)
    table.push([0, MOST], [[1, 2], [3, 4]])
    wanted = np.array([[3, 4], [1, 2]], np.float32)
    for keys in ([MOST, 0], [[MOST, 0]], np.array([MOST, 0], np.uint64), np.array([0, 7, MOST], np.uint64)[::-2],
                 np.array([MOST, 0], ">u8"), [np.uint64(MOST), 0], (key for key in (MOST, 0)), {MOST: "a", 0: "b"}):
        shape = (1, 2, 2) if isinstance(keys, list) and isinstance(keys[0], list) else (2, 2)
        assert np.array_equal(table.pull(keys), wanted.reshape(shape))
    for keys in ([], np.zeros((0,), np.int64), np.array([])):
        assert table.pull(keys).shape == (0, 2) and table.push(keys, []) is None
    for keys in (None, 1.5, "ab", b"ab", [1.0], np.array([True]), [[1, 2], [3]], [1, [2]]):
        with pytest.raises((TypeError, ValueError), match="keys"):
            table.pull(keys)


def test_values_in_any_form(connection):
    table, ones = connection.table("values", dim=2), np.ones((2, 2), np.float32)
    for values in (ones[:, ::-1], np.asfortranarray(ones), np.broadcast_to(np.float32(1), (2, 2)), ones.astype(">f4"),
                   np.ones((2, 4), np.float32)[:, ::2], ones.tolist()):
        table.set([1, 2], 0 * ones)
        table.push([1, 2], values)
        assert np.array_equal(table.pull([1, 2]), ones)
    counts = connection.table("counted", dim=1, dtype="int64")
    for values, error, told in ((None, TypeError, "None"), ([2**63], ValueError, "beyond"), ([1.5], TypeError, "int64"),
                                (np.ones(1, np.int32), TypeError, "int32, and the table has int64")):
        with pytest.raises(error, match=told):
            counts.push([1], values)
    assert counts.pull([1]) == 0


def test_where_results_go(connection):
    table = connection.table("results", dim=2)
    table.push([1], [[1, 2]])
    for out, error in ((np.zeros((1, 2), ">f4"), ValueError), (np.zeros((1, 4), np.float32)[:, ::2], ValueError),
                       (np.zeros((1, 2)), TypeError), ([[0, 0]], TypeError),
                       (np.zeros((2, 1), np.float32), ValueError)):
        with pytest.raises(error, match="out"):
            table.pull([1], out=out)
        assert not np.any(out)
    with pytest.raises(ValueError, match="another table"):
        table.pull([1], out=np.zeros((1, 2), np.float32), version=connection.table("values", dim=2).version())
    for priority in (-1, 256, 2.5, "high", None):
        with pytest.raises((TypeError, ValueError), match="priority"):
            table.pull([1], priority=priority)


def test_ranges_at_the_edge(connection):
    table, ones = connection.table("range", dim=2, ordered=True, first_key=10), np.ones((1, 2), np.float32)
    table.push_range(MOST, ones)
    assert table.pull_range()[0].tolist() == [MOST] and table.pull_range(0, 9)[1].shape == (0, 2)
    assert table.push_pull_range(MOST - 1, [[1, 2], [3, 4]]).tolist() == [[1, 2], [4, 5]]
    for first in (-1, 2**64, 2**64 + 10, 10.5, None):
        with pytest.raises((TypeError, ValueError), match="first"):
            table.push_range(first, ones)
        with pytest.raises((TypeError, ValueError), match="first"):
            table.pull_range(first)
    for ask, told in ((lambda: table.pull_range(20, 15), "20 to 15: not a range"),
                      (lambda: table.pull_range(limit=-1), "limit"), (lambda: table.push_range(10, 3.0), "one row for"),
                      (lambda: table.pull_range(limit=1), "more rows than limit=1")):
        with pytest.raises((TypeError, ValueError), match=told):
            ask()
    assert len(table.pull_range()[0]) == 2


def test_vectors_and_arrays_pushed_and_pulled_at_once(connection):
    vectors = connection.table("both vectors", kind="vectors")
    assert [part.tolist() for part in vectors.push_pull([9, 4], [[1, 2], [3]])] == [[1, 2], [3]]
    assert [part.tolist() for part in vectors.push_pull([4, 9], [[1, 1], [1]])] == [[4, 1], [2]]
    arrays = connection.table("both arrays", arrays={"w": (300, 1000), "b": ()}, optimizer="sgd", lr=0.5)
    found = arrays.push_pull({"w": np.ones((300, 1000), np.float32), "b": 2.0})
    assert (found["w"] == -0.5).all() and found["b"] == -1
    for ask, told in ((lambda: vectors.pull([1], [1.5]), "whole"), (lambda: vectors.push([1], [2.0]), "list of arrays"),
                      (lambda: vectors.push([1], [np.ones(4_000_000, np.float32)]), "the vector of key 1"),
                      (lambda: arrays.pull("w"), "names"), (lambda: arrays.push_pull({"x": 1.0}), "no array 'x'")):
        with pytest.raises((TypeError, ValueError, KeyError), match=told):
            ask()
    assert vectors.push_pull([1], [[5]])[0].tolist() == [5]  # not delayed by the refused requests


def test_arrays_that_servers_see(connection):
    table = connection.table("seen", arrays={"w": (64, 1000)})
    plain, seen = np.ones((64, 1000), np.float32), connection.empty((64, 1000))
    assert seen.shape == (64, 1000) and seen.dtype == np.float32 and not seen.any()
    seen[:] = 2
    sent = []
    for values in (plain, seen, seen.reshape(-1)[:].reshape(64, 1000)):
        before = connection.traffic["push_bytes_sent"]
        table.push({"w": values})
        sent.append(connection.traffic["push_bytes_sent"] - before)
    assert sent[0] > plain.nbytes and max(sent[1:]) < plain.nbytes / 10
    assert (table.pull()["w"] == 5).all()
    assert connection.empty(3, np.int64).tolist() == [0, 0, 0] and connection.empty(()).shape == ()
    for shape, error in ((0, ValueError), ((2, -1), ValueError), ("ab", TypeError), (2**60, MemoryError)):
        with pytest.raises(error):
            connection.empty(shape)
    with pytest.raises(ValueError, match="dtype"):
        connection.empty(3, np.float64)


def test_arrays_that_outlive_their_connection():
    with ps.start(num_servers=1, num_workers=1) as deployment:
        for _ in range(3):
            with deployment.connect(0) as connection:
                table = connection.table("seen", arrays={"w": (300_000,)})
                arrays = [connection.empty(300_000) for _ in range(4)]
                for number, array in enumerate(arrays):
                    array[:] = number
                    table.push({"w": array})
                del array, arrays[2]
            assert [array.max() for array in arrays] == [0, 1, 3]
            arrays[0][:] = 9
            assert arrays[0].sum() == 9 * 300_000 and arrays[1].sum() == 300_000
            with pytest.raises(RuntimeError, match="closed"):
                connection.empty(3)


def test_timeouts_that_are_none(connection):
    ticket = connection.table("timeouts", dim=1).pull([1], wait=False)
    for timeout, error in ((float("nan"), ValueError), (-1, ValueError), ("soon", TypeError)):
        with pytest.raises(error, match="timeout"):
            ticket.wait(timeout)
        with pytest.raises(error, match="timeout"):
            ps.connect("tcp:127.0.0.1:1", timeout=timeout)
    assert ticket.wait(float("inf")) == 0
    for rank in (-2, 1.0, "0", 5000):
        with pytest.raises((TypeError, ValueError), match="rank"):
            ps.connect("tcp:127.0.0.1:1", rank, timeout=0)


# ---- One after the other.


SCRIPT = """
import sys
from miniray import ps
connection = ps.connect(sys.argv[1], 0)
connection.table("again", dim=1).push([1, 2], [1.0, 1.0])
"""


def test_who_comes_again_is_not_taken_for_the_one_before():
    with ps.start(num_servers=1, num_workers=1) as deployment:
        for number in range(1, 4):
            with deployment.connect() as connection:  # any rank: the one that the process left
                table = connection.table("again", dim=1)
                table.push([1], [1.0])
                assert table.pull([1]) == number
        for number in range(4, 6):
            subprocess.run([sys.executable, "-c", SCRIPT, deployment.address], check=True, timeout=60)
        with deployment.connect(0) as connection:
            assert connection.table("again").pull([1, 2]).tolist() == [5, 2]
        with deployment.connect(0), pytest.raises(ps.PsError, match="no rank 1"):
            deployment.connect(1)


# ---- Servers without memory, and none.


COMMAND = os.path.join(os.path.dirname(miniray.__file__), "miniray-node")


class ByHand:
    """A scheduler, and optionally a server, started by commands."""

    def __init__(self, folder, *server):
        self.address, self._processes = f"unix:{folder}/s", []
        self._run("scheduler", "--listen", self.address, "--checkpoint-dir", f"{folder}/state", "--num-workers", 1, "--num-servers", 1,
                  "--slots", 8)
        if server:
            self._run("server", "--scheduler", self.address, "--id", 0, *server)

    def _run(self, *arguments):
        self._processes.append(subprocess.Popen([COMMAND, "ps", *map(str, arguments)], stdout=subprocess.DEVNULL,
                                                stderr=subprocess.DEVNULL))

    def serve(self, number, **environment):
        """Starts a server with further variables of the environment; returns the process, whose stderr can be read."""
        process = subprocess.Popen([COMMAND, "ps", "server", "--scheduler", self.address, "--id", str(number)], text=True,
                                   env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self._processes.append(process)
        return process

    def end(self):
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGTERM)
            process.wait(60)


@pytest.fixture
def by_hand():
    made = []
    with tempfile.TemporaryDirectory() as folder:  # a short path, since socket addresses are limited
        yield lambda *server: made.append(ByHand(folder, *server)) or made[-1]
        for each in made:
            each.end()


def test_servers_that_do_not_come_are_named(by_hand):
    address = by_hand().address
    until = time.monotonic() + 60
    while True:
        with pytest.raises(ps.PsTimeoutError) as told:
            ps.connect(address, timeout=0.5)
        if "timed out waiting for servers: " in str(told.value) and "0 of 1 servers are connected" in str(told.value):
            assert f"try `miniray ps server --scheduler {address}`" in str(told.value)
            break
        assert time.monotonic() < until, told.value


def test_a_server_without_memory_keeps_what_it_was_lent(by_hand):
    """A refused push stays in flight, also after the program has dropped its array. Other slots continue."""
    with ps.connect(by_hand("--memory", 128).address, 0, timeout=30) as connection:
        small = connection.table("small", dim=2)
        small.push(np.arange(32), np.ones((32, 2), np.float32))
        large = connection.table("large", arrays={"w": (50_000_000,)}, block=50_000_000)  # an array in a single slot
        ticket = large.push({"w": np.ones(50_000_000, np.float32)}, wait=False)
        with pytest.raises(MemoryError, match="is out of memory"):
            ticket.wait(3)
        assert not ticket.done
        with pytest.raises(MemoryError, match="is out of memory"):
            ticket.wait(0.2)
        del ticket
        pulls = [small.pull([key], wait=False) for key in range(32)]
        until = time.monotonic() + 60
        while sum(pull.done for pull in pulls) < 16:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert all(pull.wait().tolist() == [[1, 1]] for pull in pulls if pull.done)


# ---- Servers without a compression library.


@pytest.fixture
def without_zstd():
    """The environment of a process that cannot load libzstd: a damaged file is found first."""
    if not _can_load("libzstd.so.1"):
        pytest.skip("this machine has no libzstd")
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/libzstd.so.1", "w") as file:
            file.write("no library")
        yield {"LD_LIBRARY_PATH": folder}


def _can_load(library):
    try:
        return ctypes.CDLL(library) is not None
    except OSError:
        return False


def test_a_table_that_a_server_cannot_decompress_is_rejected(by_hand, without_zstd):
    deployment = by_hand()
    server = deployment.serve(0, **without_zstd)
    with ps.connect(deployment.address, 0, timeout=30) as connection:
        with pytest.raises(ps.PsError, match="server 0 cannot load libzstd.so.1"):
            connection.table("packed", dim=64, compression="zstd")
        assert connection.tables() == []
        for compression in ("none", "int8"):
            table = connection.table(compression, dim=64, compression=compression)
            table.push([1], np.ones((1, 64), np.float32))
            assert table.pull([1])[0].sum() == 64
        assert server.poll() is None


def test_a_server_that_cannot_decompress_a_table_does_not_join(by_hand, without_zstd):
    deployment = by_hand("--memory", 2**30)
    with ps.connect(deployment.address, 0, timeout=30) as connection:
        table = connection.table("packed", dim=64, compression="zstd")
        late = deployment.serve(1, **without_zstd)
        told = late.communicate(timeout=60)[1]
        assert late.returncode != 0 and "table 'packed' is compressed with zstd" in told and "install it" in told
        table.push([1], np.ones((1, 64), np.float32))
        assert table.pull([1])[0].sum() == 64
        table.drop()
        deployment.serve(1, **without_zstd)  # now it is admitted
        until = time.monotonic() + 60
        while sum(process["role"] == "server" for process in ps.Deployment(deployment.address).processes()) < 2:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_ctrl_c_ends_a_wait(by_hand):
    with ps.connect(by_hand("--memory", 128).address, 0, timeout=30) as connection:
        large = connection.table("large", arrays={"w": (50_000_000,)})
        main = threading.main_thread().ident
        threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            large.push({"w": np.ones(50_000_000, np.float32)})
        assert connection.tables() == ["large"]


def test_ctrl_c_ends_a_question(by_hand):
    """Ctrl-C while the scheduler does not run, and while all ranks of a scheduler are taken."""
    address = by_hand("--memory", 128).address
    with ps.connect(address, 0, timeout=30):
        for ask in (lambda: ps.connect(address, timeout=60), lambda: ps.Deployment("unix:/tmp/no/s").processes(60)):
            main, began = threading.main_thread().ident, time.monotonic()
            threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                ask()
            assert time.monotonic() - began < 20


def test_two_threads_wait_for_one_request():
    with ps.start(num_servers=1, consistency="bsp") as deployment, deployment.connect() as connection:
        connection.begin()
        ticket, found = connection.table("rows", dim=1).push_pull([1], [1.0], wait=False), []
        thread = threading.Thread(target=lambda: found.append(ticket.wait(60)))
        thread.start()
        time.sleep(0.1)
        with pytest.raises(ps.PsTimeoutError, match="another thread already waits for this request"):
            ticket.wait(0.2)
        connection.end()
        assert ticket.wait(60) == 1
        thread.join()
        assert found == [1]
