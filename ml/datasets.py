"""The datasets that the programs know, by name: (training images, test images) as NumPy arrays."""

import pickle
from pathlib import Path

import numpy as np

from ml import digits


def cifar10(path=None):
    """The 60,000 images of CIFAR-10 in the "Python version" of its files, which nothing here downloads."""
    folder = Path(path or "data/cifar-10-batches-py")
    names = [f"data_batch_{i}" for i in range(1, 6)]
    if not (folder / names[0]).exists():
        raise FileNotFoundError(
            f"cifar10 is not in {folder}: get cifar-10-python.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html, "
            "unpack it, and give the path of its folder cifar-10-batches-py (the digits are here: dataset='digits')")
    return _batches(folder, names), _batches(folder, ["test_batch"])


def _batches(folder, names):
    x, y = [], []
    for name in names:
        with open(folder / name, "rb") as file:
            batch = pickle.load(file, encoding="bytes")  # its authors' format; give it files that you trust
        x.append(np.asarray(batch[b"data"], np.float32) / 255)
        y.append(np.asarray(batch[b"labels"], np.int64))
    return digits.Images(np.concatenate(x), np.concatenate(y))


DATASETS = {"digits": lambda path=None: digits.load(path or digits.PATH), "cifar10": cifar10}


def load(name, path=None):
    if name not in DATASETS:
        raise ValueError(f"no dataset is called {name!r}; there are {', '.join(DATASETS)}")
    return DATASETS[name](path)
