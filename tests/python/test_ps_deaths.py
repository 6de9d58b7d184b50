"""miniray.ps with servers that die: a training whose server is killed again and again ends with the same bits, versions and
counts as a training without deaths; what a strategy has to have for that."""

import random
import time

import numpy as np
import pytest

import miniray
from miniray.ps import SyncStrategy, create_parameter_server
from miniray.ps.strategies import MomentumStrategy
from miniray.util import state


@miniray.remote
class Pupil:
    """A step changes each number in its own way, so that a lost or repeated step or sync shows."""

    def __init__(self, number):
        self.number, self.steps = number, 0
        self.weights = [np.arange(30_000, dtype=np.float32) % 97 + number, np.full(3, number, np.float64)]

    def step(self):
        self.steps += 1
        for array in self.weights:
            array *= 0.9
            array += (np.arange(array.size) * 7 + self.number * 13 + self.steps * 31) % 101

    def get_weights(self):
        return self.weights

    def set_weights(self, weights):
        self.weights = [np.array(array) for array in weights]


class Drifting(SyncStrategy):
    """The mean plus a drift that each sync changes: nothing but the strategy has the drift."""

    def __init__(self, rate=0.5):
        self.rate, self.drift, self.calls = rate, None, 0

    def get_state(self):
        return {"drift": self.drift, "calls": self.calls}

    def set_state(self, state):
        self.drift, self.calls = state["drift"], state["calls"]

    def aggregate(self, weight_lists):
        means = [np.mean(tensors, axis=0) for tensors in zip(*weight_lists)]
        if self.drift is None:
            self.drift = [np.zeros_like(mean) for mean in means]
        self.drift = [self.rate * old + mean * (self.calls % 3) for old, mean in zip(self.drift, means)]
        self.calls += 1
        return [mean + 0.01 * drift for mean, drift in zip(means, self.drift)]


class OwnMomentum(MomentumStrategy):
    """Runs in Python, with the state of the built-in class."""


class Forgetful(SyncStrategy):
    """Has attributes that change, and no get_state."""

    def __init__(self):
        self.calls = 0

    def aggregate(self, weight_lists):
        self.calls += 1
        return [np.full_like(tensor, self.calls) for tensor in weight_lists[0]]


class Stateless(SyncStrategy):
    """Has no attributes."""

    def aggregate(self, weight_lists):
        return weight_lists[0]


def train(ray, strategy, syncs, kills):
    """(weights of all workers, the server's weights, version, number of syncs). The server is killed at any instant."""
    chance = random.Random(3)
    ps, workers = create_parameter_server(strategy), [Pupil.remote(number) for number in range(3)]
    versions = []
    for sync in range(syncs):
        for worker in workers:
            worker.step.remote()
        versions.append(ps.sync_from_workers.remote(workers))
        if sync % 2 == 1 and sync // 2 < kills:
            ray.get(versions[-2])  # the server lives, and the last sync is in progress
            time.sleep(chance.random() * 0.003)
            ray.kill(ps, no_restart=False)
    assert ray.get(versions) == list(range(1, syncs + 1))
    stats = ray.get(ps.get_stats.remote())
    weights = ray.get([worker.get_weights.remote() for worker in workers])
    restarts = [int(actor.num_restarts) for actor in state.list_actors() if actor.state == "ALIVE"]
    assert max(restarts) == kills
    return weights, ray.get(ps.pull_weights.remote()), stats["version"], stats["num_syncs"]


def is_same(one, other):
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


@pytest.mark.parametrize(("strategy", "kills"), [("momentum", 50), (Drifting, 25), (OwnMomentum, 10)])
def test_deaths_change_no_bit(ray, strategy, kills):
    calm, wild = train(ray, strategy, 2 * kills, 0), train(ray, strategy, 2 * kills, kills)
    assert is_same(calm[0], wild[0]) and is_same(calm[1], wild[1])
    assert calm[2:] == wild[2:] == (2 * kills, 2 * kills)


