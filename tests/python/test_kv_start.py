"""Parameter servers that a program starts: they end with it, and are restarted after a death."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest

import miniray
from miniray import ps
from deployments import is_there, place_of, wait_until

PROGRAM = """
import time
from miniray import ps
deployment = ps.start(num_servers=2, num_workers=1)
while len(deployment.pids()) < 3:
    time.sleep(0.01)
print(deployment.address, deployment._supervisor._process.pid, *deployment.pids().values(), flush=True)
input()
"""


def test_it_starts_and_leaves_nothing():
    deployment = ps.start(num_servers=3, replicas=2, num_workers=2)
    wait_until(lambda: set(deployment.pids()) == {"scheduler", 0, 1, 2})
    pids = deployment.pids()
    with deployment.connect(rank=1) as connection:
        assert (connection.rank, connection.num_workers, connection.num_servers, connection.replicas) == (1, 2, 3, 2)
        assert connection.consistency == "asp"
    assert os.path.isdir(place_of(deployment.address))
    deployment.stop()
    deployment.stop()
    assert not any(map(is_there, pids.values())) and not os.path.exists(place_of(deployment.address))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, None])
def test_it_ends_with_the_program(how):
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    address, *pids = program.stdout.readline().split()
    assert len(pids) >= 3 and all(map(is_there, pids))
    if how is None:
        program.communicate("\n")
    else:
        program.send_signal(how)
        program.communicate()
    wait_until(lambda: not any(map(is_there, pids)) and not os.path.exists(place_of(address)))


def test_a_stop_saves(tmp_path):
    for times in (1, 2):
        with ps.start(num_servers=2, num_workers=1, checkpoint_dir=str(tmp_path / "state")) as deployment, \
                deployment.connect() as connection:
            table = connection.table("sums", dim=1)
            table.push([1, 2, 3], [1, 2, 3])
            assert table.pull([1, 2, 3]).ravel().tolist() == [times, 2 * times, 3 * times]


def test_who_dies_is_started_again():
    with ps.start(num_servers=2, replicas=2, num_workers=1) as deployment, deployment.connect() as connection:
        table = connection.table("kept", dim=1)
        table.push([1, 2, 3], [1, 2, 3])
        for victim in (0, "scheduler", 1):
            wait_until(lambda: len(deployment.pids()) == 3 and all(len(slot) == 2 for slot in deployment.cluster_map()["slots"]))
            before = deployment.pids()[victim]
            os.kill(before, signal.SIGKILL)
            wait_until(lambda: deployment.pids().get(victim, before) != before)
            assert table.pull([1, 2, 3]).tolist() == [1, 2, 3]


WAITS = """
import sys, time
from miniray import ps
connection = ps.connect(sys.argv[1], 1)
table = connection.table("rows", dim=1)
table.pull([1])
print("ready", flush=True)
began = time.monotonic()
try:
    while True:
        table.pull([1])
except ps.PsError as error:
    print(f"{time.monotonic() - began:.3f} {error}")
