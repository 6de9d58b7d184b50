"""The samples in tests/formats that Python reads: weights of a trainer, and a timeline. Another format number is
rejected with an error that gives both numbers and the action. `test_formats.py FOLDER` writes the samples of this
version."""

import json
import os
import shutil
import sys

import numpy as np
import pytest

import miniray
from miniray.train import DataParallelTrainer, load_weights, save_weights

RELEASES = ["0.1.0", "0.2.0"]
SAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "formats")

MODEL = {"dense/1": [np.arange(6, dtype=np.float32).reshape(2, 3), np.float16([0.5, -2])], 7: (np.int64([1, 2, 3]), [])}
TENSORS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(2, np.float32)}


def sample(release, *names):
    return os.path.join(SAMPLES, release, *names)


def renumbered(path, to):
    """A copy of weights with format number 9."""
    data = open(path, "rb").read()
    assert data.endswith(b"miniray weights 1")
    to.write_bytes(data[:-1] + b"9")
    return str(to)


REJECTED = r"{} has format 9; this version reads format 1: use the Miniray release that wrote it"


@pytest.mark.parametrize("release", RELEASES)
def test_weights(release, tmp_path):
    path = sample(release, "weights", "model.npz")
    loaded = load_weights(path)
    assert list(loaded) == ["dense/1", 7] and isinstance(loaded[7], tuple) and loaded[7][1] == []
    for one, other in ((loaded["dense/1"][0], MODEL["dense/1"][0]), (loaded["dense/1"][1], MODEL["dense/1"][1]),
                       (loaded[7][0], MODEL[7][0])):
        assert one.dtype == other.dtype and np.array_equal(one, other)
    with pytest.raises(ValueError, match=REJECTED.format("model.npz")):
        load_weights(renumbered(path, tmp_path / "model.npz"))


@pytest.mark.parametrize("release", RELEASES)
def test_tensors(release):
    pytest.importorskip("torch")
    loaded = load_weights(sample(release, "weights", "model.pt"))
    assert list(loaded) == list(TENSORS) and all(np.array_equal(loaded[name].numpy(), TENSORS[name]) for name in TENSORS)


@pytest.mark.parametrize("release", RELEASES)
def test_tensors_of_another_format(release, tmp_path):
    with pytest.raises(ValueError, match=REJECTED.format("model.pt")):
        load_weights(renumbered(sample(release, "weights", "model.pt"), tmp_path / "model.pt"))


def test_weights_without_a_number(tmp_path):
    """A file that numpy.savez wrote is readable if its names are those of save_weights."""
    np.savez(tmp_path / "plain.npz", **{"list:0": np.ones(2)})
    assert np.array_equal(load_weights(tmp_path / "plain.npz")[0], np.ones(2))


class Worker:
    def __init__(self, worker_id, path=None):
        self.weights = [np.zeros((2, 3), np.float32)] if path is None else load_weights(path)["dense/1"][:1]

    def train_epoch(self, epoch):
        self.weights[0] += 1
        return {"loss": 0.5}

    def get_weights(self):
        return self.weights

    def set_weights(self, weights):
        self.weights = [np.array(each) for each in weights]


@pytest.mark.parametrize("release", RELEASES)
def test_a_trainer_continues(ray, release, tmp_path):
    """A trainer continues from a release's checkpoint; its own checkpoint has this version."""
    shutil.copy(sample(release, "weights", "model.npz"), tmp_path / "model.npz")
    with DataParallelTrainer(2, worker_class=Worker, display="quiet") as trainer:
        trainer.train(epochs=1, path=str(tmp_path / "model.npz"))
        again = trainer.save_checkpoint(dir=tmp_path)
    assert np.array_equal(load_weights(again)[0], MODEL["dense/1"][0] + 1)


@pytest.mark.parametrize("release", RELEASES)
def test_a_timeline(release):
    """Timelines are for chrome://tracing and Perfetto; Miniray does not read them."""
    with open(sample(release, "timeline", "trace.json")) as file:
        trace = json.load(file)
    assert trace["format"] == 1
    assert any(event["ph"] == "X" and "sampled" in event["name"] for event in trace["traceEvents"])


def test_this_version_writes_the_newest_formats(ray, tmp_path):
    write(str(tmp_path))
    assert open(tmp_path / "weights" / "model.npz", "rb").read().endswith(b"miniray weights 1")
    with open(tmp_path / "timeline" / "trace.json") as file:
        assert json.load(file)["format"] == 1


def write(folder):
    save_weights(MODEL, os.path.join(folder, "weights", "model.npz"))
    try:
        import torch
        save_weights({name: torch.from_numpy(array) for name, array in TENSORS.items()},
                     os.path.join(folder, "weights", "model.pt"))
    except ImportError:
        print("without torch there is no model.pt", file=sys.stderr)

    @miniray.remote
    def sampled(number):
        return number + 1

    assert miniray.get([sampled.remote(i) for i in range(3)]) == [1, 2, 3]
    os.makedirs(os.path.join(folder, "timeline"))
    miniray.timeline(os.path.join(folder, "timeline", "trace.json"))


if __name__ == "__main__":
    with miniray.init(num_workers=1):
        write(sys.argv[1])
