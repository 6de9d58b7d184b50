"""The parts of ml/ that need NumPy alone: the digits match data/README.md, the classifier learns, PNGs are valid."""

import os
import pickle
import struct
import sys
import zlib

import numpy as np
import pytest

sys.path.insert(0, os.environ["MINIRAY_TEST_SOURCE"])

from ml import classifier, datasets, digits, image  # noqa: E402  the path comes first


def test_sizes_and_ranges():
    train, test = digits.load()
    assert train.x.shape == (1541, 64) and test.x.shape == (256, 64)
    assert train.x.dtype == np.float32 and train.y.dtype == np.int64
    assert train.x.min() == 0 and train.x.max() == 1
    assert set(train.y) == set(test.y) == set(range(10))


def test_every_seventh_is_for_testing():
    train, test = digits.load()
    lines = digits.PATH.read_text().splitlines()
    for image, label, line in ((test.x[0], test.y[0], lines[6]), (train.x[6], train.y[6], lines[7]),
                               (test.x[-1], test.y[-1], lines[1791]), (train.x[-1], train.y[-1], lines[1796])):
        assert label == int(line[0])
        assert np.array_equal(image * 16, [int(c, 17) for c in line[2:]])


def test_what_is_no_image_is_named_with_its_line(tmp_path):
    line = digits.PATH.read_text().splitlines()[0]
    for bad in (line[:-1], line[:-1] + "h", "x" + line[1:], ""):
        path = tmp_path / "digits.txt"
        path.write_text(f"{line}\n{bad}\n")
        with pytest.raises(ValueError, match="digits.txt:2: not a label and 64 pixels"):
            digits.load(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="run this from a checkout"):
        digits.load(tmp_path / "none.txt")


# ---- Datasets by name.


def test_a_dataset_that_nobody_knows():
    with pytest.raises(ValueError, match="no dataset is called 'mnist'; there are digits, cifar10"):
        datasets.load("mnist")


def test_cifar10_is_read_from_its_folder_or_the_error_says_where_to_get_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="cifar10 is not in .*cs.toronto.edu"):
        datasets.load("cifar10", tmp_path)
    for number, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        batch = {b"data": np.full((4, 3072), 51 * number, np.uint8), b"labels": [number, 1, 2, 3]}
        (tmp_path / name).write_bytes(pickle.dumps(batch))
    train, test = datasets.load("cifar10", str(tmp_path))
    assert train.x.shape == (20, 3072) and test.x.shape == (4, 3072) and train.x.dtype == np.float32
    assert test.x[0, 0] == 1 and test.y.tolist() == [5, 1, 2, 3] and train.y[::4].tolist() == [0, 1, 2, 3, 4]


# ---- The classifier.


def test_a_step_goes_down_the_gradient():
    """The gradient equals finite differences of the loss, for every weight."""
    draw = np.random.default_rng(1)
    x, y = draw.standard_normal((5, 6)).astype(np.float32), np.array([0, 1, 2, 1, 0])
    fresh = lambda: classifier.Classifier(6, 3, hidden=4, seed=2)  # noqa: E731
    loss = lambda model: model.step(x, y, 0.0)[0]  # noqa: E731
    stepped, begun = fresh(), fresh()
    stepped.step(x, y, 1.0)
    for which, weight in enumerate(begun.weights):
        for place in np.ndindex(weight.shape):
            up, down = fresh(), fresh()
            up.weights[which][place] += 1e-2
            down.weights[which][place] -= 1e-2
            slope = (loss(up) - loss(down)) / 2e-2
            assert weight[place] - stepped.weights[which][place] == pytest.approx(slope, abs=5e-3)


def trained(worker, epochs):
    worker.load_data_shard(0, 1)
    for epoch in range(epochs):
        result = worker.train_epoch(epoch)
    return result


def test_it_learns_the_digits():
    worker = classifier.ClassifierWorker()
    result = trained(worker, 10)
    assert result["samples"] == 1541 and result["accuracy"] > 0.97 and result["loss"] < 0.2
    assert worker.evaluate() > 0.95


def test_an_epoch_that_is_done_again_gives_the_same_bits():
    first, second = classifier.ClassifierWorker(), classifier.ClassifierWorker()
    trained(first, 2)
    kept = [weight.copy() for weight in first.get_weights()]
    first.train_epoch(2)
    second.load_data_shard(0, 1)
    second.set_weights(kept)
    second.train_epoch(2)
    assert all(np.array_equal(a, b) for a, b in zip(first.get_weights(), second.get_weights()))


def test_weights_that_were_set_are_the_workers_own():
    worker = classifier.ClassifierWorker()
    worker.load_data_shard(0, 1)
    given = [np.zeros_like(weight) for weight in worker.get_weights()]
    worker.set_weights(given)
    worker.train_epoch(0)
    assert not any(weight.any() for weight in given)


def test_shards_have_each_image_once():
    sizes = []
    for shard in range(3):
        worker = classifier.ClassifierWorker(shard)
        worker.load_data_shard(shard, 3)
        sizes.append(len(worker.y))
        assert set(worker.y) == set(range(10))
    assert sum(sizes) == 1541 and max(sizes) - min(sizes) <= 1


# ---- Images.


def read_png(path):
    """Checks a PNG against the standard; returns its pixels."""
    data, at, chunks = path.read_bytes(), 8, []
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(kind + body)
        chunks.append((kind, body))
        at += 12 + length
    assert [kind for kind, _ in chunks] == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">II5B", chunks[0][1])
    assert rest == [8, 0, 0, 0, 0]
    lines = np.frombuffer(zlib.decompress(chunks[1][1]), np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:]


def test_a_grid_of_images_as_a_png(tmp_path):
    images = np.zeros((5, 8, 8))
    images[3], images[4, 0, 0] = 1, 7  # values above black are clipped to black
    picture = image.grid(images, 3, scale=2)
    assert picture.shape == (2 * (2 * 9 + 1), 2 * (3 * 9 + 1))
    image.write_png(tmp_path / "grid.png", picture)
    got = read_png(tmp_path / "grid.png")
    assert np.array_equal(got, picture)
    assert (got[2:18, 2:18] == 255).all() and (got[20:36, 2:18] == 0).all()  # the first image, and the one below it
    assert got[20, 20] == 0 and got[22, 22] == 255 and got[0, 0] == 128


def test_digits_drawn_as_a_grid_can_be_read_back(tmp_path):
    _, test = digits.load()
    image.write_png(tmp_path / "digits.png", image.grid(test.x[:20].reshape(-1, 8, 8), 10, scale=1, gap=0))
    got = read_png(tmp_path / "digits.png")
    assert got.shape == (16, 80)
    assert np.allclose(1 - got[:8, :8] / 255, test.x[0].reshape(8, 8), atol=0.5 / 255)
