"""miniray.train: trainers, hooks, results, deaths (SPEC T)."""

import fractions
import os
import signal
import time

import numpy as np
import pytest

import miniray
from miniray.ps import SyncStrategy
from miniray.train import BaseTrainer, Callback, DataParallelTrainer, EarlyStopping
from training import Plain, Quiet, Says, Worker, train  # noqa: F401  the fixture


# ---- The life of a trainer.


def test_a_trainer_may_train_again(train):
    trainer = train(Quiet, 2)
    first = trainer.train(epochs=2, batch_size=4)
    workers = trainer.workers
    second = trainer.train(epochs=1, batch_size=8)
    assert trainer.workers is workers and len(first["history"]) == 2 and len(second["history"]) == 1
    assert miniray.get(workers[1].seen.remote()) == ((1, 2), 8)


@pytest.mark.parametrize("cls", [Plain, Worker])
def test_a_worker_class_needs_no_subclass(train, cls):
    trainer = train(DataParallelTrainer, 2, worker_class=cls, display="quiet")
    assert trainer.train(epochs=1, batch_size=3, folder="/nonexistent")["final"]["batch_size"] == 3


def test_what_is_no_worker_is_told(train):
    class Wrong(Quiet):
        def create_worker(self, worker_id, **kwargs):
            return Plain(worker_id)
    with pytest.raises(TypeError, match="create_worker.*Plain"):
        train(Wrong, 1).train(epochs=1)


@pytest.mark.parametrize("missing", ["train_epoch", "get_weights", "set_weights"])
def test_a_missing_method_is_named(train, missing):
    less = type("Less", (), {name: value for name, value in vars(Plain).items() if name != missing})

    class Wrong(Quiet):
        def create_worker(self, worker_id, **kwargs):
            return miniray.remote(less).remote(worker_id)
    with pytest.raises(AttributeError, match=f"worker 0.*Less.*{missing}"):
        train(Wrong, 2).train(epochs=1)


# ---- Hooks and arguments.


def test_hooks_in_their_order_and_with_the_arguments(train):
    told = []

    class Told(Quiet):
        def create_worker(self, worker_id, **kwargs):
            told.append(("create", worker_id, kwargs))
            return Worker.remote(worker_id)

        def on_train_start(self, **kwargs):
            told.append(("start", miniray.get([w.seen.remote() for w in self.workers]), kwargs))

        def on_epoch_start(self, epoch, **kwargs):
            told.append(("epoch", epoch, kwargs))

        def on_epoch_end(self, epoch, result, **kwargs):
            told.append(("result", epoch, kwargs))
            result["extra"] = epoch * 10

        def on_train_end(self, history, **kwargs):
            told.append(("end", len(history), kwargs))

    given = {"batch_size": 16, "lr": 0.1}
    result = train(Told, 2).train(epochs=2, **given)
    assert told == [("create", 0, given), ("create", 1, given), ("start", [((0, 2), 16), ((1, 2), 16)], given),
                    ("epoch", 0, given), ("result", 0, given), ("epoch", 1, given), ("result", 1, given),
                    ("end", 2, given)]
    assert [each["extra"] for each in result["history"]] == [0, 10]  # on_train_end returned None: the usual result
    assert result["final"] is result["history"][-1] and result["time_s"] > 0 and result["sync"]["num_syncs"] == 2


def test_what_on_train_end_returns_is_the_result(train):
    class Own(Quiet):
        def on_train_end(self, history, **kwargs):
            usual = super().on_train_end(history, **kwargs)
            return usual["epochs"], "mine"
    assert train(Own, 1).train(epochs=3) == (3, "mine")


def test_the_result_says_whether_it_was_synced(train):
    trainer = train(Quiet, 2, 3)
    history = trainer.train(epochs=7)["history"]
    assert [each["synced"] for each in history] == [False, False, True, False, False, True, False]
    assert trainer.get_sync_stats()["num_syncs"] == 2


def test_load_data_shard_gets_all_if_it_takes_all(train):
    class Takes(Plain):
        def load_data_shard(self, shard_id, num_shards, **kwargs):
            self.shard, self.batch_size = (shard_id, num_shards), kwargs

    class Trainer(Quiet):
        def create_worker(self, worker_id, **kwargs):
            return miniray.remote(Takes).remote(worker_id)
    result = train(Trainer, 2).train(epochs=1, dataset="digits", batch_size=2)
    assert result["final"]["batch_size"] == {"dataset": "digits", "batch_size": 2}


