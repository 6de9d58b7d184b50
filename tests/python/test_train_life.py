"""Runtimes and workers that a trainer starts and ends: these tests begin and end runtimes."""

import pytest

import miniray
from miniray.train import BaseTrainer, DataParallelTrainer, EarlyStopping
from training import Quiet, Says, train  # noqa: F401  the fixture


def test_constructing_starts_nothing(stopped):
    BaseTrainer(num_workers=4)
    DataParallelTrainer(num_workers=2, sync_strategy="momentum", momentum=0.5).set_worker_weight(0, 3)
    assert not miniray.is_initialized()


def test_train_starts_the_runtime_and_shutdown_ends_it(stopped):
    with Quiet(num_workers=2) as trainer:
        result = trainer.train(epochs=2)
        assert miniray.is_initialized() and len(trainer.workers) == 2
    assert not miniray.is_initialized() and trainer.workers == []
    assert result["epochs"] == 2 and trainer.get_sync_stats()["num_syncs"] == 2
    trainer.shutdown()


def test_a_runtime_of_others_stays(stopped):
    miniray.init(num_workers=1)
    with Quiet(num_workers=2) as trainer:
        trainer.train(epochs=1)
    assert miniray.is_initialized()


def test_options_of_the_runtime_are_passed_on(stopped):
    with Quiet(num_workers=2, init={"object_store_memory": 96 << 20}) as trainer:
        trainer.train(epochs=1)
        assert miniray.cluster_resources()["object_store_memory"] == 96 << 20
        assert miniray.cluster_resources()["CPU"] == 2
    with Quiet(num_workers=2, init={"num_cpus": 1}) as trainer:
        trainer.train(epochs=1)
        assert miniray.cluster_resources()["CPU"] == 1
    miniray.init(num_workers=1)
    with Quiet(num_workers=1, init={"object_store_memory": 96 << 20}) as trainer:
        with pytest.warns(UserWarning, match="object_store_memory.*no effect"):
            trainer.train(epochs=1)


def test_and_after_a_shutdown_with_new_workers(stopped):
    trainer = Quiet(2)
    results = []
    for _ in range(2):
        results.append(trainer.train(epochs=2)["final"])
        trainer.shutdown()
    assert results[0] == results[1]


def test_wrong_arguments(stopped):
    for wrong in (0, -1, 1.5, "four", True, None):
        with pytest.raises(ValueError, match="num_workers"):
            BaseTrainer(num_workers=wrong)
    with pytest.raises(ValueError, match="max_failures"):
        BaseTrainer(max_failures="many")
    with pytest.raises(TypeError, match="worker_class"):
        DataParallelTrainer(worker_class=3)
    with pytest.raises(ValueError, match="sync_interval"):
        DataParallelTrainer(sync_interval=0)
    with pytest.raises(ValueError, match="average"):
        DataParallelTrainer(sync_strategy="none such")
    with pytest.raises(TypeError, match="momentun"):
        DataParallelTrainer(sync_strategy="momentum", momentun=0.9)
    with pytest.raises(TypeError, match="latent_dim"):
        DataParallelTrainer(latent_dim=3)
    with pytest.raises(TypeError):
        BaseTrainer(unknown=1)
    with pytest.raises(ValueError, match="display"):
        BaseTrainer(display="loud")
    with pytest.raises(TypeError, match="init should be a dict"):
        BaseTrainer(init=7)
    with pytest.raises(TypeError, match="'object_store_memry'.*object_store_memory"):
        BaseTrainer(init={"object_store_memry": 1 << 30})
    for wrong in (3, EarlyStopping("loss"), [3], [EarlyStopping]):
        with pytest.raises(TypeError, match="callback"):
            BaseTrainer(callbacks=wrong)
    with pytest.raises(ValueError, match="epochs"):
        Quiet(1).train(epochs=-1)
    assert not miniray.is_initialized()


def test_without_create_worker(stopped):
    for trainer in (BaseTrainer(2), DataParallelTrainer(2)):
        with pytest.raises(NotImplementedError, match="create_worker"):
            trainer.train(epochs=1)
    assert not miniray.is_initialized()


def test_the_server_before_and_after(stopped):
    trainer = Quiet(2)
    assert trainer.param_server is None
    assert trainer.get_sync_stats() == {"version": 0, "num_syncs": 0, "strategy": "AverageStrategy", "initialized": False}
    trainer.train(epochs=1)
    assert trainer.param_server is not None and trainer.get_sync_stats()["initialized"]
    trainer.shutdown()
    assert trainer.get_sync_stats()["version"] == 1 and trainer.param_server is None


def test_a_runtime_that_ends_meanwhile_is_told(stopped):
    class Ends(Quiet):
        def on_epoch_end(self, epoch, result, **kwargs):
            miniray.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        Ends(1).train(epochs=2)
def test_torch_scalars_are_averaged(train):
    torch = pytest.importorskip("torch")
    say = lambda i: {"x": torch.tensor(float(i)), "grad": torch.tensor([i + 1.0], requires_grad=True)}  # noqa: E731
    assert train(Says, 3, say).train(epochs=1)["final"] == {"x": 1.0, "grad": 2.0}