def killed_while_idle(ray, ps):
    starts = ray.get(ps.get_stats.remote())
    ray.kill(ps, no_restart=False)
    return starts


def test_pushes_and_weights_of_workers_survive(ray):
    for strategy in ("weighted", Stateless):
        ps, workers = create_parameter_server(strategy), [Pupil.remote(number) for number in range(2)]
        for number in range(5):
            assert ray.get(ps.push_weights.remote([np.full(40_000, number), np.zeros(3)])) == number + 1
            ray.get(ps.set_worker_weight.remote(1, 3.0 + number))
            killed_while_idle(ray, ps)
        assert (ray.get(ps.pull_weights.remote())[0] == 4).all()
        assert ray.get(ps.sync_from_workers.remote(workers)) == 6
        if strategy == "weighted":  # weights 1 and 7
            assert ray.get(ps.pull_weights.remote())[1].tolist() == [0.875] * 3


def test_a_server_that_dies_before_the_first_sync(ray):
    for strategy in ("momentum", Drifting):
        ps, workers = create_parameter_server(strategy), [Pupil.remote(number) for number in range(2)]
        ray.get(ps.get_stats.remote())
        killed_while_idle(ray, ps)
        assert ray.get(ps.pull_weights.remote()) is None
        assert ray.get(ps.sync_from_workers.remote(workers)) == 1


def test_a_sync_that_failed_leaves_the_strategy_as_it_was(ray):
    """The state of a strategy changes with the model, or not at all."""

    @miniray.remote
    class Refusing:
        def __init__(self):
            self.refuses = False

        def refuse(self, refuses):
            self.refuses = refuses

        def get_weights(self):
            return [np.ones(3)]

        def set_weights(self, weights):
            if self.refuses:
                raise ValueError("not now")

    found = []
    for fails in (False, True):
        ps, worker = create_parameter_server(Drifting), Refusing.remote()
        ray.get(ps.sync_from_workers.remote([worker]))
        if fails:
            worker.refuse.remote(True)
            with pytest.raises(ValueError, match="not now"):
                ray.get(ps.sync_from_workers.remote([worker]))
            worker.refuse.remote(False)
        ray.get([ps.sync_from_workers.remote([worker]) for _ in range(3)])
        found.append(ray.get(ps.pull_weights.remote())[0].tolist())
    assert found[0] == found[1]


def test_lost_attributes_are_mentioned_once(ray, capfd):
    for strategy, expected in ((Forgetful, 1), (Stateless, 0), (Drifting, 0)):
        ps, workers = create_parameter_server(strategy), [Pupil.remote(0)]
        for _ in range(3):
            ray.get(ps.sync_from_workers.remote(workers))
            killed_while_idle(ray, ps)
        ray.get(ps.get_stats.remote())
        time.sleep(0.3)
        text = capfd.readouterr().err
        assert text.count(f"the server of {strategy.__name__} was restarted") == expected, text
        assert ("no get_state() and set_state(state)" in text) == (expected == 1)


def test_a_handle_of_another_process_sends_its_calls_again(ray):
    @miniray.remote
    def push(ps, times):
        return [miniray.get(ps.push_weights.remote([np.full(3, number)])) for number in range(times)]

    for strategy in ("average", Stateless):
        ps = create_parameter_server(strategy)
        ray.get(ps.get_stats.remote())
        pushed = push.remote(ps, 200)
        for _ in range(5):
            time.sleep(0.01)
            ray.kill(ps, no_restart=False)
        assert ray.get(pushed) == list(range(1, 201))


def test_a_server_without_restarts_stays_dead(ray):
    for strategy in ("average", Stateless):
        ps = miniray.ps.ParameterServer.options(max_restarts=0, max_task_retries=0).remote(strategy)
        ray.get(ps.get_stats.remote())
        ray.kill(ps, no_restart=False)
        with pytest.raises(ray.exceptions.RayActorError):
            for _ in range(1000):
                ray.get(ps.get_stats.remote())
                time.sleep(0.01)
