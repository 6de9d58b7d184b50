"""Steps of several workers: rounds, replays, and the same bits whichever process dies."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from miniray import ps

RANKS, STEPS, DIM = 3, 12, 5


def train(deployment, rank, after_step=lambda step: None):
    """Three ranks pull the weights and a batch of rows, and push a function of both; returns the final values."""
    chance = [np.random.default_rng([rank, step]) for step in range(STEPS)]
    with deployment.connect(rank) as connection:
        dense = connection.table("dense", arrays={"w": (7, DIM)}, optimizer="adam", lr=0.05)
        sparse = connection.table("sparse", dim=DIM, optimizer="adagrad", lr=0.1, initializer="normal:0:1")
        for step in connection.steps(STEPS):
            keys = chance[step].integers(0, 40, 25)
            weights, rows = dense.pull()["w"], sparse.pull(keys)
            noise = chance[step].normal(size=(7, DIM)).astype(np.float32)
            dense.push({"w": weights * rows.mean(0) + noise})
            sparse.push(keys, rows * weights.sum() / 100 + noise[0])
            after_step(step)
        return dense.pull()["w"], sparse.pull(np.arange(40))


def train_all(deployment, after_step=lambda step: None):
    found = [None] * RANKS

    def run(rank):
        found[rank] = train(deployment, rank, after_step if rank == 0 else lambda step: None)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in found[1:]:
        assert all(np.array_equal(mine, theirs) for mine, theirs in zip(found[0], other))
    return found[0]


def test_the_same_bits_when_servers_are_killed():
    with ps.start(num_servers=3, replicas=2, num_workers=RANKS, consistency="bsp") as deployment:
        undisturbed = train_all(deployment)

    def kill(step):
        if step == STEPS // 2:
            os.kill(deployment.pids()[1], signal.SIGKILL)

    with ps.start(num_servers=3, replicas=2, num_workers=RANKS, consistency="bsp") as deployment:
        disturbed = train_all(deployment, kill)
    assert all(np.array_equal(one, two) for one, two in zip(undisturbed, disturbed))
    assert np.isfinite(undisturbed[0]).all() and np.abs(undisturbed[0]).max() > 0


def test_steps_go_on_when_everything_went_back():
    with ps.start(num_servers=1, num_workers=1, consistency="bsp") as deployment, deployment.connect(0) as connection:
        table, killed, played = connection.table("sum", dim=1), False, 0
        for step in connection.steps(20):
            table.push([1], [1])  # sent with the end of the step, so no error reports that this step was void
            played += 1
            if step == 10 and not killed:
                killed = os.kill(deployment.pids()[0], signal.SIGKILL) is None
                time.sleep(1)
        assert played > 20 and table.pull([1]).tolist() == [20]


WORKER = """
import os, sys
from miniray import ps
with ps.connect(sys.argv[1], 0) as connection:
    table = connection.table("sum", dim=1)
    for step in connection.steps(6):
        table.push([1, step + 10], [1, step])
        if step == int(sys.argv[2]):
            os._exit(9)
        print(step, end=" ")
    print(table.pull([1, 13]).tolist())
