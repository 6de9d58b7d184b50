"""torch on a parameter server: the optimizer and the embedding. Skipped without torch."""

import copy
import threading
import warnings

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
    # One after another, since torch has one seed.
    found, models = [None] * ranks, [model_of(rank) for rank in range(ranks)]
    with ps.start(num_servers=2, num_workers=ranks, consistency=consistency) as deployment:
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
    """In BSP the mean of the gradients of two halves of a batch is the gradient of the whole."""
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
    with ps.start(num_servers=1, num_workers=1) as deployment, deployment.connect() as connection:
        embedding = Embedding(connection.table("rows", dim=3, optimizer="sgd", lr=0.5))
        keys = torch.tensor([[5, 9], [5, 2**62]])
        rows = embedding(keys)
        assert rows.shape == (2, 2, 3) and not rows.any()
        (rows * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
        connection.flush()
        with torch.no_grad():
            again = embedding(keys)
        assert again[0, 0].tolist() == [-1, -2, -3] and again[1, 1].tolist() == [-0.5, -1, -1.5]
        assert torch.equal(again[0, 0], again[1, 0]) and not again.requires_grad
        with pytest.raises(TypeError, match="sparse table"):
            Embedding(connection.table("dense", arrays={"w": 2}))


def test_tensors_as_keys_and_values():
    with ps.start(num_servers=1, num_workers=1) as deployment, deployment.connect() as connection:
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
    with ps.start(num_servers=1, num_workers=1) as deployment, deployment.connect() as connection:
        with pytest.raises(TypeError, match="float32"):
            Optimizer(torch.nn.Linear(2, 2).double().parameters(), connection)
        with pytest.raises(ValueError, match="no parameters"):
            Optimizer([], connection)


@pytest.fixture(scope="module", params=["bsp", "asp"])
def connection(request):
    with ps.start(num_servers=1, num_workers=1, consistency=request.param) as deployment, deployment.connect() as connection:
        yield connection


def learn(model, optimizer, steps=3):
    x, y = data(0, 1)
    for _ in range(steps):
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def test_a_second_optimizer_begins_with_its_own_weights(connection):
    """As in a GAN, or with separate rates for weights and biases: some steps are done before the second optimizer
    begins."""
    for name in ("generator", "critic"):
        model, twin = model_of(5), model_of(5)
        optimizer = Optimizer(model.named_parameters(), connection, lr=0.05, name=name)
        assert all(torch.equal(mine, its) for mine, its in zip(model.parameters(), twin.parameters()))
        expected = learn(twin, torch.optim.SGD(twin.parameters(), lr=0.05))
        assert all(torch.allclose(mine, its, atol=1e-6) for mine, its in zip(learn(model, optimizer), expected))


def test_ranks_have_the_same_frozen_weights():
    models = [model_of(rank) for rank in range(2)]
    with ps.start(num_servers=1, num_workers=2, consistency="bsp") as deployment:
        def join(rank):
            models[rank][0].requires_grad_(False)
            with deployment.connect(rank) as connection:
                optimizer = Optimizer(models[rank].named_parameters(), connection, lr=0.05)
                learn(models[rank], optimizer)
                models[rank][0].requires_grad_(True)  # unfrozen: the layer learns from now on
                learn(models[rank], optimizer)

        threads = [threading.Thread(target=join, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(torch.equal(mine, others) for mine, others in zip(models[0].parameters(), models[1].parameters()))
    assert not torch.equal(models[0][0].weight, model_of(0)[0].weight)


def test_it_is_an_optimizer_of_torch(connection):
    model = model_of(1)
    optimizer = Optimizer(model.named_parameters(), connection, lr=0.05, name="whole")
    assert isinstance(optimizer, torch.optim.Optimizer) and optimizer.param_groups[0]["lr"] == 0.05

    def closure():
        optimizer.zero_grad()
        loss = model(data(0, 1)[0]).pow(2).mean()
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure)) for _ in range(4)]
    loss = closure()
    again = model(data(0, 1)[0]).pow(2).mean()  # a graph with the weights before the step
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        again.backward()
    losses.append(float(loss))
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]
    with pytest.raises(NotImplementedError, match="checkpoint"):
        optimizer.state_dict()
    with pytest.raises(NotImplementedError, match="another Optimizer"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
    with pytest.raises(TypeError, match="cannot be passed to another process"):
        copy.deepcopy(optimizer)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    optimizer.step(closure)
    scheduler.step()
    with pytest.raises(RuntimeError, match="lr was set to 0.025.* schedule="):
        optimizer.step(closure)


def test_weights_that_are_loaded_too_late_are_warned_of(connection):
    model = model_of(2)
    optimizer = Optimizer(model.named_parameters(), connection, lr=0.05, name="loaded")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learn(model, optimizer)
    model.load_state_dict(model_of(3).state_dict())
    with pytest.warns(UserWarning, match="'0.weight'.* before creating the Optimizer"):
        learn(model, optimizer, steps=1)


def test_parameters_as_they_may_come(connection):
    long = "decoder.block.11.layer.1.EncDecAttention.relative_attention_bias.weight"
    weights = {long: torch.nn.Parameter(torch.ones(2)), "one": torch.nn.Parameter(torch.tensor(3.0)),
               "none": torch.nn.Parameter(torch.ones(0, 2)), "across": torch.nn.Parameter(torch.ones(2, 3).t()),
               "half": torch.nn.Parameter(torch.ones(2).half(), requires_grad=False)}
    optimizer = Optimizer(weights.items(), connection, lr=0.5, name="all kinds")
    sum(weight.sum() for weight in weights.values()).backward()
    optimizer.step()
    assert weights[long].tolist() == [0.5, 0.5] and weights["one"] == 2.5 and (weights["across"] == 0.5).all()
    assert list(Optimizer(dict(model_of(0).named_parameters()), connection, name="dict").parameters)[0] == "0.weight"


def test_parameters_that_are_none(connection):
    layer, one = torch.nn.Linear(2, 2), torch.nn.Parameter(torch.ones(2))
    for given, error, words in [
            (layer, TypeError, "named_parameters.*Linear"), (one, TypeError, "named_parameters"),
            (["w"], TypeError, "a tensor, not str"), ([{"params": [one]}], TypeError, "an Optimizer for each group"),
            ([one, one], ValueError, "twice"), ([one * 2], ValueError, "non-leaf"),
            ([*layer.named_parameters(), *torch.nn.Linear(2, 2).named_parameters()], ValueError, "'weight' occurs twice"),
            ([torch.ones(2)], ValueError, "no parameters")]:
        with pytest.raises(error, match=words):
            Optimizer(given, connection, name="never")
    assert "never" not in connection.tables()
    with pytest.raises(TypeError, match="what connect\\(\\) returns, not str"):
        Optimizer([one], "unix:/nowhere")


def test_an_embedding_with_padding(connection):
    table = connection.table("padded", dim=2, optimizer="adam", lr=0.5, initializer="constant:7")
    embedding = Embedding(table, padding_idx=4)
    connection.end()  # a table exists from the next step on
    connection.begin()
    rows = embedding(torch.tensor([[4, 1], [1, 4]]))
    assert rows[0].tolist() == [[0, 0], [7, 7]]
    rows.sum().backward()
    connection.end()
    connection.begin()
    assert table.pull([4]).tolist() == [[7, 7]] and table.pull([1])[0, 0] < 7
    assert repr(embedding) == "Embedding('padded', dim=2, padding_idx=4)"
    with pytest.raises(TypeError, match="a tensor of whole numbers, not list"):
        embedding([1, 2])


def test_what_is_pushed_as_tensors_comes_back_as_tensors():
    with ps.start(num_servers=1) as deployment, deployment.connect() as connection:
        ones = torch.ones(2, 3, dtype=torch.bfloat16)
        rows = connection.table("rows", dim=3, dtype=torch.bfloat16)
        assert torch.equal(rows.push_pull([5, 1], ones), ones) and torch.equal(rows.push_pull([1, 1], ones), 3 * ones)
        vectors = connection.table("vectors", kind="vectors")
        for found, size in zip(vectors.push_pull([4, 2], [torch.ones(2), torch.ones(3)]), (2, 3)):
            assert torch.equal(found, torch.ones(size))
        arrays = connection.table("arrays", arrays={"w": torch.zeros(2, 2)})
        assert torch.equal(arrays.push_pull({"w": torch.ones(2, 2)})["w"], torch.ones(2, 2))
        with pytest.raises(TypeError, match="float64, and the table has float32"):
            arrays.push({"w": torch.ones(2, 2, dtype=torch.float64)})


# ---- Half precision.


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_half_parameters_learn_with_weights_of_fp32(connection, dtype, precision):
    """The twin keeps float32 weights, and gives each step their rounded values."""
    rounding = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    weight = torch.nn.Parameter(torch.linspace(-1, 1, 50).to(dtype))
    master, x = weight.detach().float(), torch.linspace(-2, 2, 50)
    optimizer = Optimizer([weight], connection, lr=0.0625, name=f"{dtype} {precision}", precision=precision)
    twin = torch.nn.Parameter(master.to(rounding).to(dtype))  # the first pull rounds, too
    for _ in range(4):
        for own in weight, twin:
            own.grad = None
            ((own.float() * x - 0.3) ** 2).sum().backward()
        optimizer.step()
        master -= 0.0625 * twin.grad.to(rounding).float()
        twin.data.copy_(master.to(rounding).to(dtype))
        assert weight.dtype == dtype and torch.equal(weight, twin)
    assert optimizer.skipped == 0 and optimizer.table.dtype == "float32"


def test_a_step_that_is_not_finite_is_left_out(connection):
    model = model_of(6)
    optimizer = Optimizer(model.named_parameters(), connection, lr=0.05, name="not finite", precision="fp16")
    learn(model, optimizer, steps=1)
    before, steps = [parameter.detach().clone() for parameter in model.parameters()], optimizer.steps_done
    for wrong in float("nan"), float("inf"), 65520.0:  # the last is an infinity in fp16
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        parameter.grad.view(-1)[-1] = wrong  # of the last parameter: those before it are left out, too
        optimizer.step()
        assert all(torch.equal(mine, its) for mine, its in zip(model.parameters(), before))
    assert optimizer.skipped == 3 and optimizer.steps_done == steps + 3
    learn(model, optimizer, steps=1)
    assert optimizer.skipped == 3 and not torch.equal(next(model.parameters()), before[0])


def scaler_of(scale):
    """A GradScaler of the CPU, which torch has from 2.3 on."""
    if not hasattr(torch.amp, "GradScaler"):
        pytest.skip("this torch has no GradScaler for the CPU")
    return torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1000)