def test_without_load_data_shard(train):
    less = type("Less", (), {name: value for name, value in vars(Plain).items() if name != "load_data_shard"})

    class Trainer(Quiet):
        def create_worker(self, worker_id, **kwargs):
            return miniray.remote(less).remote(worker_id)
    assert train(Trainer, 2).train(epochs=1, batch_size=2)["final"]["shard"] is None


class Keeps(Callback):
    def __init__(self, *wrong):
        self.wrong, self.ended = wrong, None

    def on_epoch_end(self, trainer, epoch, result):
        if "epoch" in self.wrong:
            raise KeyError("epoch")

    def on_train_end(self, trainer, history):
        self.ended = len(history)
        if "end" in self.wrong:
            raise RuntimeError("end")


@pytest.mark.parametrize("wrong, error", [(("end",), RuntimeError), (("epoch",), KeyError), (("end", "epoch"), RuntimeError)])
def test_the_end_is_told_to_all_callbacks(train, wrong, error):
    callbacks = [Keeps(*wrong), Keeps()]
    with pytest.raises(error) as caught:
        train(Quiet, 1, callbacks=callbacks).train(epochs=1)
    assert [callback.ended for callback in callbacks] == [1, 1]
    assert len(wrong) == 1 or isinstance(caught.value.__context__, KeyError)


# ---- Results.


@pytest.mark.parametrize("make", [float, int, np.float32, np.float64, np.int64, np.array, lambda i: np.array([i]),
                                  lambda i: fractions.Fraction(i)])
def test_numbers_of_every_kind_are_averaged(train, make):
    result = train(Says, 3, lambda i: {"x": make(i), "inner": {"y": make(2 * i)}}).train(epochs=1)["final"]
    assert result == {"x": 1.0, "inner": {"y": 2.0}} and type(result["x"]) is type(result["inner"]["y"]) is float


def test_anything_else_is_the_first_workers(train):
    def say(i):
        return {"name": f"w{i}", "done": i == 0, "list": [i, i], "complex": complex(i, 1), "only": {i: i}, "none": None}
    result = train(Says, 3, say).train(epochs=1)["final"]
    assert result == {"name": "w0", "done": True, "list": [0, 0], "complex": 1j, "only": {0: 0, 1: 1, 2: 2}, "none": None}


def test_fields_that_only_some_have(train):
    result = train(Says, 3, lambda i: {"x": 1.0} if i == 0 else {"y": i}).train(epochs=1)["final"]
    assert result == {"x": 1.0, "y": 1.5}


def test_nothing_is_an_empty_result(train):
    assert train(Says, 2, lambda i: None).train(epochs=1)["final"] == {}


def test_what_is_no_dict_is_told(train):
    for wrong in (0.5, [1, 2], np.float64(1)):
        with pytest.raises((TypeError, ValueError), match="train_epoch"):
            train(Says, 2, lambda i: wrong).train(epochs=1)


def test_an_exception_of_a_worker_is_raised_as_it_is(train):
    def say(i):
        if i == 1:
            raise KeyError("lost")
        return {}
    with pytest.raises(KeyError, match="lost") as caught:
        train(Says, 2, say).train(epochs=1)
    assert "worker 1" in caught.value.__notes__[0]


def test_an_interrupt_of_a_worker_is_an_error(train):
    def say(i):
        raise KeyboardInterrupt
    trainer = train(Says, 1, say)
    with pytest.raises(miniray.exceptions.RayTaskError):
        trainer.train(epochs=1)
    assert not trainer.interrupted


class Late:
    """A handle with slow calls, so that calls to other handles end before."""

    def __init__(self, worker):
        self.worker = worker

    def __getattr__(self, name):
        time.sleep(0.5)
        return getattr(self.worker, name)


def test_what_several_workers_raise_is_told_once(train, capfd):
    """The trainer has read all errors, so those that it does not raise are not printed as unread."""
    def say(i):
        raise KeyError("lost")

    class Patient(Says):
        def on_train_start(self, **kwargs):
            self.workers[2] = Late(self.workers[2])
    with pytest.raises(KeyError, match="lost"):
        train(Patient, 3, say).train(epochs=1)
    time.sleep(0.2)
    assert "released without a get" not in capfd.readouterr().err