"""


def test_a_worker_that_is_started_again_goes_on(run_program):
    with ps.start(num_servers=1, num_workers=1, consistency="asp") as deployment:
        run_program("", arguments=["-c", WORKER, deployment.address, "3"], code=9)
        done = run_program("", arguments=["-c", WORKER, deployment.address, "99"])
    assert done.stdout == "3 4 5 [6.0, 3.0]\n"


def test_a_round_has_the_version_of_its_step():
    with ps.start(num_servers=1, num_workers=1, consistency="bsp") as deployment, deployment.connect() as connection:
        table = connection.table("rounds", dim=1)
        values = np.ones(1, np.float32)
        for step in connection.steps(4):
            assert table.pull([1]).tolist() == [step]
            table.push([1], values)
            values[0] = 1e6  # a later change of the array does not change the push
            assert table.pull([1]).tolist() == [step]
            values[0] = 1
        ticket = table.push_pull([1], values, wait=False)
        with pytest.raises(ValueError, match="after end"):
            table.push_pull([1], values)
        connection.end()
        assert ticket.wait().tolist() == [5]


def test_each_table_has_its_own_consistency():
    with ps.start(num_servers=1, num_workers=1, mixed_consistency=True) as deployment, deployment.connect() as connection:
        tables = {name: connection.table(name, dim=1, consistency=name) for name in ("bsp", "ssp:2", "asp")}
        plain = connection.table("plain", dim=1)
        assert [table.options["consistency"] for table in (*tables.values(), plain)] == ["bsp", "ssp:2", "asp", "asp"]
        for step in connection.steps(3):
            for name, table in tables.items():
                table.push([5], [1])
                assert table.pull([5]).tolist() == [step if name == "bsp" else step + 1]
        assert [table.pull([5]).tolist() for table in tables.values()] == [[3], [3], [3]]
        with pytest.raises(TypeError, match="consistency must be a str"):
            connection.table("other", consistency=2)
        with pytest.raises(ValueError, match="unknown consistency 'ssp'"):
            connection.table("other", consistency="ssp")
        with pytest.raises(ps.TableExistsError, match="another consistency"):
            connection.table("plain", dim=1, consistency="bsp")
    with ps.start(num_servers=1, num_workers=1, slots=1) as deployment, deployment.connect() as connection:
        with pytest.raises(ValueError, match="mixed"):
            connection.table("rounds", consistency="bsp")


def test_a_round_closes_without_a_backup_worker():
    with ps.start(num_servers=1, num_workers=2, consistency="bsp", backup_workers=1) as deployment, \
            deployment.connect(0) as fast, deployment.connect(1) as slow:
        ours, theirs = (connection.table("sums", dim=1) for connection in (fast, slow))
        assert slow.begin() == 0
        for _ in fast.steps(10):
            ours.push([1], [1])
        with pytest.raises(ps.StaleError, match="closed without rank"):  # the round of this rank's step has closed
            theirs.pull([1])
        assert slow.begin() == 10
        theirs.push([1], [1])
        slow.end()
        assert slow.begin() == 11 and theirs.pull([1]).tolist() == [11]
        late = ours.push([1], [1], wait=False)  # in step 10, whose round was closed without this rank
        fast.end()
        with pytest.raises(ps.StaleError, match="which was late"):
            late.wait()
        assert fast.begin() == 11 and ours.pull([1]).tolist() == [11]


def test_who_is_late_is_left_out_after_the_deadline():
    with ps.start(num_servers=1, num_workers=2, consistency="bsp", deadline=0.2) as deployment, \
            deployment.connect(0) as fast, deployment.connect(1) as slow:
        table = fast.table("sums", dim=1)
        slow.table("sums", dim=1)
        began = time.monotonic()
        for _ in fast.steps(3):
            table.push([1], [1])
        assert time.monotonic() - began >= 3 * 0.2 and table.pull([1]).tolist() == [3]


def test_requests_need_a_step():
    with ps.start(num_servers=1, num_workers=1) as deployment, deployment.connect() as connection:
        table = connection.table("steps", dim=1)
        assert table.pull([1]).tolist() == [0]  # a program without steps is in a single step
        assert connection.begin() == 0 and connection.begin() == 0
        connection.end()
        for ask in (connection.end, lambda: table.pull([1]), lambda: table.push([1], [1])):
            with pytest.raises(ps.StaleError, match="no step is open"):
                ask()
        assert connection.begin() == 1
        connection.flush()


def test_two_processes_of_one_rank():
    with ps.start(num_servers=1, num_workers=1) as deployment, deployment.connect(0) as first:
        assert first.begin() == 0
        with deployment.connect(0) as second:
            second.table("x", dim=1).push([1], [1])
            with pytest.raises(ps.RankTakenError):
                for _ in first.steps():
                    first.flush(30)


def test_a_round_waits_for_all_and_says_so():
    with ps.start(num_servers=1, num_workers=2, consistency="bsp") as deployment, deployment.connect(0) as connection:
        assert connection.begin() == 0
        connection.end()
        with pytest.raises(ps.PsTimeoutError, match="other ranks have not ended theirs"):
            connection.begin(timeout=0.2)


def test_a_rank_that_leaves_is_not_waited_for():
    with ps.start(num_workers=2, consistency="bsp") as deployment:

        def end_early():
            with deployment.connect(1) as connection:
                table = connection.table("sum", dim=1)
                for _ in connection.steps(3):
                    table.push([7], np.ones(1, np.float32))
                with pytest.raises(ps.errors.PsError, match="step 3 is open"):
                    connection.leave()
                connection.end()
                connection.leave()

        other = threading.Thread(target=end_early)
        other.start()
        with deployment.connect(0) as connection:
            table = connection.table("sum", dim=1)
            for _ in connection.steps(12):
                table.push([7], np.ones(1, np.float32))
            other.join()
            assert table.pull([7])[0] == 15


@pytest.mark.parametrize("options, values", [
    ({"dim": 1}, ([1], [1.0])), ({"kind": "vectors"}, ([1], [[1.0, 2.0]])), ({"arrays": {"w": 2}}, ({"w": [1.0, 2.0]},))])
def test_a_push_without_a_step_says_what_is_missing(options, values):
    with ps.start(num_servers=1, consistency="bsp", actors=False) as deployment, deployment.connect() as connection:
        table = connection.table("t", **options)
        for push in (table.push, table.set, lambda *values: table.push(*values, wait=False)):
            with pytest.raises(ps.StaleError, match="table 't' is bsp, and no step is open: .*connection.steps"):
                push(*values)
        if "dim" in options:
            with pytest.raises(ps.StaleError, match="no step is open"):
                table.push_pull(*values, wait=False)
        for _ in connection.steps(2):
            table.push(*values)
        assert table.pull({"dim": [1], "kind": [1], "arrays": None}[next(iter(options))]) is not None


def test_a_pull_without_a_step_shows_the_last_step():
    with ps.start(num_servers=1, consistency="bsp", actors=False) as deployment:
        with deployment.connect(0) as connection:
            table = connection.table("t", dim=1)
            for _ in connection.steps(3):
                table.push([5], [1.0])
        with deployment.connect(0) as connection:
            assert connection.table("t").pull([5]).tolist() == [3]
