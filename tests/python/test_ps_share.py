"""miniray.ps.share: models in shared memory, synced in place; with NumPy, and with torch where it is installed."""

import collections
import os
import signal

import numpy as np
import pytest

from miniray.ps import STRATEGIES, SyncStrategy, create_parameter_server, share


class Worker:
    """A model of two arrays, and a third that is not synced; set_weights is called only when weights are copied."""

    def __init__(self, value, shared=True):
        model = {"w": np.full((200, 300), value, np.float32), "b": np.full(7, value, np.float64)}
        kept = np.arange(1000)
        self.model, self.kept = share((model, kept)) if shared else (model, kept)
        self.view, self.copies = self.model["w"][3], 0

    def get_weights(self):
        return self.model

    def set_weights(self, weights):
        self.copies += 1
        for name, array in weights.items():
            self.model[name][...] = array

    def add(self, amount):
        for array in self.model.values():
            array += amount

    def look(self):
        """(values, number of copies)"""
        assert (self.kept == np.arange(1000)).all()
        assert (self.view == self.model["w"][3]).all()  # the model's addresses do not change
        values = {float(value) for array in self.model.values() for value in np.unique(array)}
        return values, self.copies

    def pid(self):
        return os.getpid()


@pytest.fixture
def hire(ray):
    worker = ray.remote(Worker)
    return lambda *values, **options: [worker.remote(value, **options) for value in values]


def looks(ray, workers):
    return ray.get([worker.look.remote() for worker in workers])


def test_a_sync_is_in_place(ray, hire):
    workers, ps = hire(0, 10, 20), create_parameter_server()
    for version in range(1, 5):
        assert ray.get(ps.sync_from_workers.remote(workers)) == version
        assert looks(ray, workers) == [({9.0 + version}, 0)] * 3
        for worker in workers:
            worker.add.remote(1)


def test_a_worker_that_is_there_twice_sends_copies(ray, hire):
    (first, last), ps = hire(0, 30), create_parameter_server()
    assert ray.get(ps.sync_from_workers.remote([first, last, first])) == 1
    assert looks(ray, [first, last]) == [({10.0}, 2), ({10.0}, 1)]
    assert ray.get(ps.sync_from_workers.remote([first, last])) == 2
    assert looks(ray, [first, last]) == [({10.0}, 2), ({10.0}, 1)]


def test_steps_and_syncs_keep_their_order(ray, hire):
    workers, ps = hire(0, 10, 20), create_parameter_server("max")
    expected = 20
    for step in range(1, 21):
        for number, worker in enumerate(workers):
            worker.add.remote(step if number == step % 3 else -step)
        ps.sync_from_workers.remote(workers)
        expected = expected + step if step > 1 else 19
    assert looks(ray, workers) == [({float(expected)}, 0)] * 3


def test_everything_else_is_a_snapshot(ray, hire):
    workers, ps = hire(0, 10), create_parameter_server()
    ray.get(ps.sync_from_workers.remote(workers))
    mine, pulled = ray.get([workers[0].get_weights.remote(), ps.pull_weights.remote()])
    for _ in range(2):
        ray.get([worker.add.remote(1) for worker in workers])
        ray.get(ps.sync_from_workers.remote(workers))
    assert (mine["w"] == 5).all() and (pulled["w"] == 5).all()
    assert looks(ray, workers) == [({7.0}, 0)] * 2


def test_beside_workers_that_send_copies(ray, hire):
    workers, ps = hire(0, 10) + hire(20, shared=False), create_parameter_server()
    for version in (1, 2):
        assert ray.get(ps.sync_from_workers.remote(workers)) == version
        assert looks(ray, workers) == [({10.0}, 0), ({10.0}, 0), ({10.0}, version)]


def test_a_strategy_in_python_gets_copies(ray, hire):
    class First(SyncStrategy):
        def aggregate(self, weight_lists):
            return weight_lists[0]
    STRATEGIES["first"] = First
    try:
        workers, ps = hire(3, 10), create_parameter_server("first")
    finally:
        del STRATEGIES["first"]
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    assert looks(ray, workers) == [({3.0}, 1)] * 2


def test_a_dead_worker_is_skipped(ray, hire):
    workers, ps = hire(0, 10, 20), create_parameter_server()
    os.kill(ray.get(workers[0].pid.remote()), signal.SIGKILL)
    assert ray.get(ps.sync_from_workers.remote(workers, on_dead="skip")) == 1
    assert looks(ray, workers[1:]) == [({15.0}, 0)] * 2


