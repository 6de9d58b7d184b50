"""Plots of a history: SVG without further packages, other formats with matplotlib.

Each kind of number has an axis of its own: losses, fractions, counts, seconds, rates. Numbers of no known kind share an
axis if their sizes are comparable.
"""

from __future__ import annotations

import math
import os
import re

from miniray._core_api import did_you_mean, own_file
from miniray.train import _svg
from miniray.train.data import as_number


# The last word of a field's name, as "loss" in "val_loss", is its kind.
_KINDS = {word: kind for kind, words in {
    "loss": "loss losses error cost mse mae rmse nll",
    "fraction": "accuracy acc precision recall f1 auc fraction share ratio percent",
    "count": "samples sample correct total count counts steps tokens batches images rows",
    "seconds": "s seconds time",
    "rate": "lr rate"}.items() for word in words.split()}
_COMPARABLE = 20  # largest factor between numbers of no known kind on one axis


def draw(history, path, fields=None, over="epoch") -> str:
    """Plots numbers of the history over the epochs, or over `over`, with an axis for each kind. Returns the path."""
    known = numbers(history)
    fields = known if fields is None or not known else list(fields)
    is_svg = os.fspath(path).endswith(".svg")
    make = None if is_svg else _figure_class()
    if not fields:
        raise ValueError(f"plot() needs numbers, and the history has none: it has {len(history)} epoch{'s' * (len(history) != 1)}")
    axes = _by_kind({field: _line(history, field) for field in fields})
    if is_svg:
        with open(path, "w", encoding="utf-8", opener=own_file.open_own) as file:
            file.write(_svg.svg(axes, over))
    else:
        _plotted(make, axes, over).savefig(path)
    return path


def _by_kind(lines):
    """The lines of each axis, as a list of {field: values}."""
    axes = {}
    for field, values in lines.items():
        kind = _KINDS.get(re.split(r"[^0-9a-z]+", field.lower())[-1])
        axes.setdefault(kind or _like_others(axes, values), {})[field] = values
    return list(axes.values())


def _like_others(axes, values):
    """The key of the axis for numbers of no known kind: one with numbers of a comparable size, or a new one."""
    size = _size(values)
    for key, lines in axes.items():
        sizes = [size, *map(_size, lines.values())]
        if not isinstance(key, str) and max(sizes) <= _COMPARABLE * min(sizes):
            return key
    return len(axes)


def _size(values):
    return max((abs(value) for value in values if math.isfinite(value)), default=0.0)


def _figure_class():
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plot() needs matplotlib (on Debian: python3-matplotlib), but for a picture whose name ends in "
                          ".svg") from None
    def make(height):
        figure = Figure(figsize=(8, height), layout="tight")
        FigureCanvasAgg(figure)
        return figure
    return make


def _line(history, field):
    values = [as_number(result.get(field)) for result in history]
    if all(value is None for value in values):
        raise ValueError(f"the history has no number {field!r}; expected one of {', '.join(numbers(history))}"
                         + did_you_mean.hint(field, numbers(history)))
    return [float("nan") if value is None else value for value in values]


def _plotted(make, axes, over):
    figure, first = make(max(4.5, 2.0 * len(axes))), None
    for number, lines in enumerate(axes):
        axis = figure.add_subplot(len(axes), 1, number + 1, sharex=first)
        first = first or axis
        for field, values in lines.items():
            axis.plot(range(len(values)), values, label=field)
        axis.legend()
    axis.set_xlabel(over)
    return figure


def numbers(history) -> list[str]:
    """The names of the fields that are numbers, in their order."""
    found = {}
    for result in history:
        for name, value in result.items():
            if not isinstance(value, bool) and as_number(value) is not None:
                found[name] = None
    return list(found)
