"""Helpers for tests of miniray.ps with NumPy models: a worker, models, and a user strategy."""

import os

import numpy as np
import pytest

from miniray.ps import STRATEGIES, SyncStrategy

NAMES = ["average", "weighted", "momentum", "median", "trimmed_mean", "max"]

class Worker:
    """A worker whose model is made of lists, dicts or both; a step adds to all its floats."""

    def __init__(self, weights):
        self.weights, self.errors = weights, {}

    def get_weights(self):
        self.stumble("get_weights")
        return self.weights

    def set_weights(self, weights):
        self.stumble("set_weights")
        self.weights = weights

    def stumble(self, method):
        if self.errors.get(method) is not None:
            raise self.errors[method]

    def add(self, amount):
        for at, array in enumerate(self.weights):
            if array.flags.writeable:
                array += amount
            else:  # a read-only array, as passed to the constructor
                self.weights[at] = array + amount

    def fail(self, error, method="get_weights"):
        self.errors = {method: error}

    def is_writable(self):
        return all(array.flags.writeable for array in self.weights)

    def pid(self):
        return os.getpid()


@pytest.fixture
def hire(ray):
    worker = ray.remote(Worker)
    return lambda *models: [worker.remote(model) for model in models]


def rows(*values):
    """Models of two tensors, all of whose floats are equal; the first is too large for messages."""
    return [[np.full((200, 200), value, np.float32), np.full(3, value, np.float64)] for value in values]


def blend(weight_lists, share=0.5):
    return [share * first + (1 - share) * last for first, *_, last in zip(*weight_lists)]


def weights_of(ray, workers):
    return ray.get([worker.get_weights.remote() for worker in workers])


class Mine(SyncStrategy):
    """A user strategy: the first worker's weights plus the sum of all worker_weights."""

    seen = None

    def aggregate(self, weight_lists):
        return [sum(self.worker_weights.values()) + each for each in weight_lists[0]]


@pytest.fixture
def mine():
    STRATEGIES["mine"] = Mine
    yield
    del STRATEGIES["mine"]