def test_what_several_shards_raise_is_told_once(train, capfd):
    class Loads:
        def __init__(self, worker_id):
            pass

        def load_data_shard(self, shard_id, num_shards):
            time.sleep(0.5 * (shard_id == 0))
            raise KeyError("lost")

        def train_epoch(self, epoch):
            return {}

    class Fails(BaseTrainer):
        def create_worker(self, worker_id, **kwargs):
            return miniray.remote(Loads).remote(worker_id)
    with pytest.raises(KeyError, match="lost") as caught:
        train(Fails, 3, display="quiet").train(epochs=1)
    assert "in worker 0, load_data_shard" in caught.value.__notes__
    time.sleep(0.2)
    assert "released without a get" not in capfd.readouterr().err


def middle(weight_lists, at=1):
    return weight_lists[at]


class Middle(SyncStrategy):
    def aggregate(self, weight_lists):
        return weight_lists[1]


@pytest.mark.parametrize("strategy", [middle, Middle, Middle()])
def test_a_strategy_needs_no_name(train, strategy):
    trainer = train(Quiet, 3, sync_strategy=strategy)
    assert trainer.get_sync_stats()["strategy"] in ("middle", "Middle")
    assert trainer.train(epochs=1)["sync"]["strategy"] in ("middle", "Middle")
    assert miniray.get(trainer.workers[0].get_weights.remote())[0][0] == 1.5  # the weights of worker 1
    with pytest.raises(TypeError, match="takes no momentum"):
        train(Quiet, 3, sync_strategy=strategy, momentum=0.5)


# ---- Overridden epochs.


def test_a_trainer_with_an_epoch_of_its_own(train):
    class Custom(BaseTrainer):
        def create_worker(self, worker_id, **kwargs):
            return Worker.remote(worker_id)

        def train_epoch(self, epoch, **kwargs):
            results = miniray.get([w.seen.remote() for w in self.workers])
            return {"custom_metric": sum(shard[0] for shard, _ in results) / len(results)}
    trainer = train(Custom, 3, display="quiet")
    assert trainer.train(epochs=2)["history"] == [{"custom_metric": 1.0}] * 2


def test_a_result_and_a_sync_of_ones_own(train):
    class Median(Quiet):
        def train_epoch(self, epoch, **kwargs):
            results = miniray.get([w.train_epoch.remote(epoch) for w in self.workers])
            aggregated = {"loss": np.median([r["loss"] for r in results])}
            if (epoch + 1) % self.sync_interval == 0:
                self.param_server.sync_from_workers.remote(self.workers)
                aggregated["synced"] = True
            return aggregated
    trainer = train(Median, 3, 2)
    trainer.train(epochs=4)
    assert trainer.get_sync_stats()["num_syncs"] == 2
    first, second, _ = miniray.get([w.get_weights.remote() for w in trainer.workers])
    assert np.array_equal(first[0], second[0])


def test_train_epoch_that_gives_no_dict(train):
    class Wrong(Quiet):
        def train_epoch(self, epoch, **kwargs):
            return 3
    with pytest.raises(TypeError, match="train_epoch"):
        train(Wrong, 1).train(epochs=1)


# ---- Strategies.


def test_weights_set_before_training(train):
    trainer = train(Quiet, 2, sync_strategy="weighted")
    trainer.set_worker_weight(0, 1)
    trainer.set_worker_weight(1, 3)
    with pytest.raises(ValueError, match="worker_id is 2"):
        trainer.set_worker_weight(2, 1)
    for wrong in (("0", 1), (-1, 1), (0, float("nan")), (0, float("inf"))):
        with pytest.raises(ValueError, match="worker"):
            trainer.set_worker_weight(*wrong)
    trainer.train(epochs=1)
    # worker i ends the epoch with weights 1.5 i, so the average is (0 + 3 · 1.5) / 4
    assert np.allclose(trainer.get_weights()[0], 1.125)


def test_momentum_is_passed_on(train):
    trainer = train(Quiet, 2, sync_strategy="momentum", momentum=0.0)
    trainer.train(epochs=2)
    stats = trainer.get_sync_stats()
    assert stats["strategy"] == "MomentumStrategy" and stats["version"] == 2