"""


def test_the_death_of_the_supervisor_is_reported_at_once_with_its_cause():
    deployment = ps.start(num_servers=2, num_workers=2)
    place = place_of(deployment.address)
    connection = deployment.connect(0)
    table = connection.table("rows", dim=1)
    table.push([1], [1])
    assert table.pull([1]).tolist() == [1]
    with subprocess.Popen([sys.executable, "-c", WAITS, deployment.address], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "ready\n"
        os.kill(deployment._supervisor._process.pid, signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(ps.PsError, match=r"the supervisor \(process \d+\), which runs it, was killed by signal 9 \(SIGKILL\)"):
            while True:  # the servers answer until they are killed, too
                table.pull([1])
        assert time.monotonic() - began < 10  # ten times the bar
        wait_until(lambda: not os.path.exists(place))
        seconds, _, words = other.stdout.read().partition(" ")
    assert float(seconds) < 20 and f"the parameter server at {deployment.address} has ended" in words
    began = time.monotonic()
    with pytest.raises(ps.PsError, match="has ended: its directory was removed"):
        deployment.connect(0)
    assert time.monotonic() - began < 10
    connection.close()
    deployment.stop()


def test_a_killed_supervisor_without_a_program_leaves_nothing(tmp_path):
    """`miniray ps local` in a terminal: no other process cleans up after it."""
    command = os.path.join(os.path.dirname(miniray._core.__file__), "miniray-node")
    with subprocess.Popen([command, "ps", "local", "--num-servers", "1", "--num-workers", "1"], stdout=subprocess.PIPE,
                          env=os.environ | {"TMPDIR": str(tmp_path)}, text=True) as supervisor:
        address = supervisor.stdout.readline().split(" at ", 1)[1].strip()
        with ps.connect(address) as connection:
            connection.table("rows", dim=1).push([1], [1])
            assert os.path.isdir(place_of(address))
            supervisor.kill()
            with pytest.raises(ps.PsError, match=r"the supervisor \(process \d+\), which runs it"):
                while True:
                    connection.table("rows", dim=1).pull([1])
    wait_until(lambda: not os.listdir(tmp_path))


def test_workers_are_tasks_and_actors(ray):
    @ray.remote(num_cpus=0)
    def add(deployment, rank):
        with deployment.connect(rank) as connection:
            table = connection.table("shared", dim=1)
            for step in connection.steps(5):
                table.push([7, rank], [1, 1])
            return connection.rank

    @ray.remote
    class Reader:
        def __init__(self, address):
            self.connection = ps.connect(address, rank=2)

        def read(self):
            return self.connection.table("shared", dim=1).pull([7, 0, 1]).tolist()

    with ps.start(num_servers=1, num_workers=3) as deployment:
        assert ray.get([add.remote(deployment, rank) for rank in range(2)]) == [0, 1]
        assert ray.get(Reader.remote(deployment.address).read.remote()) == [10, 5, 5]


def test_a_copy_of_the_handle_ends_nothing():
    with ps.start(num_servers=1) as deployment:
        copy = miniray.cloudpickle.loads(miniray.cloudpickle.dumps(deployment))
        assert copy.address == deployment.address and copy.pids() == {}
        copy.stop()
        with copy.connect() as connection:
            assert connection.tables() == []


@pytest.mark.parametrize("options, told", [
    (dict(num_servers=1, replicas=2), "2 replicas"), (dict(consistency="soon"), "bsp, ssp:STEPS .* or asp"),
    (dict(num_servers=0), "servers is 0"), (dict(num_workers=0), "workers is 0"), (dict(slots=100000), "slots"),
    (dict(checkpoint_every=-1), "seconds"), (dict(balance_every=-1), "balance_every must be a number of seconds"),
    (dict(consistency="bsp", num_workers=2, backup_workers=2), "2 backup workers of 2"), (dict(backup_workers=-1), "backup_workers is -1: it must be a whole number"),
    (dict(readers=1025), "readers is 1025: it must be a whole number from 0 to 1024"),
    (dict(num_workers=2, backup_workers=1), "needs rounds"), (dict(consistency="bsp", deadline=-1), "deadline must be a number of seconds"),
    (dict(deadline=1), "needs rounds"), (dict(consistency="bsp", deadline=5000), "a deadline of 5000000000 µs")])
def test_wrong_options_are_told(options, told):
    with pytest.raises((ValueError, ps.PsError), match=told):
        ps.start(**options)


def test_connecting_to_nobody():
    folder = tempfile.mkdtemp()
    with pytest.raises(ps.PsTimeoutError, match="no answer from the scheduler"):
        ps.connect(f"unix:{folder}/none", timeout=0.3)
    os.rmdir(folder)
    with pytest.raises(ValueError, match="not an address"):
        ps.connect("nowhere")
    with pytest.raises(ValueError, match="DMLC_PS_ROOT_URI"):
        ps.connect()
    with ps.start(num_servers=1) as deployment:
        with pytest.raises(ps.PsError, match="no rank 5") as raised:
            deployment.connect(rank=5)
        assert not isinstance(raised.value, ps.TableNotFoundError)


@pytest.mark.parametrize("timeout", [float("nan"), -1])
def test_what_is_no_timeout_is_told(timeout):
    with ps.start(num_servers=1) as deployment:
        for wait in (deployment.connect, deployment.cluster_map, deployment.processes, deployment.checkpoint):
            with pytest.raises(ValueError, match="number of seconds"):
                wait(timeout=timeout)
        with deployment.connect(timeout=float("inf")) as connection:
            with pytest.raises(ValueError, match="number of seconds"):
                connection.flush(timeout)


def test_a_rank_that_is_free_soon_is_waited_for():
    with ps.start(num_servers=1, num_workers=1) as deployment:
        with deployment.connect() as first:
            assert first.rank == 0
            with pytest.raises(ps.PsTimeoutError, match="every rank .* is held"):
                deployment.connect(timeout=0.5)
        with deployment.connect() as second:  # immediately, as in a script that is run again
            assert second.rank == 0


def test_a_folder_outlives_its_processes(tmp_path):
    def values(connection):
        return connection.table("kept", arrays={"w": 4}, optimizer="add")

    with ps.start(num_servers=2, num_workers=1, checkpoint_dir=tmp_path / "state") as deployment:
        with deployment.connect(0) as connection:
            table = values(connection)
            for step in connection.steps(3):
                table.push({"w": np.ones(4, np.float32)})
            number = deployment.checkpoint()
            assert deployment.cluster_map()["checkpoint"] >= number > 0
    with ps.start(num_servers=3, num_workers=1, checkpoint_dir=tmp_path / "state") as deployment:
        with deployment.connect(0) as connection:
            assert connection.begin() == 3
            assert values(connection).pull()["w"].tolist() == [3, 3, 3, 3]


def test_a_folder_goes_on_as_it_was_begun(tmp_path):
    with ps.start(num_servers=1, slots=4, checkpoint_dir=tmp_path) as deployment, deployment.connect():
        pass
    with pytest.raises(ValueError, match="is asp; it cannot become bsp"):
        ps.start(num_servers=1, consistency="bsp", checkpoint_dir=tmp_path)


def test_a_folder_gets_another_number_of_slots(tmp_path):
    """Without a number it keeps its own; a new number distributes the tables anew."""
    for step, (wanted, slots) in enumerate([(None, 16), (3, 3), (None, 3), (20, 20)]):
        with ps.start(num_servers=2, slots=wanted, checkpoint_dir=tmp_path) as deployment:
            with deployment.connect(0) as connection:
                assert connection.slots == slots
                table = connection.table("rows", dim=2, optimizer="adagrad", lr=1.0)
                assert connection.begin() == step
                if step > 0:
                    assert (table.pull(np.arange(50)) == rows).all() and rows.any()
                table.push(np.arange(50), np.arange(100, dtype=np.float32).reshape(50, 2))
                rows = table.pull(np.arange(50))
                connection.end()
                connection.flush()
            deployment.checkpoint()


def test_the_last_checkpoint_of_a_stop_gets_other_slots(tmp_path):
    with ps.start(num_servers=1, slots=4, checkpoint_dir=tmp_path) as deployment, deployment.connect() as connection:
        connection.begin()
        connection.table("rows", dim=2).push(np.arange(9), np.ones((9, 2), np.float32))
        connection.end()
        connection.flush()
    with ps.start(num_servers=1, slots=8, checkpoint_dir=tmp_path) as deployment, deployment.connect() as connection:
        connection.begin()
        assert connection.slots == 8
        assert (connection.table("rows", dim=2).pull(np.arange(9)) == 1).all()
