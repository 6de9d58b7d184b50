"""Names that the mistakes of messages.txt use, as a user's program might define them. The runtime has two workers."""

import asyncio
import os
import threading
import time
import warnings

import numpy as np

import miniray
from miniray import ps
from miniray.ps import ParameterServer, SyncStrategy, create_parameter_server
from miniray.train import (BaseTrainer, Callback, CSVLogger, DataParallelTrainer, EarlyStopping, load_weights, save_weights,
                           shard_indices)
from miniray.util import ActorPool, collective, metrics
from miniray.util.placement_group import get_placement_group, placement_group, remove_placement_group
from miniray.util.queue import Queue
from miniray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy


@miniray.remote
def add(a, b=0):
    return a + b


@miniray.remote
def sleep(seconds):
    time.sleep(seconds)


@miniray.remote
class Counter:
    def __init__(self, start=0):
        self.count = start

    def increment(self, by=1):
        self.count += by
        return self.count

    def exit(self):
        os._exit(3)

    def wait(self):
        time.sleep(60)


@miniray.remote
class Fragile:
    def __init__(self, path):
        self.file = open(path)

    def read(self):
        return self.file.read()


class Worker:
    """A worker of trainers."""

    def __init__(self, worker_id=0, weights=None):
        self.weights = [np.zeros(3)] if weights is None else weights

    def train_epoch(self, epoch):
        return {"loss": 1.0 / (epoch + 1)}

    def get_weights(self):
        return self.weights

    def set_weights(self, weights):
        self.weights = weights


RemoteWorker = miniray.remote(Worker)


def trained(worker, epochs=1, **options):
    """Trains with workers of this class."""
    with DataParallelTrainer(1, worker_class=worker, display="quiet", **options) as trainer:
        return trainer.train(epochs)
