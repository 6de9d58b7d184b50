"""The handwritten digits of data/digits.txt: 1,797 images of 8×8, to train and to test. NumPy is all it needs."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

PATH = Path(__file__).resolve().parents[1] / "data" / "digits.txt"
PIXELS = 64
CLASSES = 10
TEST_EVERY = 7  # data/README.md: examples/train.c splits them alike


class Images(NamedTuple):
    x: np.ndarray  # float32 [n, 64], 0 is white and 1 is black
    y: np.ndarray  # int64 [n], which digit it is


def load(path=PATH):
    """(training images, test images), always the same ones in the same order."""
    x, y = _read(path)
    test = np.arange(len(y)) % TEST_EVERY == TEST_EVERY - 1
    return Images(x[~test], y[~test]), Images(x[test], y[test])


def _read(path):
    try:
        lines = Path(path).read_text("ascii").split("\n")[:-1]
    except OSError as error:
        raise FileNotFoundError(f"the digits are not there: {error}; run this from a checkout of the sources") from None
    for number, line in enumerate(lines, 1):
        if len(line) != PIXELS + 2 or not line[0].isdigit() or not set(line[2:]) <= set("0123456789abcdefg"):
            raise ValueError(f"{path}:{number}: not a label and {PIXELS} pixels: {line[:80]!r}")
    codes = np.frombuffer("".join(lines).encode(), np.uint8).reshape(len(lines), PIXELS + 2)
    values = np.where(codes > ord("9"), codes - ord("a") + 10, codes - ord("0"))
    return values[:, 2:].astype(np.float32) / 16, values[:, 0].astype(np.int64)
