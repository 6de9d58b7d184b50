"""Callbacks: methods that run at the same moments as a trainer's hooks, without a subclass of the trainer.

    trainer = MyTrainer(num_workers=4, callbacks=[EarlyStopping("loss", patience=3), CSVLogger("history.csv")])
"""

from __future__ import annotations

import math

from miniray import _core
from miniray._core_api import did_you_mean
from miniray._core_api.tracebacks import public, public_module
from miniray._weights import _weight_tree
from miniray.train.data import as_number

_LISTED_MAX = 1000  # size of the largest array that is written into a line of JSON


class Callback:
    """Base of callbacks; a subclass overrides the methods that it needs."""

    def on_train_start(self, trainer) -> None:
        """Called before the first epoch, when the workers have their shards."""

    def on_epoch_start(self, trainer, epoch) -> None:
        """Called before each epoch."""

    def on_epoch_end(self, trainer, epoch, result) -> None:
        """Called after each epoch with its result; changes of `result` go into the history."""

    def on_train_end(self, trainer, history) -> None:
        """Called at the end of the training, also after an error or Ctrl-C."""


@public
class EarlyStopping(Callback):
    """Stops the training when a number has not improved for `patience` epochs.

    `mode` is "min" (a loss) or "max" (an accuracy). A change below `min_delta` is no improvement. `best` and
    `best_epoch` hold the best value and its epoch.
    """

    def __init__(self, monitor="loss", *, patience=3, min_delta=0.0, mode="min") -> None:
        if mode not in ("min", "max"):
            raise did_you_mean.one_of("mode", mode, ("min", "max"))
        if not isinstance(monitor, str):
            raise TypeError(f"monitor must be the name of a number of the result, not {monitor!r}")
        if patience < 1:
            raise ValueError(f"patience is {patience}: it must be at least 1 epoch")
        self.monitor, self.patience, self.min_delta, self.mode = monitor, patience, min_delta, mode
        self.best = self.best_epoch = None

    def on_train_start(self, trainer) -> None:
        """Resets the best value of an earlier training."""
        self.best = self.best_epoch = None

    def on_epoch_end(self, trainer, epoch, result) -> None:
        """Compares the number with the best one, and stops the trainer after `patience` epochs."""
        value = as_number(result.get(self.monitor))
        if value is None:
            raise KeyError(f"EarlyStopping looks at {self.monitor!r}, which is no number of the result; expected one of "
                           f"{', '.join(map(str, result))}{did_you_mean.hint(self.monitor, result)}")
        better = value - self.min_delta if self.mode == "max" else -value - self.min_delta
        if self.best is None or better > (self.best if self.mode == "max" else -self.best):
            self.best, self.best_epoch = value, epoch
        elif epoch - self.best_epoch >= self.patience:
            trainer.stop()


@public
class _Logger(Callback):
    _kind = None

    def __init__(self, path) -> None:
        self.path, self._book = path, None

    def on_train_start(self, trainer):
        self._book = _core.Logbook(self._kind, self.path)

    def on_epoch_end(self, trainer, epoch, result):
        self._book.write(epoch, result)

    def on_train_end(self, trainer, history):
        if self._book is not None:
            self._book.close()


class CSVLogger(_Logger):
    """Writes the results as a table: one row per epoch, one column per field."""
    _kind = "csv"


class JSONLLogger(_Logger):
    """Writes the results as JSON lines, one per epoch; small arrays become lists."""
    _kind = "jsonl"

    def on_epoch_end(self, trainer, epoch, result) -> None:
        """Writes a line."""
        super().on_epoch_end(trainer, epoch, {name: _listed(value) for name, value in result.items()})


def _listed(value):
    if isinstance(value, dict):
        return {name: _listed(each) for name, each in value.items()}
    return value.tolist() if _weight_tree.is_tensor(value) and math.prod(value.shape) <= _LISTED_MAX else value


class TensorBoardLogger(_Logger):
    """Writes the numbers for `tensorboard --logdir`. The path is a folder, in which each training creates a file."""
    _kind = "tensorboard"


public_module(globals())
