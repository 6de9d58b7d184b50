"""miniray.ps: servers of strategies save checkpoints and begin with them."""

import os
import time

import numpy as np
import pytest

import miniray
from miniray.ps import STRATEGIES, ParameterServer, SyncStrategy, create_parameter_server


@miniray.remote
class Pupil:
    def __init__(self, number):
        self.number, self.steps = number, 0
        self.weights = {"net": [np.arange(20_000, dtype=np.float32) % 89 + number], "bias": np.full(3, number, np.float64)}

    def step(self):
        self.steps += 1
        for array in (self.weights["net"][0], self.weights["bias"]):
            array *= 0.9
            array += (np.arange(array.size) * 7 + self.number * 13 + self.steps * 31) % 101

    def get_weights(self):
        return self.weights

    def set_weights(self, weights):
        self.weights = {"net": [np.array(weights["net"][0])], "bias": np.array(weights["bias"])}

    def resume(self, weights, steps):
        self.set_weights(weights)
        self.steps = steps


class Drifting(SyncStrategy):
    """Nothing but the strategy has the drift."""

    def __init__(self, rate=0.5):
        self.rate, self.drift = rate, None

    def get_state(self):
        return self.drift

    def set_state(self, state):
        self.drift = state

    def aggregate(self, weight_lists):
        means = [np.mean(tensors, axis=0) for tensors in zip(*weight_lists)]
        old = self.drift or [0 * mean for mean in means]
        self.drift = [self.rate * each + mean for each, mean in zip(old, means)]
        return [mean + 0.01 * each for mean, each in zip(means, self.drift)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def drifting():
    STRATEGIES["drifting"] = Drifting
    yield
    del STRATEGIES["drifting"]


def syncs(ray, ps, workers, count):
    for _ in range(count):
        for worker in workers:
            worker.step.remote()
        last = ps.sync_from_workers.remote(workers)
    return ray.get(last)


def team():
    return [Pupil.remote(number) for number in range(3)]


def bits(ray, ps):
    weights = ray.get(ps.pull_weights.remote())
    return weights["net"][0].tobytes() + weights["bias"].tobytes()


@pytest.mark.parametrize("strategy", ["momentum", "drifting", "weighted"])
def test_a_restored_server_continues(ray, folder, drifting, strategy):
    ps, workers = create_parameter_server(strategy), team()
    if strategy != "momentum":
        ray.get(ps.set_worker_weight.remote(1, 2.5))
    assert syncs(ray, ps, workers, 3) == 3
    path = ray.get(ps.save.remote("ck"))  # relative to this process
    assert path == str(folder / "ck") and sorted(os.listdir(path)) == ["manifest", "model-0.safetensors"]
    assert syncs(ray, ps, workers, 2) == 5
    expected = bits(ray, ps)

    ps, workers = create_parameter_server(restore="ck"), team()
    assert ray.get(ps.get_stats.remote())["num_syncs"] == 3
    ray.get([worker.resume.remote(ps.pull_weights.remote(), 3) for worker in workers])
    assert syncs(ray, ps, workers, 2) == 5
    assert bits(ray, ps) == expected
    ray.kill(ps, no_restart=False)
    assert ray.get(ps.get_stats.remote())["version"] == 5  # and not 3


def test_the_file_is_safetensors_with_the_names_of_the_tree(ray, folder):
    import json
    import struct
    ps = create_parameter_server()
    ray.get(ps.push_weights.remote({"conv": {"weight": np.arange(6, dtype=np.float16).reshape(2, 3)}, "steps": np.array(7)}))
    path = ray.get(ps.save.remote(folder / "ck"))
    data = open(os.path.join(path, "model-0.safetensors"), "rb").read()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    assert header["__metadata__"] == {"format": "miniray model 1", "strategy": "average", "version": "1"}
    weight = header["conv.weight"]
    assert weight["dtype"] == "F16" and weight["shape"] == [2, 3] and header["steps"]["dtype"] == "I64"
    begin, end = (8 + size + offset for offset in weight["data_offsets"])
    assert np.frombuffer(data[begin:end], np.float16).tolist() == [0, 1, 2, 3, 4, 5]


def test_before_the_first_sync(ray, folder, drifting):
    for strategy in ("max", "drifting"):
        ray.get(create_parameter_server(strategy).save.remote(strategy))
        ps = create_parameter_server(restore=strategy)
        assert ray.get(ps.pull_weights.remote()) is None
        assert syncs(ray, ps, team(), 1) == 1


@pytest.mark.parametrize("strategy", ["momentum", "drifting"])
def test_a_folder_is_continued(ray, folder, drifting, strategy):
    def start(**options):
        return create_parameter_server(strategy, checkpoint_dir="run", checkpoint_every=0.05, **options)

    def await_version(path, version):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if os.path.exists(f"{path}/manifest"):
                ps = create_parameter_server(restore=path)
                if ray.get(ps.get_stats.remote())["version"] == version:
                    return
            time.sleep(0.02)
        raise AssertionError(f"no version {version} in {path}")

    workers = team()
    assert syncs(ray, start(), workers, 3) == 3
    await_version("run", 3)
    ps = start()
    ray.kill(ps, no_restart=False)
    assert syncs(ray, ps, workers, 2) == 5
    await_version("run", 5)
    ray.kill(ps)
    ps = start(resume=False)
    assert ray.get(ps.get_stats.remote())["version"] == 0
    await_version("run/old-1", 5)
    assert syncs(ray, ps, workers, 1) == 1
    await_version("run", 1)


def test_contradictions(ray, folder, drifting):
    ray.get(create_parameter_server("momentum", momentum=0.8).save.remote("ck"))
    ray.get(create_parameter_server("drifting").save.remote("own"))
    for options, words in ((dict(strategy="median"), ["'median'", "'momentum'"]), (dict(momentum=0.5), ["0.5", "0.8"]),
                           (dict(strategy="momentum", momentum=0.9), ["0.9", "0.8"]),
                           (dict(strategy=Drifting), ["'Drifting'", "'momentum'"]),
                           (dict(strategy=STRATEGIES["momentum"](0.9)), ["0.9", "0.8"])):
        with pytest.raises(ValueError) as raised:
            create_parameter_server(restore="ck", **options)
        assert all(word in str(raised.value) for word in [*words, str(folder / "ck")])
    for options in ({}, dict(strategy="momentum"), dict(momentum=0.8), dict(strategy=STRATEGIES["momentum"](0.8))):
        assert ray.get(create_parameter_server(restore="ck", **options).get_stats.remote())["strategy"] == "MomentumStrategy"
    assert ray.get(create_parameter_server(Drifting, restore="own").get_stats.remote())["strategy"] == "Drifting"
    with pytest.raises(ValueError, match="'average'.*'Drifting'"):
        create_parameter_server("average", restore="own")
    del STRATEGIES["drifting"]
    try:
        with pytest.raises(ValueError, match="'Drifting', which STRATEGIES does not have: register it"):
            create_parameter_server(restore="own")
    finally:
        STRATEGIES["drifting"] = Drifting


def test_refusals(ray, folder):
    with pytest.raises(FileNotFoundError, match="no checkpoint of a model in .*nowhere"):
        create_parameter_server(restore="nowhere")
    with pytest.raises(ValueError, match="checkpoint_every needs checkpoint_dir"):
        create_parameter_server(checkpoint_every=3)
    with pytest.raises(ValueError, match="resume needs checkpoint_dir"):
        create_parameter_server(resume=False)
    with pytest.raises(TypeError, match="resume must be True or False, not 'no'"):
        create_parameter_server(checkpoint_dir="run", resume="no")
    for wrong in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="checkpoint_every is .*: it must be seconds"):
            create_parameter_server(checkpoint_dir="run", checkpoint_every=wrong)
    with pytest.raises(ValueError, match="restore is empty"):
        create_parameter_server(restore="")
    ps = create_parameter_server()
    with pytest.raises(TypeError):
        ps.save.remote(None)
    ray.get(ps.save.remote("ck"))
    with pytest.raises(ValueError, match="has a checkpoint, too"):
        create_parameter_server(restore="ck", checkpoint_dir="ck")
    with open("ck/manifest", "r+b") as file:
        file.seek(20)
        file.write(b"\xff")
    with pytest.raises(Exception, match="manifest is damaged"):
        create_parameter_server(restore="ck")
    with open("ck/manifest", "wb") as file:
        file.truncate(10)
    with pytest.raises(Exception, match="manifest is damaged"):
        create_parameter_server(checkpoint_dir="ck")
    assert ray.get(create_parameter_server(checkpoint_dir="ck", resume=False).get_stats.remote())["version"] == 0
    os.mkdir("closed", mode=0o500)
    if os.geteuid() != 0:
        with pytest.raises(Exception, match="closed"):
            ray.get(ps.save.remote("closed/ck"))


def test_a_handle_of_another_process_saves(ray, folder, drifting):
    @miniray.remote
    def save(ps, path):
        return miniray.get(ps.save.remote(path))

    for strategy in ("average", "drifting"):
        ps = ParameterServer.options(name=f"ps of {strategy}").remote(strategy)
        ray.get(ps.push_weights.remote([np.ones(4)]))
        path = ray.get(save.remote(ps, str(folder / strategy)))
        assert ray.get(create_parameter_server(restore=path).pull_weights.remote())[0].tolist() == [1] * 4
