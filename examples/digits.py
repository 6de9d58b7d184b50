"""Handwritten digits on all cores, with a worker that is killed on the way: what `make run` shows.

    python examples/digits.py

Each worker has a shard of the images and its own copy of the model; after every epoch the parameter server averages the
models. Halfway one worker is killed with SIGKILL. The trainer replaces it by a worker with the weights of the last sync,
which repeats the lost work; so the final model has the same bits as in a training without the kill.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for ml/

import numpy as np  # noqa: E402  the path comes first

import miniray  # noqa: E402
from miniray.train import DataParallelTrainer  # noqa: E402
from ml import digits  # noqa: E402
from ml.classifier import Classifier, ClassifierWorker  # noqa: E402

HIDDEN = 512
STEPS = ("gather", "aggregate", "scatter")  # of a sync


@miniray.remote
class Worker(ClassifierWorker):
    def pid(self):
        return os.getpid()


class DigitsTrainer(DataParallelTrainer):
    def __init__(self, num_workers, kill_at=None, **options):
        super().__init__(num_workers=num_workers, max_failures=1, **options)
        self.kill_at, self.seconds = kill_at, dict.fromkeys(STEPS, 0.0)

    def create_worker(self, worker_id, **kwargs):
        return Worker.remote(worker_id, batch_size=8, hidden=HIDDEN)

    def on_epoch_start(self, epoch, **kwargs):
        if epoch == self.kill_at:
            pid = miniray.get(self.workers[-1].pid.remote())
            print(f"  kill -9 {pid}: worker {self.num_workers - 1} is gone", flush=True)
            os.kill(pid, signal.SIGKILL)

    def on_epoch_end(self, epoch, result, **kwargs):
        stats = self.get_sync_stats()
        for step in STEPS:
            self.seconds[step] += stats[f"{step}_s"]
        if self.display == "quiet" and self.kill_at is not None and (epoch + 1) % 10 == 0:
            print(f"  epoch {epoch + 1}: loss {result['loss']:.4f}, accuracy {result['accuracy']:.1%}", flush=True)

    def on_train_end(self, history, **kwargs):
        return self.get_weights()


def train(workers, epochs, **options):
    """Returns (final weights, seconds of the training, seconds of each step)."""
    began = time.monotonic()
    with DigitsTrainer(workers, **options) as trainer:
        weights = trainer.train(epochs=epochs)
        took, report = time.monotonic() - began, trainer.report()
    return weights, took, {"compute": report["train_s"], **trainer.seconds}


def arguments():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description="Handwritten digits on all cores; a worker is killed on the way.")
    parser.add_argument("--workers", type=int, default=min(max(cores, 2), 16), help="number of workers (default: cores)")
    parser.add_argument("--epochs", type=int, default=30, help="passes over the images (default: 30)")
    args = parser.parse_args()
    if args.workers < 1 or args.epochs < 2:
        parser.error("it takes a worker at least, and two epochs")
    return args


def main():
    args = arguments()
    images, unseen = digits.load()
    model = Classifier(hidden=HIDDEN)
    numbers = sum(weight.size for weight in model.weights)
    print(f"Miniray {miniray.__version__}: handwritten digits\n\n"
          f"  {args.workers} workers have {len(images.y):,} images between them, and a model of {numbers:,} numbers "
          f"each.\n"
          f"  After every epoch the parameter server makes one model of theirs.\n", flush=True)
    display = "live" if sys.stdout.isatty() else "quiet"
    weights, took, seconds = train(args.workers, args.epochs, kill_at=args.epochs // 2, display=display)
    undisturbed, _, _ = train(args.workers, args.epochs, display="quiet")
    same = all(np.array_equal(a, b) for a, b in zip(weights, undisturbed))
    model.weights = weights
    parts = {**seconds, "the rest": max(0.0, took - sum(seconds.values()))}
    split = ", ".join(f"{name} {part / took:.1%}" for name, part in parts.items())
    print(f"\n  accuracy     {model.accuracy(unseen):.1%} of {len(unseen.y)} images that no worker has seen\n"
          f"  after kill   {'the same bits as' if same else 'OTHER BITS THAN'} a training that nobody disturbed\n"
          f"  time         {took:.1f} s: {split}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
