"""Training with several workers.

    class MyTrainer(miniray.train.DataParallelTrainer):
        def create_worker(self, worker_id, **kwargs):
            return MyWorker.remote(worker_id)

    with MyTrainer(num_workers=4) as trainer:
        result = trainer.train(epochs=10)

README.md in this folder has the details.
"""

from miniray.train.callbacks import Callback, CSVLogger, EarlyStopping, JSONLLogger, TensorBoardLogger
from miniray.train.checkpoint import load_weights, save_weights
from miniray.train.data import ShardSampler, shard_indices
from miniray.train.trainer import BaseTrainer, DataParallelTrainer

__all__ = [
    "BaseTrainer", "CSVLogger", "Callback", "DataParallelTrainer", "EarlyStopping", "JSONLLogger", "ShardSampler",
    "TensorBoardLogger", "load_weights", "save_weights", "shard_indices",
]
