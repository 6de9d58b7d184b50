"""miniray.ps with torch models. Skipped without torch."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from miniray.ps import STRATEGIES, create_parameter_server  # noqa: E402  after torch is known to be there
from miniray.ps import strategies  # noqa: E402

VERBATIM = """
    import miniray, torch, torch.nn as nn
    from miniray.ps import create_parameter_server

    @miniray.remote
    class TrainingWorker:
        def __init__(self, worker_id):
            self.model = nn.Linear(10, 1)
        def get_weights(self):
            return [p.detach().cpu() for p in self.model.parameters()]
        def set_weights(self, weights):
            with torch.no_grad():
                for param, new_weight in zip(self.model.parameters(), weights):
                    param.copy_(new_weight)
        def train_step(self):
            pass

    miniray.init(num_workers=4)
    ps = create_parameter_server('average')
    workers = [TrainingWorker.remote(i) for i in range(4)]
    for epoch in range(10):
        miniray.get([w.train_step.remote() for w in workers])
        if (epoch + 1) % 3 == 0:
            ps.sync_from_workers.remote(workers)
"""

MEDIAN = """
    from miniray.ps.strategies import SyncStrategy, STRATEGIES

    class MedianStrategy(SyncStrategy):

        def aggregate(self, weight_lists):
            import torch
            num_params = len(weight_lists[0])
            aggregated = []

            for p_idx in range(num_params):
                tensors = [w[p_idx] for w in weight_lists]
                if torch.is_floating_point(tensors[0]):
                    stacked = torch.stack(tensors)
                    median_tensor = torch.median(stacked, dim=0)[0]
                    aggregated.append(median_tensor)
                else:
                    aggregated.append(tensors[0])

            return aggregated

    STRATEGIES['median'] = MedianStrategy

    from miniray.ps import create_parameter_server
    ps = create_parameter_server('median')
"""


def test_the_program_as_it_stands(run_program):
    done = run_program(VERBATIM + """
    stats = miniray.get(ps.get_stats.remote())
    print(stats['version'], stats['num_syncs'], stats['strategy'], stats['initialized'])
    models = miniray.get([w.get_weights.remote() for w in workers])
    print(all(torch.equal(a, b) for model in models for a, b in zip(model, models[0])))
    """)
    assert done.stdout.splitlines() == ["3 3 AverageStrategy True", "True"] and not done.stderr


def test_a_strategy_of_the_users_script(run_program):
    done = run_program(VERBATIM + MEDIAN + """
    before = miniray.get([w.get_weights.remote() for w in workers[:3]])
    workers[0].set_weights.remote([tensor + 1000 for tensor in before[0]])
    print(miniray.get(ps.sync_from_workers.remote(workers[:3])))
    after = miniray.get(ps.pull_weights.remote())
    print(miniray.get(ps.get_stats.remote())['strategy'], torch.equal(after[0], before[1][0]))
    """)
    assert done.stdout.splitlines() == ["1", "MedianStrategy True"] and not done.stderr


class Worker:
    """A worker with any module; it sends its state_dict, or the list of its parameters."""

    def __init__(self, make, seed, named=True):
        torch.manual_seed(seed)
        self.model, self.named = make(), named

    def get_weights(self):
        return self.model.state_dict() if self.named else list(self.model.parameters())

    def set_weights(self, weights):
        if self.named:
            self.model.load_state_dict(weights)
        else:
            with torch.no_grad():
                for parameter, weight in zip(self.model.parameters(), weights):
                    assert type(weight) is torch.Tensor and weight.dtype == parameter.dtype
                    parameter.copy_(weight)

    def run(self, inputs):
        self.model.train()
        return float(self.model(inputs).sum().detach())

    def state(self):
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}


def hire(ray, make, count=3, named=True):
    worker = ray.remote(Worker)
    return [worker.remote(make, seed, named) for seed in range(count)]


def states(ray, workers):
    return ray.get([worker.state.remote() for worker in workers])


def normed():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10))


def test_buffers_of_batch_norm(ray):
    workers, ps = hire(ray, normed), create_parameter_server("average")
    for times, worker in enumerate(workers):
        for _ in range(times + 2):
            ray.get(worker.run.remote(torch.randn(5, 1, 8, 8)))
    before = states(ray, workers)
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    for state in states(ray, workers):
        assert state["1.num_batches_tracked"] == 2  # the first worker's value
        mean = sum(each["1.running_mean"] for each in before) / 3
        assert torch.allclose(state["1.running_mean"], mean)
        assert torch.allclose(state["4.weight"], sum(each["4.weight"] for each in before) / 3)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_parameters_of_every_precision(ray, kind):
    def make():
        return nn.Linear(300, 100).to(getattr(torch, kind))
    workers, ps = hire(ray, make, named=False), create_parameter_server("average")
    before = states(ray, workers)
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    expected = strategies.AverageStrategy().aggregate([list(state.values()) for state in before])
    for state in states(ray, workers):
        for got, wanted in zip(state.values(), expected):
            assert got.dtype == wanted.dtype and torch.equal(got, wanted)


def test_the_state_of_an_optimizer_may_be_among_the_weights(ray):
    """The numbers of an optimizer's state are averaged, too, and are floats again, as torch requires."""
    @ray.remote(num_cpus=0)
    class Trains:
        def __init__(self, lr):
            torch.manual_seed(1)
            self.model = torch.nn.Linear(4, 2)
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

        def step(self):
            self.optimizer.zero_grad()
            self.model(torch.ones(3, 4)).pow(2).sum().backward()
            self.optimizer.step()
            return self.optimizer.param_groups[0]["lr"]

        def get_weights(self):
            return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

        def set_weights(self, weights):
            self.model.load_state_dict(weights["model"])
            self.optimizer.load_state_dict(weights["optimizer"])
    workers, ps = [Trains.remote(lr) for lr in (0.25, 0.75)], create_parameter_server()
    for _ in range(2):
        for worker in workers:
            worker.step.remote()
        ray.get(ps.sync_from_workers.remote(workers))
    assert ray.get([worker.step.remote() for worker in workers]) == [0.5, 0.5]


