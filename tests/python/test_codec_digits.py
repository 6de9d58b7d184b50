"""Effect of codecs on a training: four workers learn the digits with gradients that go through a codec, with error
feedback (src/kv/codec/residual.h), as well as without a codec. In NumPy, by the implementations that test_codec.py
compares with the codecs."""

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices are small, and waiting threads are expensive
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from test_codec import twin  # noqa: E402

sys.path.insert(0, os.environ["MINIRAY_TEST_SOURCE"])
from ml import digits  # noqa: E402  the path comes first

SEEDS, WORKERS, BATCH, EPOCHS, HIDDEN, RATE = 5, 4, 32, 12, 32, 0.5
F = np.float32


def begin(rng):
    """All parameters in one array."""
    w1 = rng.normal(size=(digits.PIXELS, HIDDEN)) / np.sqrt(digits.PIXELS)
    w2 = rng.normal(size=(HIDDEN, digits.CLASSES)) / np.sqrt(HIDDEN)
    return np.concatenate([w1.ravel(), np.zeros(HIDDEN), w2.ravel(), np.zeros(digits.CLASSES)]).astype(F)


def parts(flat):
    ends = np.cumsum([digits.PIXELS * HIDDEN, HIDDEN, HIDDEN * digits.CLASSES])
    w1, b1, w2, b2 = np.split(flat, ends)
    return w1.reshape(digits.PIXELS, HIDDEN), b1, w2.reshape(HIDDEN, digits.CLASSES), b2


def forward(flat, x):
    w1, b1, w2, b2 = parts(flat)
    hidden = np.maximum(x @ w1 + b1, 0)
    return hidden, hidden @ w2 + b2


def gradient(flat, x, y):
    _, _, w2, _ = parts(flat)
    hidden, scores = forward(flat, x)
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    odds[np.arange(len(y)), y] -= 1
    odds /= len(y)
    back = (odds @ w2.T) * (hidden > 0)
    parts_of = [(x.T @ back).ravel(), back.sum(axis=0), (hidden.T @ odds).ravel(), odds.sum(axis=0)]
    return np.concatenate(parts_of).astype(F)


class Worker:
    def __init__(self, name, part, size):
        self.name, self.part, self.rest = name, part, np.zeros(size, F)

    def send(self, values, seed, step):
        """The decoded gradient; the residual is added to the next one."""
        wanted = values + self.rest
        arrived = twin(self.name, wanted, self.part, seed, step)[1].astype(F)
        self.rest = wanted - arrived
        return arrived


def accuracy(name, part, seed, train, test):
    rng = np.random.default_rng(seed)
    flat = begin(rng)
    workers = [Worker(name, part, len(flat)) for _ in range(WORKERS)]
    step = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(train.y))
        for at in range(0, len(order) - WORKERS * BATCH + 1, WORKERS * BATCH):
            total = np.zeros_like(flat)
            for rank, worker in enumerate(workers):  # in the order of ranks
                picked = order[at + rank * BATCH:at + (rank + 1) * BATCH]
                total += worker.send(gradient(flat, train.x[picked], train.y[picked]), seed * WORKERS + rank, step)
            flat -= F(RATE) * (total / F(WORKERS))
            step += 1
    return (forward(flat, test.x)[1].argmax(axis=1) == test.y).mean()


@pytest.fixture(scope="module")
def images():
    return digits.load()


def mean(name, part, images):
    return np.mean([accuracy(name, part, seed, *images) for seed in range(SEEDS)])


@pytest.fixture(scope="module")
def whole(images):
    return mean("none", 1, images)


CODECS = [("fp16", 1), ("bf16", 1), ("int8", 1), ("sign", 1), ("topk", 0.01), ("randk", 0.1)]


@pytest.mark.skipif("MINIRAY_TEST_LONG" not in os.environ, reason="tests/SPECIAL")
@pytest.mark.parametrize("name, part", CODECS)
def test_accuracy_is_within_one_percent(name, part, images, whole):
    reached = mean(name, part, images)
    assert whole > 0.93
    assert reached > whole - 0.01, f"{reached:.4f} with {name}, {whole:.4f} without"
