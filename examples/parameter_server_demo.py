"""The strategies of the parameter server, side by side.

    python examples/parameter_server_demo.py

Four workers train a classifier of handwritten digits, each on its own images: the first has a tenth of them, the last
has four tenths. After every epoch the server aggregates the four models. In a second run the last worker has wrong
labels, and strategies differ in the effect of its model on the result.

The last strategy of the table is a custom one, defined below in five lines.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for ml/

import numpy as np  # noqa: E402  the path comes first

import miniray  # noqa: E402
from miniray.ps import STRATEGIES, SyncStrategy, create_parameter_server  # noqa: E402
from ml import digits  # noqa: E402
from ml.classifier import Classifier  # noqa: E402

SHARES = (0.1, 0.2, 0.3, 0.4)  # of the images, for each worker
OPTIONS = {"momentum": {"momentum": 0.5}, "trimmed_mean": {"trim": 0.25}}  # of strategies


class MiddleStrategy(SyncStrategy):
    """The mean of the smallest and the largest value. Any class with `aggregate` is a strategy."""

    def aggregate(self, weight_lists):
        return [(np.minimum.reduce(same) + np.maximum.reduce(same)) / 2 for same in zip(*weight_lists)]


STRATEGIES["middle"] = MiddleStrategy


@miniray.remote
class TrainingWorker:
    def __init__(self, worker_id, is_wrong):
        train, _ = digits.load()
        ends = np.round(np.cumsum((0, *SHARES)) * len(train.y)).astype(int)
        own = np.random.default_rng(0).permutation(len(train.y))[ends[worker_id] : ends[worker_id + 1]]
        self.x, self.y = train.x[own], (train.y[own] + is_wrong) % digits.CLASSES
        self.model, self.random = Classifier(), np.random.default_rng(worker_id)

    def get_weights(self):
        return self.model.weights

    def set_weights(self, weights):
        self.model.weights = [np.array(weight) for weight in weights]

    def train_epoch(self):
        order = self.random.permutation(len(self.y))
        for batch in np.array_split(order, -(-len(order) // 16)):
            self.model.step(self.x[batch], self.y[batch], lr=0.2)


def accuracy_with(strategy, options, epochs, is_wrong):
    """Trains with one strategy; returns (accuracy of the global model on the test images, statistics of the server)."""
    ps = create_parameter_server(strategy, **options)
    workers = [TrainingWorker.remote(i, is_wrong and i == 3) for i in range(len(SHARES))]
    if strategy == "weighted":
        for i, share in enumerate(SHARES):
            miniray.get(ps.set_worker_weight.remote(i, share))
    for _ in range(epochs):
        for worker in workers:
            worker.train_epoch.remote()
        ps.sync_from_workers.remote(workers)  # no wait is needed: calls of one caller keep their order
    model = Classifier()
    model.weights = miniray.get(ps.pull_weights.remote())
    return model.accuracy(digits.load()[1]), miniray.get(ps.get_stats.remote())


def main():
    parser = argparse.ArgumentParser(description="The strategies of the parameter server, side by side.")
    parser.add_argument("--epochs", type=int, default=15)
    epochs = max(1, parser.parse_args().epochs)
    miniray.init(num_workers=len(SHARES))
    images = len(digits.load()[1].y)
    print(f"{len(SHARES)} workers, {epochs} epochs, a sync after each; accuracy on {images} test images\n")
    print(f"{'strategy':14}{'all right':>10}{'one wrong':>11}{'syncs':>7}   of the class")
    for strategy in STRATEGIES:
        options = OPTIONS.get(strategy, {})
        right, stats = accuracy_with(strategy, options, epochs, is_wrong=False)
        wrong, _ = accuracy_with(strategy, options, epochs, is_wrong=True)
        print(f"{strategy:14}{right:10.1%}{wrong:11.1%}{stats['num_syncs']:7}   {stats['strategy']}", flush=True)
    miniray.shutdown()


if __name__ == "__main__":
    main()
