"""ml/gan.py: a GAN of digits that learns. Skipped without torch."""

import os
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, os.environ["MINIRAY_TEST_SOURCE"])

from ml import gan  # noqa: E402  the path comes first


def worker(worker_id=0, shards=1, **options):
    made = gan.Worker(worker_id)
    made.load_data_shard(worker_id, shards, **{"steps_per_epoch": 3, **options})
    return made


def test_an_epoch_gives_losses_and_changes_both_networks():
    one = worker()
    before = [weight.clone() for weight in one.get_weights()]
    result = one.train_epoch(0)
    assert set(result) == {"g_loss", "d_loss", "samples"} and result["samples"] == 3 * 32
    assert all(np.isfinite(value) and value > 0 for value in result.values())
    assert not any(torch.equal(a, b) for a, b in zip(before, one.get_weights()))


def test_workers_begin_alike_and_learn_from_their_own_images():
    one, two = worker(0, 2), worker(1, 2)
    assert all(torch.equal(a, b) for a, b in zip(one.get_weights(), two.get_weights()))
    assert len(one.labels) + len(two.labels) == 1541
    one.train_epoch(0)
    two.train_epoch(0)
    assert not torch.equal(one.get_weights()[0], two.get_weights()[0])
    two.set_weights(one.get_weights())
    assert all(torch.equal(a, b) for a, b in zip(one.get_weights(), two.get_weights()))


def test_the_same_seed_draws_the_same_digits():
    first, second = worker(), worker()
    for one in (first, second):
        one.train_epoch(0)
    images = first.generate(2)
    assert images.shape == (20, 8, 8) and images.dtype == np.float32 and 0 <= images.min() and images.max() <= 1
    assert np.array_equal(images, second.generate(2))


def test_it_learns_where_digits_have_their_ink():
    """After two hundred steps the mean of the generated images is much nearer to the mean of the digits."""
    one = worker(steps_per_epoch=200)
    mean = one.images.mean(0).reshape(8, 8).numpy()
    before = np.abs(one.generate(20).mean(0) - mean).mean()
    one.train_epoch(0)
    after = np.abs(one.generate(20).mean(0) - mean).mean()
    assert after < 0.6 * before