# ---- Callbacks and the end.


def test_callbacks_are_told(train):
    class Told(Callback):
        moments = []

        def on_train_start(self, trainer):
            self.moments.append("start")

        def on_epoch_start(self, trainer, epoch):
            self.moments.append(epoch)

        def on_epoch_end(self, trainer, epoch, result):
            self.moments.append(result["loss"])

        def on_train_end(self, trainer, history):
            self.moments.append(len(history))
    train(Quiet, 1, callbacks=[Told(), Callback()]).train(epochs=2)
    assert Told.moments == ["start", 0, 0.0, 1, 1.0, 2]


@pytest.mark.parametrize("mode, values, epochs", [("min", [3, 2, 2, 2, 1, 0], 4), ("max", [1, 2, 3, 4, 5, 6], 6),
                                                  ("min", [3, 2.95, 2.9, 2.0, 1.0, 1.0], 3)])
def test_early_stopping(train, mode, values, epochs):
    class Scripted(Quiet):
        def train_epoch(self, epoch, **kwargs):
            return {"score": np.float32(values[epoch])}
    stopping = EarlyStopping("score", patience=2, mode=mode, min_delta=0.5)
    trainer = train(Scripted, 1, callbacks=[stopping])
    assert trainer.train(epochs=6)["epochs"] == epochs
    assert stopping.best == max(values) if mode == "max" else min(values[:epochs - 2])


def test_early_stopping_of_what_is_not_there(train):
    with pytest.raises(KeyError, match="accuracy.*loss"):
        train(Quiet, 1, callbacks=[EarlyStopping("accuracy")]).train(epochs=2)
    with pytest.raises(ValueError):
        EarlyStopping(mode="best")
    with pytest.raises(ValueError):
        EarlyStopping(patience=0)


def test_a_hook_may_stop_it(train):
    class Stops(Quiet):
        def on_epoch_end(self, epoch, result, **kwargs):
            if epoch == 1:
                self.stop()
    assert train(Stops, 1).train(epochs=10)["epochs"] == 2


def test_ctrl_c_ends_with_what_was_done(train):
    class Interrupted(Quiet):
        def on_epoch_start(self, epoch, **kwargs):
            if epoch == 2:
                os.kill(os.getpid(), signal.SIGINT)
    trainer = train(Interrupted, 2)
    result = trainer.train(epochs=10)
    assert result["interrupted"] and result["epochs"] == 2 and trainer.interrupted
    assert trainer.train(epochs=1)["epochs"] == 1 and not trainer.interrupted


def test_ctrl_c_while_workers_train(run_program):
    done = run_program("""
        import os, signal, threading, time
        import miniray
        from miniray.train import BaseTrainer

        @miniray.remote
        class Slow:
            def train_epoch(self, epoch):
                if epoch == 1:
                    time.sleep(60)
                return {"loss": 1.0}

        class Trainer(BaseTrainer):
            def create_worker(self, worker_id, **kwargs):
                return Slow.remote()
            def on_epoch_start(self, epoch, **kwargs):
                if epoch == 1:
                    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

        began = time.monotonic()
        with Trainer(2, display="quiet") as trainer:
            result = trainer.train(epochs=5)
        print(result["epochs"], result["interrupted"], time.monotonic() - began < 30)
        """)
    assert done.stdout == "1 True True\n"


def test_weights_are_saved(train, tmp_path, monkeypatch):
    from miniray.train import load_weights
    monkeypatch.chdir(tmp_path)
    trainer = train(Quiet, 2)
    trainer.train(epochs=1)
    paths = [trainer.save_checkpoint(9), trainer.save_checkpoint(1, "elsewhere"), trainer.save_final_model(),
             trainer.save_final_model("deep/er/final.npz")]
    assert paths == ["checkpoints/epoch-0009.npz", "elsewhere/epoch-0001.npz", "model.npz", "deep/er/final.npz"]
    for path in paths:
        loaded = load_weights(path)
        assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(loaded, trainer.get_weights(), strict=True))
    assert sorted(os.listdir(tmp_path)) == ["checkpoints", "deep", "elsewhere", "model.npz"]


