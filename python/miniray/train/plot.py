"""Plots of a history: SVG without further packages, other formats with matplotlib."""

from __future__ import annotations

import os

from miniray._core_api import own_file
from miniray.train import _svg
from miniray.train.data import as_number


def draw(history, path, fields=None, over="epoch") -> str:
    """Plots numbers of the history over the epochs, or over `over`. Returns the path."""
    fields = list(fields) if fields is not None else numbers(history)
    is_svg = os.fspath(path).endswith(".svg")
    figure = None if is_svg else _figure()
    if not fields:
        raise ValueError(f"plot() needs a history with numbers: these {len(history)} entries have none")
    lines = {field: _line(history, field) for field in fields}
    if is_svg:
        with open(path, "w", encoding="utf-8", opener=own_file.open_own) as file:
            file.write(_svg.svg(lines, over))
    else:
        _plotted(figure, lines, over).savefig(path)
    return path


def _figure():
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plot() needs matplotlib (on Debian: python3-matplotlib), but for a picture whose name ends in "
                          ".svg") from None
    figure = Figure(figsize=(8, 4.5), layout="tight")
    FigureCanvasAgg(figure)
    return figure


def _line(history, field):
    values = [as_number(result.get(field)) for result in history]
    if all(value is None for value in values):
        raise ValueError(f"the history has no number {field!r}; there are: {', '.join(numbers(history))}")
    return [float("nan") if value is None else value for value in values]


def _plotted(figure, lines, over):
    axes = figure.add_subplot()
    for field, values in lines.items():
        axes.plot(range(len(values)), values, label=field)
    axes.set_xlabel(over)
    axes.legend()
    return figure


def numbers(history) -> list[str]:
    """The names of the fields that are numbers, in their order."""
    found = {}
    for result in history:
        for name, value in result.items():
            if not isinstance(value, bool) and as_number(value) is not None:
                found[name] = None
    return list(found)
