"""Learning rates of pushes (`lr=`): of each push, and in a round that of the lowest rank, as in a NumPy twin."""

import threading

import numpy as np
import pytest

from miniray import ps

RANKS = 2


@pytest.fixture(scope="module")
def connection():
    with ps.start(num_servers=1, num_workers=1) as deployment, deployment.connect() as connection:
        yield connection


def test_each_push_has_its_rate(connection):
    table = connection.table("rows", dim=2, optimizer="sgd", lr=1, ordered=True, last_key=100)
    dense = connection.table("arrays", arrays={"w": 3, "b": ()}, optimizer="sgd", lr=1)
    ones, gradients = np.ones((2, 2), np.float32), {"w": np.ones(3, np.float32), "b": np.float32(2)}
    rates = [None, 0.5, 0, 2, np.float32(0.25), 4]
    total = 0
    for lr in rates:
        total += 1 if lr is None else float(lr)
        table.push([3, 5], ones, lr=lr)
        table.push_range(10, ones, lr=lr)
        assert table.push_pull([7], ones[:1], lr=lr).tolist() == [[-total, -total]]
        assert table.push_pull_range(20, ones, lr=lr).tolist() == [[-total, -total]] * 2
        assert table.pull([3, 5, 10, 11])[:, 0].tolist() == [-total] * 4
        dense.push(gradients, lr=lr)
        pulled = dense.push_pull(gradients, lr=lr)
        assert pulled["w"].tolist() == [-2 * total] * 3 and float(pulled["b"]) == -4 * total
    tickets = [table.push([50], ones[:1], lr=lr, wait=False) for lr in rates]
    for ticket in tickets:
        ticket.wait()
    assert table.pull([50])[0, 0] == -total


def test_adam_with_a_rate_for_each_push(connection):
    table, w, m, v = connection.table("adam", arrays={"w": 50}, optimizer="adam"), *np.zeros((3, 50), np.float32)
    chance = np.random.default_rng(3)
    for t, lr in enumerate((0.1, 0.05, None, 0.2), 1):
        g = chance.standard_normal(50).astype(np.float32)
        table.push({"w": g}, lr=lr)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - (lr or 0.001) * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(table.pull()["w"], w, rtol=1e-4, atol=1e-6)


def test_the_lowest_rank_gives_the_rate_of_a_round():
    """Rank 0 gives a rate in the first two steps, and is left out of the second; in the last one no rank gives one."""
    rates = {0: (0.5, 8, None, None), 1: (4, 0.25, 2, None)}
    expected, seen = [0, -2, -2.25, -6.25, -8.25], {}

    def play(deployment, rank):
        with deployment.connect(rank) as connection:
            dense = connection.table("dense", arrays={"w": 1}, optimizer="sgd", lr=1)
            rows = connection.table("rows", dim=1, optimizer="sgd", lr=1)
            seen[rank] = []
            for step in connection.steps(4):
                seen[rank].append((dense.pull()["w"].tolist()[0], rows.pull([7]).tolist()[0]))
                dense.push({"w": np.ones(1, np.float32) * (3 if rank == 0 and step == 0 else 1)}, lr=rates[rank][step])
                rows.push([7, 100 + rank], [3 if rank == 0 and step == 0 else 1, 1], lr=rates[rank][step])
                if rank == 0 and step == 1:
                    connection.skip()
            seen[rank].append((dense.pull()["w"].tolist()[0], rows.pull([7]).tolist()[0]))
            seen["others", rank] = rows.pull([100, 101]).tolist()

    with ps.start(num_servers=2, num_workers=RANKS, consistency="bsp") as deployment:
        threads = [threading.Thread(target=play, args=(deployment, rank)) for rank in range(RANKS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen[0] == seen[1] == [(value, value) for value in expected]
    # key 101 is pushed by rank 1 alone, and has the rate of rank 0 nevertheless
    assert seen["others", 0] == [-0.5 - 2 - 1, -0.5 - 0.25 - 2 - 1]


def test_rates_that_are_none(connection):
    table, total = connection.table("checked", optimizer="sgd", dim=1), connection.table("total", dim=1)
    for lr in (float("nan"), float("inf"), -1, 1e-45):
        with pytest.raises(ValueError, match=r"lr is .*: it must be 0, or from 1\.18e-38 to 3\.4e\+38"):
            table.push([1], [1], lr=lr)
    with pytest.raises(TypeError, match="lr must be a number, not '0.1'"):
        table.push([1], [1], lr="0.1")
    with pytest.raises(ValueError, match="table 'total' with the learning rate 0.5: its optimizer 'add' has none; these "
                                         "have one: sgd, momentum"):
        total.push([1], [1], lr=0.5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'lr'"):
        table.set([1], [1], lr=0.5)
    assert table.pull([1]).tolist() == [0]