@pytest.mark.parametrize("unscales", [False, True])
def test_a_grad_scaler(connection, unscales):
    model, twin = model_of(7), model_of(7)
    optimizer = Optimizer(model.named_parameters(), connection, lr=0.05, name=f"scaled {unscales}")
    scaler, (x, y) = scaler_of(1024.0), data(0, 1)
    for step in range(4):
        optimizer.zero_grad()
        scaler.scale(((model(x) - y) ** 2).mean()).backward()
        if step == 2:
            model[0].weight.grad[0, 0] = float("inf")
        if unscales:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
        scaler.step(optimizer)
        scaler.update()
    assert optimizer.skipped == 1 and scaler.get_scale() == 512.0
    expected = learn(twin, torch.optim.SGD(twin.parameters(), lr=0.05))  # three steps
    assert all(torch.allclose(mine, its, atol=1e-6) for mine, its in zip(model.parameters(), expected))


def test_what_a_grad_scaler_hands_over(connection):
    """The same protocol without a GradScaler: found_inf and grad_scale."""
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = Optimizer([weight], connection, lr=0.5, name="handed over")
    assert optimizer._step_supports_amp_scaling
    for scale, infinite, expected in (torch.tensor(4.0), 0.0, 0.5), (torch.tensor(4.0), 1.0, 0.5), (None, 0.0, -1.5):
        weight.grad = torch.full((2,), 4.0)
        optimizer.grad_scale, optimizer.found_inf = scale, torch.tensor(infinite)
        optimizer.step()
        assert weight.tolist() == [expected, expected]
    assert optimizer.skipped == 1


