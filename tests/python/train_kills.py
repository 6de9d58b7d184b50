"""train_kills.py SEEDS PERIOD_S EPOCHS: learns the handwritten digits, once undisturbed and once with a random worker
killed every PERIOD_S seconds, for each seed. The accuracies must be within 1 %. The work of workers depends only on
weights, shard and epoch, so the weights must have the same bits."""

import os
import random
import sys
import threading

import numpy as np

import miniray
from miniray.train import Callback, DataParallelTrainer, shard_indices

DIGITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "digits.txt")


def load(is_test):
    with open(DIGITS) as file:
        rows = [line.split() for i, line in enumerate(file) if (i % 7 == 6) == is_test]
    images = np.array([[int(c, 17) for c in pixels] for _, pixels in rows]) / 16.0
    return np.concatenate([images, np.ones((len(rows), 1))], 1), np.array([int(label) for label, _ in rows])


class Softmax:
    def __init__(self, worker_id, seed):
        self.seed, self.weights = seed, np.random.default_rng(seed).normal(0, 0.01, (65, 10))

    def load_data_shard(self, shard_id, num_shards):
        images, labels = load(False)
        own = shard_indices(len(labels), shard_id, num_shards, seed=self.seed)
        self.images, self.targets = images[own], np.eye(10)[labels[own]]

    def train_epoch(self, epoch):
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.images))
        loss = 0.0
        for batch in np.array_split(order, len(order) // 16):
            scores = self.images[batch] @ self.weights
            guess = np.exp(scores - scores.max(1, keepdims=True))
            guess /= guess.sum(1, keepdims=True)
            loss -= float(np.log((guess * self.targets[batch]).sum(1)).sum())
            self.weights -= 0.5 * self.images[batch].T @ (guess - self.targets[batch]) / len(batch)
        return {"loss": loss / len(order), "samples": len(order)}

    def get_weights(self):
        return [self.weights]

    def set_weights(self, weights):
        self.weights = np.array(weights[0])


class Killer(Callback):
    """Kills a random worker every `period` seconds, but at most one per epoch, so that training always progresses. At
    least one worker dies."""

    def __init__(self, period, seed):
        self._period, self._chance, self._is_over, self._epoch = period, random.Random(seed), threading.Event(), None

    def on_train_start(self, trainer):
        self._thread = threading.Thread(target=self._run, args=(trainer,))
        self._thread.start()

    def on_epoch_start(self, trainer, epoch):
        self._epoch = epoch
        if epoch == 1:
            miniray.kill(trainer.workers[-1])

    def on_train_end(self, trainer, history):
        self._is_over.set()
        self._thread.join()

    def _run(self, trainer):
        struck = 1
        while not self._is_over.wait(self._period):
            if self._epoch not in (struck, 1):
                struck = self._epoch
                miniray.kill(self._chance.choice(trainer.workers))


def train(seed, period, epochs):
    """(accuracy, weights, deaths)"""
    callbacks = [Killer(period, seed)] if period > 0 else []
    trainer = DataParallelTrainer(3, worker_class=Softmax, max_failures=100000, display="quiet", callbacks=callbacks)
    trainer.train(epochs=epochs, seed=seed)
    weights = np.array(trainer.get_weights()[0])
    deaths = trainer.report()["failures"]
    trainer.shutdown()
    images, labels = load(True)
    return float(np.mean((images @ weights).argmax(1) == labels)), weights, deaths


def main(seeds, period, epochs):
    miniray.init(num_workers=3)
    calm = [train(seed, 0, epochs) for seed in range(seeds)]
    disturbed = [train(seed, period, epochs) for seed in range(seeds)]
    means = [sum(accuracy for accuracy, _, _ in runs) / seeds for runs in (calm, disturbed)]
    deaths = sum(deaths for _, _, deaths in disturbed)
    print(f"{seeds} seeds: accuracy {means[0]:.4f} undisturbed, {means[1]:.4f} with {deaths} workers killed")
    assert means[0] >= 0.9 and abs(means[0] - means[1]) <= 0.01 and deaths > 0
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(calm, disturbed)), "the weights differ"
    miniray.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
