"""Pictures of a history, where matplotlib is installed."""

from miniray.train.data import as_number


def draw(history, path, fields=None):
    """Numbers of the history over the epochs, as a picture. The path."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plot() needs matplotlib (on Debian: python3-matplotlib)") from None
    fields = list(fields) if fields is not None else numbers(history)
    if not fields:
        raise ValueError("there is nothing to plot: no epoch was trained, or no result has a number")
    figure = Figure(figsize=(8, 4.5), layout="tight")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for field in fields:
        values = [as_number(result.get(field)) for result in history]
        if all(value is None for value in values):
            raise ValueError(f"the history has no number {field!r}; there are: {', '.join(numbers(history))}")
        axes.plot(range(len(values)), [float("nan") if value is None else value for value in values], label=field)
    axes.set_xlabel("epoch")
    axes.legend()
    figure.savefig(path)
    return path


def numbers(history):
    """The names of the fields that are numbers, in their order."""
    found = {}
    for result in history:
        for name, value in result.items():
            if not isinstance(value, bool) and as_number(value) is not None:
                found[name] = None
    return list(found)
