"""Optimizers and schedules of tables compared with torch's own. Skipped without torch."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.optim import SGD, Adagrad, Adam, AdamW, RMSprop, lr_scheduler  # noqa: E402  what is not installed comes first

from miniray import ps  # noqa: E402

STEPS, SHAPE = 20, (7, 5)
KEYS = np.array([1, 5, 2**63, 77, 9, 10, 2**64 - 1], np.uint64)
OPTIMIZERS = {
    "sgd": (dict(lr=0.1, decay=0.05), lambda p: SGD(p, lr=0.1, weight_decay=0.05)),
    "momentum": (dict(lr=0.05, decay=0.01), lambda p: SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01)),
    "nesterov": (dict(lr=0.05, momentum=0.8), lambda p: SGD(p, lr=0.05, momentum=0.8, nesterov=True)),
    "adagrad": (dict(lr=0.1, decay=0.02), lambda p: Adagrad(p, lr=0.1, weight_decay=0.02, eps=1e-8)),
    "rmsprop": (dict(lr=0.02, beta2=0.95), lambda p: RMSprop(p, lr=0.02, alpha=0.95)),
    "adam": (dict(), lambda p: Adam(p)),
    "adamw": (dict(lr=0.01, decay=0.1, beta1=0.8), lambda p: AdamW(p, lr=0.01, weight_decay=0.1, betas=(0.8, 0.999))),
}
SCHEDULES = {
    "cosine:20": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 20),
    "step:6:0.5": lambda optimizer: lr_scheduler.StepLR(optimizer, 6, 0.5),
    "polynomial:20:1:0.02": lambda optimizer: lr_scheduler.LinearLR(optimizer, 1, 0.1, 20),
    "constant+warmup:5": lambda optimizer: lr_scheduler.LinearLR(optimizer, 0.2, 1, 4),
}


def gradient(step):
    return np.random.default_rng([8, step]).normal(size=SHAPE).astype(np.float32)


@pytest.fixture(scope="module", params=["bsp", "asp"])
def learned(request):
    """The final values of arrays in blocks and of rows, for every optimizer and every schedule."""
    with ps.start(num_servers=2, replicas=2, num_workers=1, slots=4, consistency=request.param) as deployment:
        with deployment.connect(0) as connection:
            made = {name: dict(optimizer=name, **options) for name, (options, _) in OPTIMIZERS.items()}
            made.update({name: dict(optimizer="sgd", lr=0.2, schedule=name) for name in SCHEDULES})
            common = dict(initializer="constant:0.5")
            arrays = {name: connection.table(f"{name} of arrays", arrays={"w": SHAPE}, block=6, **common, **options)
                      for name, options in made.items()}
            rows = {name: connection.table(f"{name} of rows", dim=SHAPE[1], **common, **options)
                    for name, options in made.items()}
            for step in connection.steps(STEPS):
                for name in made:
                    arrays[name].push({"w": gradient(step)})
                    rows[name].push(KEYS, gradient(step))
            yield {name: (arrays[name].pull()["w"], rows[name].pull(KEYS)) for name in made}


def twin(make, schedule=None):
    weights = torch.nn.Parameter(torch.full(SHAPE, 0.5))
    optimizer = make([weights])
    scheduler = schedule(optimizer) if schedule else None
    for step in range(STEPS):
        weights.grad = torch.from_numpy(gradient(step))
        optimizer.step()
        if scheduler:
            scheduler.step()
    return weights.detach().numpy()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_does_what_that_of_torch_does(learned, name):
    expected = twin(OPTIMIZERS[name][1])
    for found in learned[name]:
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_does_what_that_of_torch_does(learned, name):
    expected = twin(lambda parameters: SGD(parameters, lr=0.2), SCHEDULES[name])
    for found in learned[name]:
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
