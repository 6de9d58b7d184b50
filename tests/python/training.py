"""Helpers for tests of miniray.train: a worker, a trainer, and trainers that are shut down at the end."""

import os
import signal

import numpy as np
import pytest

import miniray
from miniray.train import BaseTrainer, DataParallelTrainer


class Plain:
    """A worker whose weights depend on its arguments only. A file in `folder` with the worker's name kills it, once."""

    def __init__(self, worker_id, folder=None):
        self.id, self.folder, self.shard, self.batch_size = worker_id, folder, None, None
        self.weights = [np.full(3, float(worker_id)), np.arange(4, dtype=np.float32)]

    def load_data_shard(self, shard_id, num_shards, batch_size=1):
        self.shard, self.batch_size = (shard_id, num_shards), batch_size

    def train_epoch(self, epoch):
        self.stumble(f"train-{self.id}-{epoch}")
        self.weights[0] = self.weights[0] * 0.5 + self.id + epoch
        return {"loss": float(self.weights[0][0]), "samples": 10, "shard": self.shard, "batch_size": self.batch_size}

    def get_weights(self):
        self.stumble(f"get-{self.id}")
        return [each.copy() for each in self.weights]

    def set_weights(self, weights):
        self.stumble(f"set-{self.id}")
        self.weights = [np.array(each) for each in weights]

    def stumble(self, name):
        try:
            os.unlink(os.path.join(self.folder or "", name))
        except OSError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    def seen(self):
        return self.shard, self.batch_size


Worker = miniray.remote(Plain)


class Quiet(DataParallelTrainer):
    def __init__(self, *args, folder=None, **kwargs):
        super().__init__(*args, display="quiet", **kwargs)
        self.folder = None if folder is None else str(folder)

    def create_worker(self, worker_id, **kwargs):
        return Worker.remote(worker_id, self.folder)


@pytest.fixture
def train(ray):
    """Creates trainers that are shut down at the end."""
    made = []

    def make(cls=Quiet, *args, **kwargs):
        made.append(cls(*args, **kwargs))
        return made[-1]
    yield make
    for trainer in made:
        trainer.shutdown()


class Says(BaseTrainer):
    """A trainer whose workers return say(worker id) as the result of an epoch."""

    def __init__(self, num_workers, say):
        super().__init__(num_workers, display="quiet")
        self.say = say

    def create_worker(self, worker_id, **kwargs):
        @miniray.remote
        class Sayer:
            def __init__(self, worker_id, say):
                self.id, self.say = worker_id, say

            def train_epoch(self, epoch):
                return self.say(self.id)
        return Sayer.remote(worker_id, self.say)
