"""Callbacks: what is done at the same moments as the hooks of a trainer, without a subclass.

    trainer = MyTrainer(num_workers=4, callbacks=[EarlyStopping("loss", patience=3), CSVLogger("history.csv")])
"""

import math

from miniray import _core
from miniray._weights import _weight_tree
from miniray.train.data import as_number

_LISTED_MAX = 1000  # numbers of an array that a line of JSON has


class Callback:
    """Write those that are needed."""

    def on_train_start(self, trainer):
        pass

    def on_epoch_start(self, trainer, epoch):
        pass

    def on_epoch_end(self, trainer, epoch, result):
        pass

    def on_train_end(self, trainer, history):
        """Also after an error or Ctrl-C."""


class EarlyStopping(Callback):
    """Ends the training when a number has not become better for `patience` epochs.

    `mode` says what is better: "min" (a loss) or "max" (an accuracy). Less than `min_delta` is not better. `best` and
    `best_epoch` say what was.
    """

    def __init__(self, monitor="loss", *, patience=3, min_delta=0.0, mode="min"):
        if mode not in ("min", "max"):
            raise ValueError(f"mode should be 'min' or 'max', not {mode!r}")
        if patience < 1:
            raise ValueError(f"patience should be at least 1, not {patience}")
        self.monitor, self.patience, self.min_delta, self.mode = monitor, patience, min_delta, mode
        self.best = self.best_epoch = None

    def on_train_start(self, trainer):
        self.best = self.best_epoch = None

    def on_epoch_end(self, trainer, epoch, result):
        value = as_number(result.get(self.monitor))
        if value is None:
            raise KeyError(f"EarlyStopping looks at {self.monitor!r}, which is no number of the result; there are: "
                           f"{', '.join(map(str, result))}")
        better = value - self.min_delta if self.mode == "max" else -value - self.min_delta
        if self.best is None or better > (self.best if self.mode == "max" else -self.best):
            self.best, self.best_epoch = value, epoch
        elif epoch - self.best_epoch >= self.patience:
            trainer.stop()


class _Logger(Callback):
    _kind = None

    def __init__(self, path):
        self.path, self._book = path, None

    def on_train_start(self, trainer):
        self._book = _core.Logbook(self._kind, self.path)

    def on_epoch_end(self, trainer, epoch, result):
        self._book.write(epoch, result)

    def on_train_end(self, trainer, history):
        if self._book is not None:
            self._book.close()


class CSVLogger(_Logger):
    """The results as a table: one row an epoch, one column a field."""
    _kind = "csv"


class JSONLLogger(_Logger):
    """The results as lines of JSON, one an epoch; small arrays as lists."""
    _kind = "jsonl"

    def on_epoch_end(self, trainer, epoch, result):
        super().on_epoch_end(trainer, epoch, {name: _listed(value) for name, value in result.items()})


def _listed(value):
    if isinstance(value, dict):
        return {name: _listed(each) for name, each in value.items()}
    return value.tolist() if _weight_tree.is_tensor(value) and math.prod(value.shape) <= _LISTED_MAX else value


class TensorBoardLogger(_Logger):
    """The numbers for `tensorboard --logdir`: the path is a folder, in which each training makes a file."""
    _kind = "tensorboard"
