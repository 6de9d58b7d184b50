"""Two trainers on miniray.train: a classifier, and one with an epoch of its own.

    python examples/train_framework_demo.py
    python examples/train_framework_demo.py --dataset cifar10 --path ~/cifar-10-batches-py

The model uses NumPy (ml/classifier.py); a torch model has the same interface.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for ml/

import miniray  # noqa: E402  the path comes first
from miniray.train import BaseTrainer, DataParallelTrainer  # noqa: E402
from ml import classifier, datasets  # noqa: E402

ClassificationWorker = miniray.remote(classifier.ClassifierWorker)


class ClassificationTrainer(DataParallelTrainer):
    """Data parallel: each worker has a shard of the images, and every few epochs their models are averaged."""

    def __init__(self, num_workers=4, lr=0.3, **options):
        super().__init__(num_workers=num_workers, sync_interval=2, **options)
        self.lr = lr

    def create_worker(self, worker_id, **kwargs):
        return ClassificationWorker.remote(worker_id, lr=self.lr)

    def on_train_end(self, history, **kwargs):
        result = super().on_train_end(history, **kwargs)
        result["test_accuracy"] = miniray.get(self.workers[0].evaluate.remote())
        return result


class PopulationTrainer(BaseTrainer):
    """A custom epoch: all workers have all images but different learning rates, and continue from the best weights."""

    def create_worker(self, worker_id, **kwargs):
        return ClassificationWorker.remote(worker_id, lr=0.05 * 2**worker_id)

    def on_train_start(self, dataset="digits", path=None, **kwargs):
        miniray.get([w.load_data_shard.remote(0, 1, dataset=dataset, path=path) for w in self.workers])

    def train_epoch(self, epoch, **kwargs):
        results = miniray.get([w.train_epoch.remote(epoch) for w in self.workers])
        best = min(range(len(results)), key=lambda i: results[i]["loss"])
        weights = self.workers[best].get_weights.remote()
        for worker in self.workers:
            worker.set_weights.remote(weights)  # a future: the weights are never sent to this process
        return {**results[best], "best": best}

    def on_train_end(self, history, **kwargs):
        return {"history": history, "test_accuracy": miniray.get(self.workers[0].evaluate.remote())}


def main():
    parser = argparse.ArgumentParser(description="Two trainers on miniray.train.")
    parser.add_argument("--dataset", default="digits", help=" or ".join(datasets.DATASETS))
    parser.add_argument("--path", help="directory of the dataset (not needed for digits)")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    try:
        datasets.load(args.dataset, args.path)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    data = {"dataset": args.dataset, "path": args.path}

    print("Classification: data in parallel")
    with ClassificationTrainer(num_workers=args.workers) as trainer:
        result = trainer.train(epochs=args.epochs, **data)
        print(f"test accuracy: {result['test_accuracy']:.2%}, after {result['sync']['num_syncs']} syncs\n")

    print("A custom trainer: a population of learning rates")
    with PopulationTrainer(num_workers=args.workers) as trainer:
        result = trainer.train(epochs=max(1, args.epochs // 2), **data)
        rates = [f"{0.05 * 2 ** one['best']:g}" for one in result["history"]]
        print(f"test accuracy: {result['test_accuracy']:.2%}; the best learning rates were {', '.join(rates)}")


if __name__ == "__main__":
    main()
