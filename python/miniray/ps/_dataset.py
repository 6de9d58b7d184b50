"""The data that workers learn from: which items each step is done with."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from miniray.ps import _table_options
from miniray.ps.errors import PsError, StaleError

if TYPE_CHECKING:
    from miniray.ps._connection import Connection

_BATCH_MOST = 2**32
_ITEMS_MOST = 2**56


class Piece(NamedTuple):
    """Items `start` to `stop - 1` of a part, in an epoch; all are counted from 0. `rows[piece.slice]` has them."""

    part: int
    epoch: int
    start: int
    stop: int

    @property
    def slice(self) -> slice:
        return slice(self.start, self.stop)


def sizes_of(sizes: Any) -> list[int]:
    """How many items each part has."""
    if isinstance(sizes, (str, bytes)) or not hasattr(sizes, "__iter__"):
        raise TypeError(f"sizes is a list of whole numbers, one for each part, not {type(sizes).__name__}")
    return [_table_options.whole(f"sizes[{i}]", size, _ITEMS_MOST) for i, size in enumerate(sizes)]


class Data:
    """The data of a deployment, as one worker sees it: `connection.data(sizes, batch)` gives it.

        for piece in data.pieces(epochs=3):          # begins and ends the steps
            table.push(keys, gradient(files[piece.part][piece.slice]))

    or, in a loop over `connection.steps()`, `piece = data.piece()`.
    """

    def __init__(self, connection: Connection, native: Any, batch: int):
        self._connection, self._native, self.batch = weakref.proxy(connection), native, batch

    def piece(self, timeout: float | None = None) -> Piece:
        """The piece of the open step: the same for each call, and for whoever plays the step again."""
        return Piece(*self._native.piece(self.batch, self._connection._patience(timeout)))

    def pieces(self, epochs: int | None = None) -> Iterator[Piece]:
        """The pieces of this worker's steps, each begun before and ended after the body of the loop.

        When all items of so many epochs are handed out the worker hands back what it has claimed beyond, and in BSP
        leaves the rounds, for others may have some steps to go; the last one stays in them. After a StaleError in the body, `continue` goes on.
        """
        epochs = None if epochs is None else _table_options.whole("epochs", epochs, _ITEMS_MOST)
        while True:
            self._connection.begin()
            try:
                piece = self.piece()
                if epochs is not None and piece.epoch >= epochs:
                    self._connection.end()
                    self.leave()
                    return
            except StaleError:
                continue
            yield piece
            try:
                self._connection.end()
            except StaleError:
                pass  # begin says where to go on

    def leave(self, timeout: float | None = None) -> None:
        """Hands back what is claimed for steps that were not begun, and leaves the rounds of BSP, for a worker that ends
        while others go on. No step may be open."""
        patience = self._connection._patience(timeout)
        if self._connection.consistency == "bsp":
            try:
                self._native.leave(patience)
                return
            except (PsError, ValueError) as error:
                if isinstance(error, (StaleError, TimeoutError)):
                    raise
                # It is the last one, or in a mixed deployment: nobody leaves those rounds.
        self._native.hand_back(patience)
