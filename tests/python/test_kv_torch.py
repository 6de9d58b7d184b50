"""torch on a parameter server: the optimizer and the embedding. Where torch is not installed there is nothing to test."""

import threading

import pytest

torch = pytest.importorskip("torch")

from miniray import ps  # noqa: E402  what is not installed is noticed first
from miniray.ps.torch import Embedding, Optimizer  # noqa: E402


def model_of(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))


def data(rank, ranks):
    chance = torch.Generator().manual_seed(7)
    x = torch.randn(64, 6, generator=chance)
    return x[rank::ranks], x.sum(1, keepdim=True)[rank::ranks]


def trained(deployment, model, rank, ranks, steps=15, **options):
    x, y = data(rank, ranks)
    with deployment.connect(rank) as connection:
        optimizer = Optimizer(model.named_parameters(), connection, **options)
        first = [parameter.detach().clone() for parameter in model.parameters()]
        while optimizer.steps_done < steps:
            optimizer.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()
        return first, [parameter.detach().clone() for parameter in model.parameters()]


def trained_together(consistency, ranks=2, **options):
    found, models = [None] * ranks, [model_of(rank) for rank in range(ranks)]  # one after another: torch has one seed
    with ps.start(servers=2, workers=ranks, consistency=consistency) as deployment:
        def run(rank):
            found[rank] = trained(deployment, models[rank], rank, ranks, **options)

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_two_ranks_do_what_one_machine_does(name):
    """In BSP: the mean of the gradients of two halves is the gradient of the whole."""
    (first, last), (other_first, other_last) = trained_together("bsp", optimizer=name, lr=0.05)
    model = model_of(0)
    for mine, others, begun in zip(first, other_first, model.parameters()):
        assert torch.equal(mine, others) and torch.equal(mine, begun)
    assert all(torch.equal(mine, others) for mine, others in zip(last, other_last))
    x, y = data(0, 1)
    twin = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[name](model.parameters(), lr=0.05)
    for _ in range(15):
        twin.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        twin.step()
    for mine, its in zip(last, model.parameters()):
        assert torch.allclose(mine, its, atol=1e-5)


def test_all_begin_with_the_weights_of_rank_0():
    found = trained_together("asp", optimizer="sgd", lr=0.01, steps=0)
    for mine, begun in zip(found[0][0], model_of(0).parameters()):
        assert torch.equal(mine, begun)
    for mine, others in zip(found[0][0], found[1][0]):
        assert torch.equal(mine, others)


def test_an_embedding_on_a_sparse_table():
    with ps.start(servers=1, workers=1) as deployment, deployment.connect() as connection:
        embedding = Embedding(connection.table("rows", dim=3, optimizer="sgd", lr=0.5))
        keys = torch.tensor([[5, 9], [5, 2**62]])
        rows = embedding(keys)
        assert rows.shape == (2, 2, 3) and not rows.any()
        (rows * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
        connection.settle()
        with torch.no_grad():
            again = embedding(keys)
        assert again[0, 0].tolist() == [-1, -2, -3] and again[1, 1].tolist() == [-0.5, -1, -1.5]
        assert torch.equal(again[0, 0], again[1, 0]) and not again.requires_grad
        with pytest.raises(TypeError, match="sparse table"):
            Embedding(connection.table("dense", arrays={"w": 2}))


def test_tensors_as_keys_and_values():
    with ps.start(servers=1, workers=1) as deployment, deployment.connect() as connection:
        table = connection.table("tensors", dim=2)
        table.push(torch.tensor([3, 1, 3]), torch.tensor([[1.0, 2], [3, 4], [5, 6]]))
        pulled = table.pull(torch.tensor([1, 3]))
        assert isinstance(pulled, torch.Tensor) and pulled.tolist() == [[3, 4], [6, 8]]
        halves = connection.table("halves", dim=2, dtype=torch.bfloat16)
        halves.push([1, 1], torch.tensor([[1.0, 2], [3, 4]], dtype=torch.bfloat16))
        assert halves.pull(torch.tensor([1])).tolist() == [[4, 6]]
        with pytest.raises(TypeError, match="float64, and the table has float32"):
            table.push([1], torch.ones(1, 2, dtype=torch.float64))


def test_parameters_that_cannot_be():
    with ps.start(servers=1, workers=1) as deployment, deployment.connect() as connection:
        with pytest.raises(TypeError, match="float32"):
            Optimizer(torch.nn.Linear(2, 2).double().parameters(), connection)
        with pytest.raises(ValueError, match="no parameters"):
            Optimizer([], connection)
