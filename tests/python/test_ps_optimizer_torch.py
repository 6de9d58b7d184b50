"""torch on a parameter server with an optimizer: Optimizer(model, ps, rank), and modules in sessions. Skipped without torch."""

import threading
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import miniray  # noqa: E402  what is not installed is noticed first
from miniray.ps import create_parameter_server  # noqa: E402
from miniray.ps.torch import Optimizer  # noqa: E402

STEPS = 12


def model_of(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))


def data(rank, ranks):
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(7))
    return x[rank::ranks], x.sum(1, keepdim=True)[rank::ranks]


def loss_of(model, rank, ranks):
    x, y = data(rank, ranks)
    return ((model(x) - y) ** 2).mean()


def weights_of(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def trained(ps, rank, ranks, decay, found):
    model = MODELS[rank]
    optimizer = Optimizer(model, ps, rank)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, decay)
    while optimizer.steps_done < STEPS:
        optimizer.zero_grad()
        loss_of(model, rank, ranks).backward()
        optimizer.step()
        scheduler.step()
    found[rank] = weights_of(model)
    optimizer.finish()


MODELS = []


def together(ranks, decay, **options):
    MODELS[:] = [model_of(rank) for rank in range(ranks)]  # one after another, since torch has one seed
    found = [None] * ranks
    with create_parameter_server(num_workers=ranks, **options) as ps:
        threads = [threading.Thread(target=trained, args=(ps, rank, ranks, decay, found)) for rank in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    return found


def torch_twin(ranks, decay, made):
    """The same by torch's optimizer, on the mean of the ranks' gradients."""
    model = model_of(0)
    optimizer = made(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, decay)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for rank in range(ranks):
            (loss_of(model, rank, ranks) / ranks).backward()
        optimizer.step()
        scheduler.step()
    return weights_of(model)


@pytest.mark.parametrize("options, made", [
    (dict(optimizer="sgd", lr=0.05, momentum=0.9), lambda given: torch.optim.SGD(given, 0.05, 0.9)),
    (dict(optimizer="adam", lr=0.02, betas=(0.8, 0.99)), lambda given: torch.optim.Adam(given, 0.02, (0.8, 0.99))),
    (dict(optimizer="adamw", lr=0.02, weight_decay=0.1), lambda given: torch.optim.AdamW(given, 0.02, weight_decay=0.1)),
    (dict(optimizer="rmsprop", lr=0.01, alpha=0.9), lambda given: torch.optim.RMSprop(given, 0.01, 0.9)),
])
def test_training_is_that_of_torch(ray, options, made):
    """With a scheduler, whose rates are sent with the pushes."""
    found = together(2, 0.5, **options)
    assert all(torch.equal(one, other) for one, other in zip(*found))
    for one, other in zip(found[0], torch_twin(2, 0.5, made)):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=1e-6)


def test_a_module_is_trained_in_place(ray):
    """Tied parameters once, frozen ones unchanged; gradients are consumed; the module of the server gives the names."""
    model, other = model_of(0), model_of(1)
    for each in (model, other):
        each.tied = each[0].weight
        each[2].bias.requires_grad = False
    frozen = model[2].bias.detach().clone()
    with create_parameter_server(optimizer="sgd", lr=0.1, model=model, num_workers=1) as ps:
        with ps.session(0) as session:
            for step in session.steps(3):
                assert session.pull(out=other) is other
                loss_of(other, 0, 1).backward()
                session.push_gradients(other)
                assert all(parameter.grad is None for parameter in other.parameters())
            session.pull(out=other)
        pulled = miniray.get(ps.pull_weights.remote())
    assert list(pulled) == [name for name, _ in model.named_parameters()]
    for name, parameter in other.named_parameters():
        assert torch.equal(pulled[name], parameter)
    assert torch.equal(other[2].bias, frozen)
    optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(model, 0, 1).backward()
        optimizer.step()
    for one, twin in zip(other.parameters(), model.parameters()):
        torch.testing.assert_close(one, twin, rtol=1e-5, atol=1e-6)


def test_a_pull_ends_graphs_made_before(ray):
    model = model_of(0)
    with create_parameter_server(optimizer="sgd", lr=0.1, model=model, num_workers=1) as ps, ps.session(0) as session:
        session.pull(out=model)
        loss = loss_of(model, 0, 1)
        session.pull(out=model)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_a_model_in_half_precision(ray):
    """The worker's model is bfloat16, that of the servers float32."""
    model = model_of(0)
    with create_parameter_server(optimizer="sgd", lr=0.05, model=model, num_workers=1, precision="bf16") as ps:
        half = model_of(1).bfloat16()
        optimizer = Optimizer(half, ps, 0)
        x, y = (each.bfloat16() for each in data(0, 1))
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = ((half(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        optimizer.finish()
        assert losses[-1] < losses[0] / 2
        assert all(tensor.dtype == torch.float32 for tensor in miniray.get(ps.pull_weights.remote()).values())


def test_steps_that_grad_scaler_leaves_out(ray):
    model = model_of(0)
    with create_parameter_server(optimizer="sgd", lr=0.05, model=model, num_workers=1) as ps:
        optimizer = Optimizer(model, ps, 0)
        before = weights_of(model)
        loss_of(model, 0, 1).backward()
        optimizer.grad_scale, optimizer.found_inf = torch.tensor(2.0), torch.tensor(1.0)
        optimizer.step()
        assert optimizer.skipped == 1 and all(torch.equal(one, other) for one, other in zip(before, weights_of(model)))
        optimizer.found_inf = torch.tensor(0.0)
        gradients = [parameter.grad.clone() for parameter in model.parameters()]
        optimizer.step()
        for one, other, gradient in zip(before, weights_of(model), gradients):
            torch.testing.assert_close(other, one - 0.05 * gradient / 2)
        optimizer.finish()


def test_wrong_arguments(ray):
    with create_parameter_server(optimizer="sgd", lr=0.05, num_workers=1) as ps:
        with pytest.raises(TypeError, match="Optimizer needs a torch module, not list"):
            Optimizer(list(model_of(0).parameters()), ps, 0)
        model = model_of(0)
        model[0].weight.data = model[0].weight.data.double()
        with pytest.raises(TypeError, match="tensor '0.weight' of the model is float64"):
            Optimizer(model, ps, 0)
        model = model_of(0)
        optimizer = Optimizer(model, ps, 0)
        with pytest.raises(NotImplementedError):
            optimizer.state_dict()
        with pytest.raises(NotImplementedError):
            optimizer.add_param_group({"params": []})
        optimizer.finish()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with ps.session(0) as session:
                session.push_weights(model)
                with pytest.raises(ValueError, match=r"gradient of tensor '0.bias' has the shape \[1\]"):
                    session.push_gradients({"0.bias": np.zeros(1, np.float32)})
