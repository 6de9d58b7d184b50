"""Shards of the training data, and results as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collections.abc import Mapping
from numbers import Real

from miniray import _core
from miniray._core_api.tracebacks import public_module


def shard_indices(num_samples, shard_id, num_shards, *, seed=0) -> Any:
    """The indices of one worker's samples, as a NumPy array, or as a list where NumPy is not installed.

    Each sample is in exactly one shard, shards differ in size by at most one, and the same seed gives the same shards
    in every process and on every machine. In `load_data_shard(self, shard_id, num_shards)`:

        own = shard_indices(len(images), shard_id, num_shards)
        self.images, self.labels = images[own], labels[own]
    """
    if num_samples < 0:
        raise ValueError(f"num_samples should be at least 0, not {num_samples}")
    if num_shards < 1:
        raise ValueError(f"num_shards is {num_shards}: it must be at least 1")
    if not 0 <= shard_id < num_shards:
        raise ValueError(f"shard_id is {shard_id}: it must be from 0 to {num_shards - 1}")
    data = _core.shard_indices(num_samples, num_shards, shard_id, seed % 2**64)
    try:
        import numpy
    except ImportError:
        import array
        return array.array("q", data).tolist()
    return numpy.frombuffer(data, dtype=numpy.int64).copy()


class ShardSampler:
    """For torch: `DataLoader(dataset, batch_size=64, sampler=ShardSampler(dataset, shard_id, num_shards))`.

    Yields the samples of one shard, in a different order in each epoch: call `set_epoch(epoch)` before each.
    """

    def __init__(self, dataset, shard_id, num_shards, *, shuffle=True, seed=0) -> None:
        self._own = shard_indices(len(dataset), shard_id, num_shards, seed=seed)
        self._shuffle, self._seed, self._epoch = shuffle, seed, 0

    def set_epoch(self, epoch) -> None:
        """Sets the epoch, which determines the order."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._own)

    def __iter__(self) -> Iterator[Any]:
        if not self._shuffle:
            return iter([int(i) for i in self._own])
        order = shard_indices(len(self._own), 0, 1, seed=self._seed * 1000003 + self._epoch + 1)
        return iter([int(self._own[i]) for i in order])


# ---- Results.


def plain_result(result) -> dict[str, Any]:
    """A result as a dict in which every number is a Python number; other values stay as they are."""
    if result is None:
        return {}
    if not isinstance(result, Mapping):
        raise TypeError(f"train_epoch should return a dict of numbers by their names, not {type(result).__name__}")
    return {key if type(key) in (str, int) else str(key): _plain(value) for key, value in result.items()}


def _plain(value):
    if type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Mapping):
        return plain_result(value)
    number = as_number(value)
    return value if number is None else number


def as_number(value) -> Any:
    """A number of NumPy, torch or fractions as a Python number; None if the value is not one number."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Real):
        return int(value) if isinstance(value, int) else float(value)
    item, shape = getattr(value, "item", None), getattr(value, "shape", None)
    if callable(item) and shape is not None and all(size == 1 for size in shape):
        try:
            number = item()
        except (TypeError, ValueError, RuntimeError):
            return None
        return number if isinstance(number, (bool, int, float)) else None
    return None


public_module(globals())