def test_two_networks(ray):
    @ray.remote
    class Gan:
        def __init__(self, seed):
            torch.manual_seed(seed)
            self.generator, self.critic = nn.Linear(64, 500), nn.Sequential(nn.Linear(500, 1), nn.BatchNorm1d(1))

        def get_weights(self):
            return {"G": self.generator.state_dict(), "D": self.critic.state_dict()}

        def set_weights(self, weights):
            self.generator.load_state_dict(weights["G"])
            self.critic.load_state_dict(weights["D"])

        def first(self):
            return self.generator.weight.detach()[0].clone(), self.critic[0].weight.detach()[0].clone()
    workers, ps = [Gan.remote(seed) for seed in range(2)], create_parameter_server("average")
    before = ray.get([worker.first.remote() for worker in workers])
    ps.sync_from_workers.remote(workers)
    for after in ray.get([worker.first.remote() for worker in workers]):
        for at in range(2):
            assert torch.allclose(after[at], (before[0][at] + before[1][at]) / 2)


@pytest.mark.parametrize("name", ["average", "mine"])
def test_everybody_gets_the_flavour_that_he_sent(ray, name):
    @ray.remote
    class Flavoured:
        def __init__(self, kind, value):
            array = np.full((200, 200), value, np.float32)
            self.weights = [torch.from_numpy(array) if kind is torch.Tensor else array]

        def get_weights(self):
            return self.weights

        def set_weights(self, weights):
            assert type(weights[0]) is type(self.weights[0])
            weights[0][0, 0] = 7  # a private copy
            self.weights = weights

        def value(self):
            return float(self.weights[0][0, 0]), float(self.weights[0][1, 1])

    class Mine(strategies.SyncStrategy):
        def aggregate(self, weight_lists):
            return [sum(each) / len(each) for each in zip(*weight_lists)]
    STRATEGIES["mine"] = Mine
    try:
        ps = create_parameter_server(name)
    finally:
        del STRATEGIES["mine"]
    workers = [Flavoured.remote(kind, value) for kind, value in ((torch.Tensor, 1), (np.ndarray, 2), (torch.Tensor, 6))]
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    assert ray.get([worker.value.remote() for worker in workers]) == [(7, 3)] * 3
    assert type(ray.get(ps.pull_weights.remote())[0]) is torch.Tensor
    assert float(ray.get(ps.pull_weights.remote())[0][0, 0]) == 3


def test_what_was_returned_is_a_snapshot(ray):
    workers, ps = hire(ray, lambda: nn.Linear(300, 300), count=2, named=False), create_parameter_server("max")
    ps.sync_from_workers.remote(workers)
    before = ray.get(ps.pull_weights.remote())
    kept = [tensor.clone() for tensor in before]
    workers[0].set_weights.remote([tensor + 1 for tensor in before])
    ray.get(ps.sync_from_workers.remote(workers))
    assert all(torch.equal(a, b) for a, b in zip(before, kept))
    assert torch.equal(ray.get(ps.pull_weights.remote())[0], kept[0] + 1)


def test_tensors_with_gaps_and_parameters(ray):
    @ray.remote
    class Strided:
        def get_weights(self):
            tied = nn.Parameter(torch.arange(6.0).reshape(2, 3))
            return [tied.t(), tied, tied, torch.ones(4, requires_grad=True)[::2]]

        def set_weights(self, weights):
            self.weights = weights

        def seen(self):
            return self.weights
    workers, ps = [Strided.remote(), Strided.remote()], create_parameter_server("average")
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    across, straight, again, gaps = ray.get(workers[0].seen.remote())
    assert torch.equal(across.t(), straight) and torch.equal(straight, again) and gaps.tolist() == [1, 1]