def test_autocast(connection):
    model = model_of(8)
    optimizer = Optimizer(model.named_parameters(), connection, lr=0.05, name="autocast", precision="bf16")
    x, y = data(0, 1)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0] and optimizer.skipped == 0
    assert all(torch.equal(parameter, parameter.bfloat16().float()) for parameter in model.parameters())


def test_a_rank_that_skips_leaves_the_mean_to_the_others():
    weights = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
    with ps.start(num_servers=1, num_workers=2, consistency="bsp") as deployment:
        skipped = [None] * 2

        def run(rank):
            with deployment.connect(rank) as connection:
                optimizer = Optimizer([weights[rank]], connection, lr=1.0)
                for step in range(3):
                    weights[rank].grad = torch.full((2,), 2.0 + 2 * rank)
                    if step == 1 and rank == 0:
                        weights[rank].grad[1] = float("nan")
                    optimizer.step()
                skipped[rank] = optimizer.skipped

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert skipped == [1, 0]
    assert weights[0].tolist() == weights[1].tolist() == [-10, -10]  # means of 3, 4 and 3


def test_parameters_of_other_dtypes(connection):
    with pytest.raises(TypeError, match="parameter '0' is float64: convert it to float32, bfloat16 or float16"):
        Optimizer([torch.nn.Parameter(torch.ones(2).double())], connection, name="never")
    frozen = torch.nn.Parameter(torch.ones(3).bfloat16(), requires_grad=False)
    trained = torch.nn.Parameter(torch.ones(2).bfloat16())
    assert len(Optimizer([frozen, trained], connection, name="frozen too").parameters) == 2
    # the float32 adapters of a frozen model in bfloat16: the frozen weights stay here
    assert len(Optimizer([frozen, torch.nn.Parameter(torch.ones(2))], connection, name="adapters").parameters) == 1
