"""Progress bars that work in tasks and actors: the program shows them all, below what it and its workers print.

    from miniray.experimental.tqdm_ray import tqdm

    @miniray.remote
    def read(files):
        for file in tqdm(files, desc="reading"):
            …
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from miniray import _core, worker
from miniray._core_api.tracebacks import public_module
from miniray._output import progress_bars as _progress_bars

_DESCRIPTION_MAX = 200  # the length of a line that a worker prints is limited


class tqdm:
    """A progress bar: over an iterable, or advanced by `update`. It reports at most once in `flush_interval_s` seconds.
    """

    def __init__(self, iterable=None, desc=None, total=None, unit=None, *, position=None, flush_interval_s=1.0) -> None:
        if total is None and hasattr(iterable, "__len__"):
            total = len(iterable)
        self._iterable, self._interval = iterable, flush_interval_s
        self._told, self._told_at = None, 0.0  # the reported state, and the time of the report
        self._state = {"key": os.urandom(8).hex(), "desc": "", "total": total, "unit": unit or "it", "place": position or 0,
                       "done": 0, "began": time.time(), "closed": False}
        self.set_description(desc)

    def __iter__(self) -> Iterator[Any]:
        if self._iterable is None:
            raise ValueError("this bar has no iterable: call update() instead")
        try:
            for each in self._iterable:
                yield each
                self.update()
        finally:
            self.close()

    @property
    def n(self) -> Any:
        """The number of items done."""
        return self._state["done"]

    @property
    def total(self) -> Any:
        """The number of items; None: unknown."""
        return self._state["total"]

    @total.setter
    def total(self, total) -> None:
        self._state["total"] = total

    def set_description(self, desc) -> None:
        """Sets the text before the bar."""
        self._state["desc"] = str(desc or "")[:_DESCRIPTION_MAX]
        self.refresh()

    def update(self, n=1) -> None:
        """Adds `n` to the number of items done."""
        self._state["done"] += n
        if time.monotonic() - self._told_at >= self._interval:
            self.refresh()

    def refresh(self) -> None:
        """Shows the current state at once."""
        if not self._state["closed"]:
            self._tell()

    def close(self) -> None:
        """Ends the bar. Its last state stays as a printed line."""
        if not self._state["closed"]:
            self._state["closed"] = True
            self._tell()

    def _tell(self):
        self._told_at = time.monotonic()
        if self._state == self._told:
            return
        self._told = dict(self._state)
        if _core.calls() > 0:
            worker.tell(_progress_bars.line_of(self._state))
        else:
            _progress_bars.display.take(self._state)


def instance() -> Any:
    """The display of this program's bars: `hide_bars()` before printing something else, `unhide_bars()` after it."""
    return _progress_bars.display


def safe_print(*args, **kwargs) -> None:
    """Prints without disturbing the bars."""
    with _progress_bars.display.hidden():
        print(*args, **kwargs)


public_module(globals())