@pytest.mark.parametrize("strategy", ["average", "mine"])
@pytest.mark.parametrize("kind", ["as they are", "dicts", "negative", "with others"])
def test_weights_as_a_module_has_them(ray, monkeypatch, strategy, kind):
    """Trained parameters, one of them twice; dicts in a list; and tensors that must be copied before they are sent."""
    if strategy == "mine":
        monkeypatch.setitem(STRATEGIES, "mine", type("Mine", (strategies.AverageStrategy,), {}))

    @ray.remote
    class Holder:
        def __init__(self, value):
            self.model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
            with torch.no_grad():
                for parameter in self.model.parameters():
                    parameter.fill_(value)

        def get_weights(self):
            parameters = list(self.model.parameters())
            if kind == "dicts":
                return [self.model.state_dict(), {"again": parameters[0]}]
            if kind == "negative":
                return [torch.complex(torch.zeros(3), -parameters[1][0].detach() * torch.ones(3)).conj().imag]
            return [*parameters, parameters[0]] if kind == "as they are" else [*parameters, np.float32(5), None]

        def set_weights(self, weights):
            self.weights = weights

        def seen(self):
            leaves = [*self.weights[0].values(), *self.weights[1].values()] if kind == "dicts" else self.weights
            assert all(type(leaf) is torch.Tensor and not leaf.requires_grad for leaf in leaves[:4])
            return [leaf if leaf is None else float(leaf.max()) for leaf in leaves]
    workers, ps = [Holder.remote(1.0), Holder.remote(4.0)], create_parameter_server(strategy)
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    expected = {"as they are": [2.5] * 5, "dicts": [2.5] * 4 + [0, 1, 0, 2.5], "negative": [2.5],
                "with others": [2.5] * 4 + [5, None]}[kind]
    assert ray.get([worker.seen.remote() for worker in workers]) == [expected] * 2


def test_tensors_that_were_received_are_apart(ray):
    """Each tensor has its own memory, as long as the tensor lives."""
    @ray.remote
    class Keeper:
        def __init__(self):
            self.kept, self.weights = [], [torch.full((50,), float(i)) for i in range(20)]

        def get_weights(self):
            return self.weights

        def set_weights(self, weights):
            self.kept.append(weights[3].view(10, 5))
            weights[4] += 1
            assert [float(each[0]) for each in weights] == [0, 1, 2, 3, 5, *range(5, 20)]
            weights[3].resize_(0)

        def sums(self):
            return [float(each.sum()) for each in self.kept]
    workers, ps = [Keeper.remote(), Keeper.remote()], create_parameter_server("average")
    for _ in range(5):
        ps.sync_from_workers.remote(workers)
    assert ray.get([worker.sums.remote() for worker in workers]) == [[150.0] * 5] * 2


def test_weights_that_cannot_be_sent_are_named(ray):
    @ray.remote
    class Odd:
        def get_weights(self):
            return [torch.ones(2), torch.ones(2).to_sparse()]

        def set_weights(self, weights):
            pass
    with pytest.raises(ray.exceptions.RayTaskError, match="tensor 1 is sparse float32 in 1 dimensions"):
        ray.get(create_parameter_server("average").sync_from_workers.remote([Odd.remote()]))


def test_what_differs_is_named(ray):
    workers = [ray.remote(Worker).remote(lambda: nn.Linear(3, size), 0) for size in (2, 4)]
    with pytest.raises(ValueError, match=r"tensor weight of worker 1 is float32\[4, 3\], that of worker 0 is"):
        ray.get(create_parameter_server("average").sync_from_workers.remote(workers))


@pytest.mark.parametrize("first", ["get_weights", "set_weights"])
def test_tensors_are_made_in_one_step_whatever_a_worker_is_asked_first(ray, first):
    """Tensors are not made by one call of Python each, which takes longer than the rest of a small sync."""
    @ray.remote
    class Worker:
        def __init__(self):
            from miniray._serialize import torch as _torch
            _torch.tensor_in = None
            self.weights = [torch.ones(1000), torch.ones(20, 100)]

        def get_weights(self):
            return self.weights

        def set_weights(self, weights):
            self.weights = weights
    workers, ps = [Worker.remote(), Worker.remote()], create_parameter_server()
    if first == "set_weights":
        ray.get([worker.__ray_set_weights__.remote([torch.zeros(1000), torch.zeros(20, 100)]) for worker in workers])
    assert ray.get(ps.sync_from_workers.remote(workers)) == 1
    assert ray.get(ps.sync_from_workers.remote(workers)) == 2
