"""Implementations of the parameter server's optimizers in NumPy: the same bits, from the formulas of
src/kv/optim/optim.h."""

import os
import subprocess

import numpy as np
import pytest

PROGRAM = os.path.join(os.environ["MINIRAY_TEST_BUILD"], "tests", "optim-program")
F = np.float32
DEFAULTS = {"momentum": 0.9, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "decay": 0.0, "beta": 1.0, "l1": 0.0, "l2": 0.0}
STATES = {"add": 0, "sgd": 0, "momentum": 1, "nesterov": 1, "adagrad": 1, "rmsprop": 1, "adam": 2, "adamw": 2, "lamb": 2,
          "ftrl": 2}


def defaults(name):
    settings = dict(DEFAULTS)
    if name == "rmsprop":
        settings["beta2"] = 0.99
    if name == "lamb":
        settings["epsilon"] = 1e-6
    return settings


def power(base, exponent):
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        exponent >>= 1
        base *= base
    return result


def squares(values):
    """l2_norm.h: lanes of 16, then pairs; the sums of stretches of 1024 are added in their order."""
    total = 0.0
    for at in range(0, len(values), 1024):
        part = values[at:at + 1024].astype(np.float64)
        lanes = np.zeros(16)
        for row in range(0, len(part), 16):
            piece = part[row:row + 16]
            lanes[:len(piece)] += piece * piece
        for half in (8, 4, 2, 1):
            lanes[:half] += lanes[half:2 * half]
        total += lanes[0]
    return total


def adam_direction(g, state, s, t):
    one_first, one_second = F(1 / (1 - power(float(s["beta1"]), t))), F(1 / np.sqrt(1 - power(float(s["beta2"]), t)))
    state[0][:] = s["beta1"] * state[0] + F(1 - float(s["beta1"])) * g
    state[1][:] = s["beta2"] * state[1] + F(1 - float(s["beta2"])) * (g * g)
    return (state[0] * one_first) / (np.sqrt(state[1]) * one_second + s["epsilon"])


def update(name, w, state, d, s, t, rate, scale):
    """Returns the new values; changes the state in place."""
    if name == "add":
        return w + scale * d
    g = scale * d if name in ("adamw", "lamb") else scale * d + s["decay"] * w
    if name == "sgd":
        return w - rate * g
    if name in ("momentum", "nesterov"):
        state[0][:] = s["momentum"] * state[0] + g
        return w - rate * (state[0] if name == "momentum" else g + s["momentum"] * state[0])
    if name in ("adagrad", "rmsprop"):
        state[0][:] = state[0] + g * g if name == "adagrad" else s["beta2"] * state[0] + F(1 - float(s["beta2"])) * (g * g)
        return w - rate * (g / (np.sqrt(state[0]) + s["epsilon"]))
    if name == "ftrl":
        inverse = F(1 / float(rate))
        new = state[1] + g * g
        root, before = np.sqrt(new), np.sqrt(state[1])
        of_w = np.copysign(s["l1"], -w) - w * ((s["beta"] + before) * inverse + s["l2"])
        state[0][:] = (np.where(w == 0, state[0], of_w) + g) - ((root - before) * inverse) * w
        state[1][:] = new
        moved = (np.copysign(s["l1"], state[0]) - state[0]) / ((s["beta"] + root) * inverse + s["l2"])
        return np.where(np.abs(state[0]) <= s["l1"], F(0), moved)
    u = adam_direction(g, state, s, t)
    if name == "adam":
        return w - rate * u
    if name == "adamw":
        return (w - (rate * s["decay"]) * w) - rate * u
    u = u + s["decay"] * w
    of_w, of_u = squares(w), squares(u)
    trust = F(np.sqrt(of_w) / np.sqrt(of_u)) if of_w > 0 and of_u > 0 else F(1)
    return w - (rate * trust) * u


def program(name, kind, dim, count, rate, scale, settings, values, gradients):
    words = [PROGRAM, name, kind, str(dim), str(count), str(len(gradients)), repr(float(rate)), repr(float(scale))]
    words += [f"{key}={float(value)!r}" for key, value in settings.items()]
    done = subprocess.run(words, input=values.tobytes() + gradients.tobytes(), stdout=subprocess.PIPE, check=True)
    return np.frombuffer(done.stdout, dtype=F)


def scene(seed, dim, count, steps, zeros=False):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, dim)).astype(F)
    gradients = rng.normal(size=(steps, count, dim)).astype(F)
    if zeros:
        values[0] = 0
        gradients[:, 0] = 0
    return values, gradients


CHANGES = [{}, {"decay": 0.01}, {"momentum": 0.5, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3, "l1": 0.5, "l2": 0.1}]


@pytest.mark.parametrize("changes", CHANGES, ids=["defaults", "decay", "others"])
@pytest.mark.parametrize("name", STATES)
def test_dense(name, changes):
    values, gradients = scene(1, 1, 3001, 7)
    rate, scale = F(0.05), F(0.75)
    s = {key: F(value) for key, value in {**defaults(name), **changes}.items()}
    w, state = values[:, 0].copy(), [np.zeros(3001, F) for _ in range(STATES[name])]
    for t, d in enumerate(gradients[:, :, 0], 1):
        w = update(name, w, state, d, s, t, rate, scale)
        assert w.dtype == F
    got = program(name, "dense", 1, 3001, rate, scale, s, values, gradients)
    assert got.tobytes() == np.concatenate([w, *state]).tobytes()


@pytest.mark.parametrize("dim", [1, 5, 16])
@pytest.mark.parametrize("name", STATES)
def test_rows(name, dim):
    count, steps = 40, 12
    values, gradients = scene(2, dim, count, steps, zeros=True)
    rate, scale = F(0.1), F(1)
    s = {key: F(value) for key, value in {**defaults(name), "decay": 0.001, "l1": 0.01}.items()}
    expected = []
    for i in range(count):
        w, state, t = values[i].copy(), [np.zeros(dim, F) for _ in range(STATES[name])], 0
        for step in range(steps):
            if (step + 1) % (i + 2) != 0:  # each row has its own steps
                t += 1
                w = update(name, w, state, gradients[step, i], s, t, rate, scale)
        row = np.concatenate([w, *state]).tobytes()
        expected.append(row + (np.uint32(t).tobytes() if name in ("adam", "adamw", "lamb") else b""))
    assert program(name, "rows", dim, count, rate, scale, s, values, gradients).tobytes() == b"".join(expected)
