"""Clipping by the norm of a whole table, and LAMB of whole arrays: the same arithmetic in NumPy, from
src/kv/optim/optim.h and l2_norm.h."""

import time

import numpy as np
import pytest

from miniray import ps

F = np.float32
STEPS, DIM = 8, 4
SHAPES = {"w": (30, DIM), "b": (11,)}


def squares(values, stretch):
    """l2_norm.h: lanes of 16, then pairs; the sums of stretches are added in their order."""
    total = 0.0
    for at in range(0, values.size, stretch):
        part = values.ravel()[at:at + stretch].astype(np.float64)
        lanes = np.zeros(16)
        for row in range(0, len(part), 16):
            piece = part[row:row + 16]
            lanes[:len(piece)] += piece * piece
        for half in (8, 4, 2, 1):
            lanes[:half] += lanes[half:2 * half]
        total += lanes[0]
    return total


def clipped(gradients, limit):
    """The factor for all gradients of a table."""
    norm = np.sqrt(sum(squares(gradient, gradient.size) for gradient in gradients))
    return F(limit / norm) if norm > limit else F(1)


def lamb(w, state, d, t, rate, scale, decay, beta1=F(0.9), beta2=F(0.999), epsilon=F(1e-6)):
    g = scale * d
    first, second = F(1 / (1 - float(beta1) ** t)), F(1 / np.sqrt(1 - float(beta2) ** t))
    state[0][:] = beta1 * state[0] + F(1 - float(beta1)) * g
    state[1][:] = beta2 * state[1] + F(1 - float(beta2)) * (g * g)
    u = (state[0] * first) / (np.sqrt(state[1]) * second + epsilon) + decay * w
    of_w, of_u = squares(w, 1024), squares(u, 1024)
    trust = F(np.sqrt(of_w) / np.sqrt(of_u)) if of_w > 0 and of_u > 0 else F(1)
    return w - (rate * trust) * u


def drawn(step):
    chance = np.random.default_rng([3, step])
    size = 0.01 if step % 3 == 2 else 1  # some gradients are below the limit
    return {name: (chance.normal(size=shape) * size).astype(F) for name, shape in SHAPES.items()}


def twin(begin, limit, rate, decay):
    weights = {name: array.copy() for name, array in begin.items()}
    state = {name: np.zeros((2, *shape), F) for name, shape in SHAPES.items()}
    cut = 0
    for step in range(STEPS):
        gradients = drawn(step)
        scale = clipped([gradients[name] for name in SHAPES], limit) if limit else F(1)
        cut += scale < 1
        for name in SHAPES:
            weights[name] = lamb(weights[name], state[name], gradients[name], step + 1, F(rate), scale, F(decay))
    assert not limit or 0 < cut < STEPS
    return weights


def train(slots, block, limit, rate=0.05, decay=0.01):
    options = dict(arrays=SHAPES, optimizer="lamb", lr=rate, decay=decay, initializer="normal:0:1", seed=5, block=block)
    with ps.start(num_servers=2, replicas=2, num_workers=1, slots=slots, consistency="bsp") as deployment:
        with deployment.connect(0) as connection:
            table = connection.table("arrays", clip_norm=limit, **options)
            assert table.options["clip_norm"] == limit
            for step in connection.steps(STEPS):
                if step == 0:
                    begin = table.pull()
                table.push(drawn(step))
            return begin, table.pull()


@pytest.mark.parametrize("limit", [0, 2.5])
def test_lamb_of_arrays_in_one_slot_has_the_bits_of_the_twin(limit):
    begin, end = train(1, 1000, limit)
    expected = twin(begin, limit, 0.05, 0.01)
    for name in SHAPES:
        assert end[name].tobytes() == expected[name].tobytes()


def test_it_does_not_matter_how_arrays_are_cut():
    begin, end = train(5, 7, 2.5)
    expected = twin(begin, 2.5, 0.05, 0.01)
    for name in SHAPES:
        np.testing.assert_allclose(end[name], expected[name], rtol=1e-5, atol=1e-6)


def test_rows_are_clipped_as_one_gradient():
    keys = np.arange(1, 60, 3)
    with ps.start(num_servers=2, replicas=1, num_workers=1, slots=4, consistency="bsp") as deployment:
        with deployment.connect(0) as connection:
            table = connection.table("rows", dim=DIM, optimizer="sgd", lr=1.0, clip_norm=2.0)
            gradients = np.random.default_rng(1).normal(size=(len(keys), DIM)).astype(F)
            for _ in connection.steps(1):
                table.push(keys, gradients)
            moved = -table.pull(keys)
    assert abs(np.linalg.norm(moved.astype(np.float64)) - 2) < 1e-5
    factor = F(2 / np.linalg.norm(gradients.astype(np.float64)))
    np.testing.assert_allclose(moved, factor * gradients, rtol=1e-6)


def test_slots_that_have_nothing_to_tell_hold_nobody_up():
    """Arrays are in two of the slots, and keys in different ones each time. A server repeats a lost report after 60 ms;
    without a loss no step may take that long."""
    steps, chance = 40, np.random.default_rng(2)
    with ps.start(num_servers=2, replicas=2, num_workers=1, slots=16, consistency="bsp") as deployment:
        with deployment.connect(0) as connection:
            arrays = connection.table("arrays", arrays=SHAPES, optimizer="lamb", lr=0.01, clip_norm=1.0)
            rows = connection.table("rows", dim=DIM, optimizer="sgd", lr=0.1, clip_norm=1.0)
            times = []
            for step in connection.steps(steps):
                times.append(time.monotonic())
                keys = chance.integers(0, 10**9, 4)
                rows.push(keys, np.ones((4, DIM), F))
                if step % 2:
                    arrays.push(drawn(step))
    assert np.median(np.diff(times)) < 0.03


def test_what_needs_a_round_is_refused_without_one():
    with ps.start(num_servers=1, num_workers=1, consistency="asp") as deployment, deployment.connect(0) as connection:
        with pytest.raises(ValueError, match="clip_norm"):
            connection.table("rows", dim=2, clip_norm=1.0)
        with pytest.raises(ValueError, match="lamb"):
            connection.table("arrays", arrays={"w": (3,)}, optimizer="lamb")
        with pytest.raises(ValueError, match="clip_norm"):
            connection.table("rows", dim=2, clip_norm=-1.0)