def test_a_server_that_is_killed_leaves_whole_models(ray, hire):
    workers = hire(0, 10)
    for _ in range(5):
        before, ps = [values for values, _ in looks(ray, workers)], create_parameter_server()
        sync = ps.sync_from_workers.remote(workers)
        ray.kill(ps._actor)
        ray.wait([sync])
        after = [values for values, _ in looks(ray, workers)]
        assert all(now == then or now == {5.0} for now, then in zip(after, before)), (before, after)
    assert ray.get(create_parameter_server().sync_from_workers.remote(workers)) == 1
    assert [copies for _, copies in looks(ray, workers)] == [0, 0]


def test_only_models_can_be_shared(ray):
    with pytest.raises(TypeError, match="not str"):
        share(["no model"])
    assert share([]) == []


def test_containers_keep_their_types(ray):
    Pair = collections.namedtuple("Pair", "first rest")

    @ray.remote
    class Nested:
        def __init__(self):
            self.model = share(Pair(np.zeros(5), {"a": [np.ones(3)], "b": (np.ones(2), Pair(np.ones(1), []))}))

        def get_weights(self):
            return self.model

        def set_weights(self, weights):
            raise AssertionError("it is in place")

        def look(self):
            return type(self.model).__name__, self.model.rest["b"][1]._fields, float(self.model.first.sum())
    workers = [Nested.remote(), Nested.remote()]
    assert ray.get(create_parameter_server().sync_from_workers.remote(workers)) == 1
    assert ray.get(workers[1].look.remote()) == ("Pair", ("first", "rest"), 0.0)


def test_in_local_mode_a_model_stays_where_it_is(stopped):
    stopped.init(local_mode=True)
    model = [np.ones(3)]
    assert share(model)[0] is model[0]


# ---- torch.


TORCH = """
    import miniray, torch
    from torch import nn
    from miniray.ps import create_parameter_server, share

    @miniray.remote
    class Worker:
        def __init__(self, number):
            torch.manual_seed(number)
            self.nets = share([nn.Sequential(nn.Linear(50, 40), nn.BatchNorm1d(40)), nn.Linear(40, 1).to({kind})])
            self.parameters = [p for net in self.nets for p in net.parameters()]
            self.optimizer = torch.optim.Adam(self.nets[0].parameters(), lr=0.01)
            self.copies = 0
        def get_weights(self):
            return [net.state_dict() for net in self.nets]
        def set_weights(self, weights):
            self.copies += 1
        def step(self):
            self.optimizer.zero_grad()
            self.nets[0](torch.ones(8, 50)).square().sum().backward()
            self.optimizer.step()
        def look(self):
            assert all(a is b for a, b in zip(self.parameters, [p for net in self.nets for p in net.parameters()]))
            return self.copies, self.get_weights()

    miniray.init(num_workers=2)
    ps, workers = create_parameter_server(), [Worker.remote(number) for number in range(3)]
    for version in (1, 2, 3):
        before = [weights for _, weights in miniray.get([worker.look.remote() for worker in workers])]
        assert miniray.get(ps.sync_from_workers.remote(workers)) == version
        for copies, weights in miniray.get([worker.look.remote() for worker in workers]):
            assert copies == 0
            for net, part in enumerate(weights):
                for name, tensor in part.items():
                    theirs = [each[net][name] for each in before]
                    assert tensor.dtype == theirs[0].dtype
                    if tensor.is_floating_point():
                        mean = sum(one.float() for one in theirs) / 3
                        assert torch.allclose(tensor.float(), mean, atol=1e-2 if tensor.dtype != torch.float32 else 1e-6)
                    else:
                        assert torch.equal(tensor, theirs[0])
        miniray.get([worker.step.remote() for worker in workers])
    pulled = miniray.get(ps.pull_weights.remote())
    assert list(pulled[0]) == list(weights[0]) and pulled[0]["1.num_batches_tracked"] == 2
    print("well")
"""


@pytest.mark.parametrize("kind", ["torch.float32", "torch.bfloat16"])
def test_torch_modules(run_program, kind):
    pytest.importorskip("torch")
    assert run_program(TORCH.replace("{kind}", kind), timeout=200).stdout == "well\n"
