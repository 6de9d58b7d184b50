"""What a trainer reports instead of training on: wrong arguments, missing results; and the age of the saved model."""

import warnings

import numpy as np
import pytest

from miniray.ps import SyncStrategy
from miniray.train import BaseTrainer, DataParallelTrainer, load_weights
from training import train  # noqa: F401  the fixture


class Line:
    """Its weights are the number of its epochs, more for later workers."""

    def __init__(self, worker_id, lr=0.1):
        self.number, self.weights = worker_id, [np.zeros(2)]

    def load_data_shard(self, shard_id, num_shards, samples=8):
        pass

    def train_epoch(self, epoch):
        self.weights[0] = self.weights[0] + 1 + self.number
        return {"loss": 1.0}

    def get_weights(self):
        return self.weights

    def set_weights(self, weights):
        self.weights = [np.array(each) for each in weights]


class Silent(Line):
    def train_epoch(self, epoch):
        super().train_epoch(epoch)


class Quiet(DataParallelTrainer):
    def __init__(self, workers, cls=Line, **options):
        super().__init__(workers, worker_class=cls, display="quiet", **options)


# ---- Arguments of train().


def test_an_argument_that_nobody_takes(train):
    trainer = train(Quiet, 1)
    for name, meant in (("leraning_rate", ""), ("lrr", "; did you mean lr?"), ("sample", "; did you mean samples?"),
                        ("epoch", "; did you mean epochs?")):
        with pytest.raises(TypeError, match=rf"train\(\) got an unexpected keyword argument '{name}'{meant}"):
            trainer.train(**{"epochs": 1, name: 5})
    assert trainer.workers == []  # nothing was started
    assert trainer.train(1, lr=1.0, samples=4)["epochs"] == 1


@pytest.mark.parametrize("method", ["create_worker", "on_train_start", "on_epoch_end"])
def test_functions_of_the_program_take_arguments(train, method):
    def take(self, *args, colour=None, **others):
        told.append(colour)
        return getattr(super(Own, self), method)(*args)
    told, Own = [], type("Own", (Quiet,), {})
    setattr(Own, method, take)
    train(Own, 1).train(1, colour="red")
    assert told == ["red"]


def test_a_subclass_without_a_worker_class(train):
    class Own(BaseTrainer):
        def create_worker(self, worker_id, lr=1):
            raise AssertionError("no worker is created")
    with pytest.raises(TypeError, match="'lt'; did you mean lr"):
        train(Own, 1).train(1, lt=1)


# ---- Results.


def test_a_train_epoch_that_returns_nothing(train):
    with pytest.warns(UserWarning, match="train_epoch of a worker returned nothing.*return a dict") as caught:
        assert train(Quiet, 2, Silent).train(2)["history"] == [{"synced": True}] * 2
    assert len(caught) == 1 and caught[0].filename == __file__

    class Own(Quiet):
        def train_epoch(self, epoch, **kwargs):
            super().train_epoch(epoch)
    with pytest.warns(UserWarning, match="train_epoch of Own returned nothing"):
        assert train(Own, 1).train(1)["history"] == [{}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(Quiet, 1).train(1)


# ---- The model.


class Counting(SyncStrategy):
    """The mean of the first tensors, and the number of aggregations."""

    def __init__(self):
        self.count = 0

    def aggregate(self, lists):
        self.count += 1
        return [np.mean([each[0] for each in lists], axis=0) + 100 * self.count]


def test_the_model_is_never_older_than_the_last_epoch(train, tmp_path):
    trainer = train(Quiet, 2, sync_interval=2)
    seen = []
    trainer.on_epoch_end = lambda epoch, result: seen.append((trainer.get_weights()[0][0], result["synced"]))
    trainer.train(3)
    assert seen == [(1.5, False), (3.0, True), (4.5, False)]  # epochs 0 and 2 are not synced
    assert load_weights(trainer.save_final_model(tmp_path / "model"))[0].tolist() == [4.5, 4.5]
    assert load_weights(trainer.save_checkpoint(dir=tmp_path))[0].tolist() == [4.5, 4.5]
    assert trainer.get_sync_stats()["version"] == 1  # no sync: the workers keep their own weights
    assert [each[0][0] for each in map(_weights, trainer.workers)] == [4.0, 5.0]


def _weights(worker):
    import miniray
    return miniray.get(worker.get_weights.remote())


def test_a_look_at_the_model_does_not_change_a_strategy(train):
    trainer = train(Quiet, 2, sync_interval=2, sync_strategy=Counting())
    looked = []
    trainer.on_epoch_end = lambda epoch, result: looked.append([trainer.get_weights()[0][0] for _ in range(2)])
    trainer.train(2)
    assert looked == [[101.5] * 2, [103.0] * 2]


def test_the_moving_average_is_what_the_next_sync_gives(train):
    trainer = train(Quiet, 1, sync_strategy="momentum", momentum=0.5, sync_interval=2)
    seen = []
    trainer.on_epoch_end = lambda epoch, result: seen.append(trainer.get_weights()[0][0])
    trainer.train(4)
    assert seen == [1.0, 2.0, 0.5 * 2 + 0.5 * 3, 0.5 * 2 + 0.5 * 4]


def test_a_train_epoch_of_the_program_that_syncs(train):
    import miniray

    class Own(Quiet):
        def train_epoch(self, epoch, **kwargs):
            miniray.get([worker.train_epoch.remote(epoch) for worker in self.workers])
            if epoch == 0:
                miniray.get(self.param_server.sync_from_workers.remote(self.workers))
            return {"loss": 1.0, "synced": epoch == 0}
    trainer = train(Own, 2)
    seen = []
    trainer.on_epoch_end = lambda epoch, result: seen.append(trainer.get_weights()[0][0])
    trainer.train(2)
    assert seen == [1.5, 3.0]
