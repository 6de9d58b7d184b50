"""Codecs of pushes from Python: the digits are learned equally well with each of them, through a parameter server."""

import os
import sys
import threading

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices are small, and waiting threads are expensive
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from test_codec_digits import BATCH, HIDDEN, begin, forward, gradient  # noqa: E402

from miniray import ps  # noqa: E402

sys.path.insert(0, os.environ["MINIRAY_TEST_SOURCE"])
from ml import digits  # noqa: E402  the path comes first

is_long = "MINIRAY_TEST_LONG" in os.environ  # tests/SPECIAL
SEEDS, RANKS, STEPS, RATE = 5 if is_long else 1, 2, 160, 0.5
CODECS = ["none", "fp16", "bf16", "int8", "sign", "topk:0.01", "randk:0.1", "lz4", "zstd", "int8+zstd"]
SIZE = digits.PIXELS * HIDDEN + HIDDEN + HIDDEN * digits.CLASSES + digits.CLASSES


def play(deployment, rank, train, found):
    """Runs one rank of all trainings at once: each has its own table, and its own order of the images."""
    with deployment.connect(rank) as connection:
        tables, orders, sizes = {}, {}, {}
        for codec in CODECS:
            for seed in range(SEEDS):
                tables[codec, seed] = connection.table(f"{codec} {seed}", arrays={"w": (SIZE,)}, optimizer="sgd", lr=RATE,
                                                       average=True, compression=codec, seed=seed)
                orders[codec, seed] = np.random.default_rng([seed, rank])
        for step in connection.steps(STEPS):
            for key, table in tables.items():
                before = connection.traffic
                if step == 0:
                    table.set({"w": begin(np.random.default_rng(key[1]))})
                else:
                    picked = orders[key].integers(0, len(train.y), BATCH * 2)
                    table.push({"w": gradient(table.pull()["w"], train.x[picked], train.y[picked])})
                    after = connection.traffic
                    sent, plain = sizes.get(key[0], (0, 0))
                    sizes[key[0]] = (sent + after["push_bytes_sent"] - before["push_bytes_sent"],
                                     plain + after["push_bytes"] - before["push_bytes"])
        if rank == 0:
            found["weights"] = {key: table.pull()["w"] for key, table in tables.items()}
            found["sizes"] = {codec: sent / plain for codec, (sent, plain) in sizes.items()}


@pytest.fixture(scope="module")
def trained():
    train, test = digits.load()
    found = {}
    with ps.start(num_servers=2, num_workers=RANKS, consistency="bsp") as deployment:
        threads = [threading.Thread(target=play, args=(deployment, rank, train, found)) for rank in range(RANKS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    reached = {key: (forward(weights, test.x)[1].argmax(axis=1) == test.y).mean()
               for key, weights in found["weights"].items()}
    return {codec: np.mean([reached[codec, seed] for seed in range(SEEDS)]) for codec in CODECS}, found


@pytest.mark.parametrize("codec", CODECS[1:])
def test_accuracy_over_the_seeds_is_within_one_percent(codec, trained):
    reached, _ = trained
    assert reached["none"] > 0.93
    assert reached[codec] > reached["none"] - (0.01 if is_long else 0.03), f"{reached[codec]:.4f} with {codec}, {reached['none']:.4f} without"


def test_what_is_lossless_gives_the_same_bits(trained):
    weights = trained[1]["weights"]
    for codec in ("lz4", "zstd"):
        for seed in range(SEEDS):
            assert np.array_equal(weights[codec, seed], weights["none", seed]), codec


def test_fewer_bytes_are_sent(trained):
    sizes = trained[1]["sizes"]
    most = {"none": 1, "fp16": 0.51, "bf16": 0.51, "int8": 0.27, "sign": 0.04, "topk:0.01": 0.03, "randk:0.1": 0.11,
            "lz4": 1, "zstd": 0.98, "int8+zstd": 0.27}
    assert {codec: size for codec, size in sizes.items() if size > most[codec]} == {}


def test_a_rank_that_another_process_plays_again(tmp_path):
    """A repeated rank has the same bits, since its error feedback is kept."""
    def some(deployment, steps, folder):
        with deployment.connect(0) as connection:
            connection.set_state_dir(folder)
            table = connection.table("t", dim=20, compression="sign")
            for step in connection.steps(steps):
                table.push(np.arange(30), np.random.default_rng(step).normal(size=(30, 20)).astype(np.float32))
            assert connection.traffic["feedback_lost"] == 0
            return table.pull(np.arange(30))

    found = []
    for parts in ([9], [4, 9]):
        folder = tmp_path / str(len(parts))
        folder.mkdir()
        with ps.start(num_servers=1, num_workers=1, consistency="bsp") as deployment:
            for steps in parts:
                rows = some(deployment, steps, folder)
        found.append(rows)
    assert np.array_equal(*found) and np.abs(found[0]).max() > 0
    with ps.start(num_servers=1, num_workers=1) as deployment, deployment.connect() as connection:
        connection.begin()
        with pytest.raises(Exception, match="before the rank's first step"):
            connection.set_state_dir(tmp_path)
        with pytest.raises(ValueError, match="codec"):
            connection.table("wrong", compression="gzip")
