"""The training data of a deployment: the batch of each step."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from miniray._core_api.tracebacks import public
from miniray.ps import _old_names, _table_options
from miniray.ps.errors import PsError, StaleError

if TYPE_CHECKING:
    from miniray.ps._connection import Connection

_BATCH_MOST = 2**32
_ITEMS_MOST = 2**56


class Batch(NamedTuple):
    """Items `start` to `stop - 1` of a shard, in an epoch; all are counted from 0. `rows[batch.slice]` selects them."""

    shard: int
    epoch: int
    start: int
    stop: int

    __getattr__ = _old_names.attributes(part="shard")

    @property
    def slice(self) -> slice:
        """`slice(start, stop)`."""
        return slice(self.start, self.stop)


def sizes_of(sizes: Any) -> list[int]:
    """The number of items in each shard."""
    if isinstance(sizes, (str, bytes)) or not hasattr(sizes, "__iter__"):
        raise TypeError(f"sizes must be a list of whole numbers, one for each shard, not {type(sizes).__name__}")
    return [_table_options.whole(f"sizes[{i}]", size, _ITEMS_MOST) for i, size in enumerate(sizes)]


@public
class Dataset:
    """The data of a deployment as one worker sees it; `connection.dataset(sizes, batch)` returns it.

        for batch in dataset.batches(epochs=3):      # begins and ends the steps
            table.push(keys, gradient(files[batch.shard][batch.slice]))

    In a loop over `connection.steps()`: `batch = dataset.next_batch()`.
    """

    __getattr__ = _old_names.attributes(piece="next_batch", pieces="batches")

    def __init__(self, connection: Connection, native: Any, batch: int):
        self._connection, self._native, self.batch = weakref.proxy(connection), native, batch

    def next_batch(self, timeout: float | None = None) -> Batch:
        """The batch of the open step. Every call returns the same one, also in a process that repeats the step."""
        return Batch(*self._native.piece(self.batch, self._connection._patience(timeout)))

    def batches(self, epochs: int | None = None) -> Iterator[Batch]:
        """The batches of this worker's steps, each begun before and ended after the body of the loop.

        When all items of this number of epochs are assigned, the worker hands back the items that it has claimed beyond
        them and leaves, since other ranks may have some steps left; in BSP the last worker stays in the rounds. After a StaleError in the body, `continue` goes on with the step that is due.
        """
        epochs = None if epochs is None else _table_options.whole("epochs", epochs, _ITEMS_MOST)
        while True:
            self._connection.begin()
            try:
                batch = self.next_batch()
                if epochs is not None and batch.epoch >= epochs:
                    self._connection.end()
                    self.leave()
                    return
            except StaleError:
                continue
            yield batch
            try:
                self._connection.end()
            except StaleError:
                pass  # begin() returns the step that is due

    def leave(self, timeout: float | None = None) -> None:
        """Hands back the items that are claimed for later steps, and leaves (`Connection.leave`): for a worker that ends
        while others continue. No step may be open."""
        patience = self._connection._patience(timeout)
        try:
            self._native.leave(patience)
        except PsError as error:
            if isinstance(error, (StaleError, TimeoutError)):
                raise
            self._native.hand_back(patience)  # the last worker cannot leave the rounds
