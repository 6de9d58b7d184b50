"""Workers of a trainer that die: the same bits at the end, or an error that names them."""

import os

import pytest

import miniray
from training import Plain, Quiet, train  # noqa: F401  the fixture


def final_weights(train, folder, deaths, **options):
    for name in deaths:
        (folder / name).touch()
    trainer = train(Quiet, 3, folder=folder, max_failures=len(deaths), **options)
    history = trainer.train(epochs=6)["history"]
    weights = miniray.get([w.get_weights.remote() for w in trainer.workers])
    assert trainer.report()["failures"] == len(deaths) and not list(folder.iterdir())
    return [each.tobytes() for worker in weights for each in worker], history


CALM = {}  # by interval: the final weights of an undisturbed run


@pytest.mark.parametrize("interval, deaths", [(1, ["train-1-0", "get-1"]), (3, ["train-0-3", "train-2-4", "train-2-5"]),
                                              (3, ["get-1"]), (1, ["set-2", "get-0"])])
def test_the_same_bits_whoever_dies(train, tmp_path, deaths, interval):
    if interval not in CALM:
        CALM[interval] = final_weights(train, tmp_path, [], sync_interval=interval)
    assert final_weights(train, tmp_path, deaths, sync_interval=interval) == CALM[interval]


def test_a_death_is_an_error_that_names_the_worker(train, tmp_path):
    (tmp_path / "train-1-1").touch()
    trainer = train(Quiet, 2, folder=tmp_path)
    with pytest.raises(miniray.exceptions.ActorDiedError, match=r"worker 1 died, and max_failures \(0\) is reached"):
        trainer.train(epochs=3)
    assert len(trainer.history) == 1


def test_an_epoch_of_ones_own_is_repeated(train, tmp_path):
    class Own(Quiet):
        def train_epoch(self, epoch, **kwargs):
            results = miniray.get([w.train_epoch.remote(epoch) for w in self.workers])
            return {"loss": max(r["loss"] for r in results)}
    (tmp_path / "train-1-1").touch()
    trainer = train(Own, 2, folder=tmp_path, max_failures=1)
    assert trainer.train(epochs=3)["epochs"] == 3 and trainer.report()["failures"] == 1


def test_a_constructor_that_fails_is_told_at_once(train):
    """The constructor would fail again, so max_failures, which is for workers that die, does not apply."""
    created = []

    class Fails(Quiet):
        def create_worker(self, worker_id, **kwargs):
            @miniray.remote
            class Broken(Plain):
                def __init__(self):
                    raise ValueError("cannot be")
            created.append(worker_id)
            return Broken.remote()
    trainer = train(Fails, 2, max_failures=1000)
    with pytest.raises(miniray.exceptions.RayActorError, match="cannot be"):
        trainer.train(epochs=1)
    assert created == [0, 1]


def test_a_random_worker_is_killed_again_and_again(run_program):
    """`make soak` repeats this test more often."""
    program = os.path.join(os.path.dirname(__file__), "train_kills.py")
    print(run_program("", arguments=[program, "1", "0.02", "8"], timeout=200).stdout)


class Bias(Plain):
    """A worker one of whose weights is a float."""

    def get_weights(self):
        return [*super().get_weights(), self.bias]

    def set_weights(self, weights):
        super().set_weights(weights[:2])
        self.bias = weights[2]

    bias = 1.0


@pytest.mark.parametrize("death", ["train-1-1", "set-1"])
def test_a_float_is_one_in_a_worker_that_was_made_again(train, tmp_path, death):
    (tmp_path / death).touch()

    class Biased(Quiet):
        def create_worker(self, worker_id, **kwargs):
            return miniray.remote(Bias).remote(worker_id, self.folder)
    trainer = train(Biased, 2, folder=tmp_path, max_failures=1)
    trainer.train(epochs=3)
    assert trainer.report()["failures"] == 1
    assert [type(miniray.get(worker.get_weights.remote())[2]) for worker in trainer.workers] == [float, float]
