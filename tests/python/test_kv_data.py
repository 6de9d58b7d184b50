"""Data for workers: every item once in an epoch, by any worker; and invalid requests."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from miniray import ps

SIZES, EPOCHS = [40, 7, 25], 3
ITEMS = sum(SIZES)


def keys_of(batch):
    first = batch.epoch * ITEMS + sum(SIZES[:batch.shard])
    return np.arange(first + batch.start, first + batch.stop, dtype=np.uint64)


def learn(deployment, rank, seen, pause=0.0):
    with deployment.connect(rank) as connection:
        table = connection.table("items", dim=1)
        for batch in connection.dataset(SIZES, batch=4).batches(EPOCHS):
            assert isinstance(batch, ps.Batch) and 0 < batch.stop - batch.start <= 4
            table.push(keys_of(batch), np.ones(batch.stop - batch.start, np.float32))
            seen.append(batch)
            time.sleep(pause)
        connection.flush()


def counts(deployment):
    """The counts, pulled by the rank that is still in the rounds, if there are rounds: the others have left."""
    for rank in range(3):
        with ps.connect(deployment.address, rank, timeout=60 if rank == 2 else 3) as connection:
            try:
                table = connection.table("items", dim=1)
                return table.pull(np.arange(ITEMS * EPOCHS, dtype=np.uint64))
            except ps.PsTimeoutError:
                assert rank < 2


@pytest.mark.parametrize("consistency", ["asp", "bsp"])
def test_every_item_is_used_once_in_an_epoch(consistency):
    with ps.start(num_servers=2, num_workers=3, consistency=consistency) as deployment:
        seen = [[] for _ in range(3)]
        threads = [threading.Thread(target=learn, args=(deployment, rank, seen[rank])) for rank in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(batch.stop - batch.start for batches in seen for batch in batches) == ITEMS * EPOCHS
        assert (counts(deployment) == 1).all()
        data = deployment.overview()["data"]
        assert data["shards"] == 3 and data["items"] == ITEMS and data["epoch"] >= EPOCHS


WORKER = """
import sys, time
sys.path.insert(0, sys.argv[2])
import test_kv_data
from miniray import ps

class There:
    def connect(self, rank):
        return ps.connect(sys.argv[1], rank)

print("ready", flush=True)
test_kv_data.learn(There(), 1, [], pause=0.005)
"""


def test_a_worker_that_is_killed_is_played_again(tmp_path):
    def start(address):
        here = os.path.dirname(os.path.abspath(__file__))
        return subprocess.Popen([sys.executable, "-c", WORKER, address, here], stdout=subprocess.PIPE)

    with ps.start(num_servers=2, num_workers=2) as deployment:
        worker, seen = start(deployment.address), []
        assert worker.stdout.readline() == b"ready\n"
        thread = threading.Thread(target=learn, args=(deployment, 0, seen, 0.02))
        thread.start()
        while len(seen) < 6 and thread.is_alive():
            time.sleep(0.01)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        worker = start(deployment.address)
        thread.join()
        assert worker.wait(60) == 0
        assert (counts(deployment) == 1).all()


def test_a_batch_is_that_of_the_open_step():
    with ps.start(num_workers=1) as deployment, deployment.connect() as connection:
        dataset = connection.dataset([10], batch=3)
        with pytest.raises(ps.StaleError, match="no step is open"):
            dataset.next_batch()
        found = []
        for step in connection.steps(4):
            found.append(dataset.next_batch())
            assert dataset.next_batch() == found[-1]
        assert found == [ps.Batch(0, 0, 0, 3), ps.Batch(0, 0, 3, 6), ps.Batch(0, 0, 6, 9), ps.Batch(0, 0, 9, 10)]
        assert np.arange(10)[found[1].slice].tolist() == [3, 4, 5]


def test_what_cannot_be_is_told():
    with ps.start(num_workers=1) as deployment, deployment.connect() as connection:
        assert deployment.overview()["data"] is None
        for wrong in ([], [3, 0], [3, -1], [2**57]):
            with pytest.raises(ValueError):
                connection.dataset(wrong)
        for wrong in (7, "77", None, [1.5], [True]):
            with pytest.raises(TypeError):
                connection.dataset(wrong)
        for wrong in (0, -1, 2**32 + 1):
            with pytest.raises(ValueError, match="batch"):
                connection.dataset([3], batch=wrong)
        connection.dataset([3, 4])
        connection.dataset(np.array([3, 4]))
        with pytest.raises(ValueError, match="is defined: shard 1 has 4 items, not 5"):
            connection.dataset([3, 5])
