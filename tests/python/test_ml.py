"""The shipped digits: what ml/digits.py reads is what data/README.md says."""

import os
import sys

import numpy as np
import pytest

sys.path.insert(0, os.environ["MINIRAY_TEST_SOURCE"])

from ml import digits  # noqa: E402  the path comes first


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
