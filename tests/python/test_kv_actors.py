"""Parameter servers whose scheduler and servers are actors of the runtime: the node restarts them after a death."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import miniray
from miniray import ps
from miniray.util import state
from deployments import is_there, place_of, wait_until

PROGRAM = """
import miniray
from miniray import ps
miniray.init(num_workers=2)
deployment = ps.start(num_servers=2, num_workers=1)
deployment.connect().close()
print(deployment.address, *deployment.pids().values(), flush=True)
input()
"""


def rows():
    """{"scheduler": its row of `miniray list actors`, "server-0": …} of the living actors."""
    return {each["name"].rpartition("/")[2]: each for each in state.list_actors() if each["state"] == "ALIVE"}


def is_full(deployment, copies=2):
    return all(len(slot) == copies for slot in deployment.cluster_map()["slots"])


def test_they_are_actors_and_leave_nothing(ray):
    with ps.start(num_servers=3, replicas=2, num_workers=2) as deployment:
        with deployment.connect(rank=1) as connection:
            assert (connection.rank, connection.num_workers, connection.num_servers, connection.replicas) == (1, 2, 3, 2)
        pids = deployment.pids()
        assert set(pids) == {"scheduler", 0, 1, 2} and os.getpid() not in pids.values()
        assert open(f"/proc/{pids[2]}/comm").read().strip() == "ps-server-2"
        assert all(os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "miniray-node" for pid in pids.values())
        wait_until(lambda: set(rows()) == {"scheduler", "server-0", "server-1", "server-2"})
        assert rows()["server-1"]["class_name"] == "miniray.PsServer"
        assert rows()["server-1"]["pid"] == pids[1]
        assert os.path.isdir(place_of(deployment.address))
    deployment.stop()
    wait_until(lambda: not any(map(is_there, pids.values())))
    assert rows() == {} and not os.path.exists(place_of(deployment.address)) and deployment.pids() == {}


def test_the_node_starts_again_who_dies(ray):
    with ps.start(num_servers=2, replicas=2, num_workers=1) as deployment, deployment.connect() as connection:
        table = connection.table("kept", dim=1)
        table.push([1, 2, 3], [1, 2, 3])
        for victim in (0, "scheduler", 1):
            wait_until(lambda: is_full(deployment))
            before = deployment.pids()[victim]
            os.kill(before, signal.SIGKILL)
            wait_until(lambda: deployment.pids().get(victim, before) != before)
            assert table.pull([1, 2, 3]).tolist() == [1, 2, 3]
        table.push([1], [1])
        assert table.pull([1, 2, 3]).tolist() == [2, 2, 3]


def train(deployment, kills):
    with deployment.connect() as connection:
        table = connection.table("weights", dim=4, optimizer="adam", lr=0.1)
        keys = np.arange(100)
        for step in connection.steps(30):
            if step % 10 == 5 and kills:
                wait_until(lambda: is_full(deployment))
                os.kill(deployment.pids()[kills.pop()], signal.SIGKILL)
            table.push(keys, np.sin(table.pull(keys) + step).astype(np.float32))
        for _ in connection.steps(31):
            return table.pull(keys)


def test_training_under_fire_has_the_same_bits(ray):
    found = []
    for kills in ([], [0, 1, 0]):
        with ps.start(num_servers=2, replicas=2, consistency="bsp") as deployment:
            found.append(train(deployment, kills))
    assert np.any(found[0] != 0) and found[0].tobytes() == found[1].tobytes()


def test_tasks_and_actors_work_with_it(ray):
    @ray.remote(num_cpus=0)
    def add(deployment, rank):
        with deployment.connect(rank) as connection:
            table = connection.table("shared", dim=1)
            for _ in connection.steps(5):
                table.push([7, rank], [1, 1])
            return deployment.pids()

    with ps.start(num_servers=1, num_workers=2) as deployment:
        assert ray.get([add.remote(deployment, rank) for rank in range(2)]) == [{}, {}]
        with deployment.connect(rank=0) as connection:
            assert connection.table("shared", dim=1).pull([7, 0, 1]).tolist() == [10, 5, 5]


def test_what_servers_need_is_set_aside(ray):
    before = miniray.available_resources()["CPU"]
    with ps.start(num_servers=2, num_cpus=0.5) as deployment:
        deployment.connect().close()
        assert miniray.available_resources()["CPU"] == before - 1
    wait_until(lambda: miniray.available_resources().get("CPU") == before)


def test_a_folder_is_gone_on_from(ray, tmp_path):
    with ps.start(num_servers=1, checkpoint_dir=tmp_path / "state") as deployment, deployment.connect() as connection:
        connection.table("kept", dim=1).push([5], [7])
        connection.flush()
        deployment.checkpoint()
    with ps.start(num_servers=1, checkpoint_dir=tmp_path / "state") as deployment, deployment.connect() as connection:
        assert connection.table("kept", dim=1).pull([5]).tolist() == [7]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, None])
def test_it_ends_with_the_program(how):
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    address, *pids = program.stdout.readline().split()
    assert len(pids) == 3 and all(map(is_there, pids))
    if how is None:
        program.communicate("\n")
    else:
        program.send_signal(how)
        program.communicate()
    wait_until(lambda: not any(map(is_there, pids)) and not os.path.exists(place_of(address)))


def test_who_says_so_has_no_actors(ray):
    with ps.start(num_servers=1, actors=False) as deployment:
        assert rows() == {} and deployment.connect().num_workers == 1


@pytest.mark.parametrize("options, told", [
    (dict(num_servers=1, replicas=2), "2 replicas"), (dict(consistency="bsp", num_workers=2, backup_workers=2), "2 backup workers of 2"),
    (dict(num_workers=2, backup_workers=1), "needs rounds"), (dict(consistency="bsp", deadline=5000), "a deadline of 5000000000 µs"),
    (dict(num_cpus=-1), "num_cpus"), (dict(consistency="soon"), "bsp, ssp:STEPS .* or asp")])
def test_wrong_options_are_told(ray, options, told):
    with pytest.raises((ValueError, ps.PsError), match=told):
        ps.start(**options)
    assert rows() == {}


def test_what_only_actors_have_is_told():
    with pytest.raises(ValueError, match="actors"):
        ps.start(num_cpus=1, actors=False)


def test_it_ends_with_the_session(stopped):
    miniray.init(num_workers=2)
    deployment = ps.start(num_servers=2)
    pids = deployment.pids()
    assert len(pids) == 3
    miniray.shutdown()
    wait_until(lambda: not any(map(is_there, pids.values())))
    deployment.stop()
    assert deployment.pids() == {} and not os.path.exists(place_of(deployment.address))


def test_the_death_of_the_node_is_reported_at_once_with_its_cause(run_program, tmp_path):
    """The program waits for the parameter server, not for the runtime. Nothing is left in the temporary folder."""
    folder = tmp_path / "t"
    folder.mkdir()
    lines = run_program("""
        import os, signal, time
        import miniray
        from miniray import _core, ps
        miniray.init(num_workers=1)
        deployment = ps.start(num_servers=2)
        connection = deployment.connect()
        table = connection.table("rows", dim=1)
        table.push([1], [1])
        assert table.pull([1]).tolist() == [1]
        print(os.path.dirname(deployment.address.removeprefix("unix:")))
        os.kill(_core.look("nodes", 1)["nodes"][0]["pid"], signal.SIGKILL)
        began = time.monotonic()
        try:
            while True:
                table.pull([1])
        except ps.PsError as error:
            print(error)
        print(time.monotonic() - began)
    """, environment=[("TMPDIR", str(folder))]).stdout.splitlines()
    assert re.search(r"the node \(process \d+\), which runs it, was killed by signal 9 \(SIGKILL\)", lines[1]), lines
    assert float(lines[2]) < 10
    wait_until(lambda: not os.path.exists(lines[0]))
    left = [name for path, _, names in os.walk(folder) for name in names if not name.endswith(".log")]
    assert left == [], left
