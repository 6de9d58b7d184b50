"""Lines over a common axis as an SVG, in plain Python."""

import html
import math

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 405, 68, 20, 20, 48
_COLOURS = ("#1f6fb4", "#c8501e", "#3a8f4a", "#8454a8", "#9a7a1c", "#5a5a5a")
_TICKS = 6


class _Axis:
    """An axis from one round number to another."""

    def __init__(self, values, first, last):
        low, high = min(values), max(values)
        span = high - low or abs(high) or 1.0
        power = 10.0 ** math.floor(math.log10(span / _TICKS))
        self.step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) <= _TICKS)
        self.low = math.floor(low / self.step + 1e-9) * self.step
        self.high = max(math.ceil(high / self.step - 1e-9) * self.step, self.low + self.step)
        self.first, self.last = first, last

    def place(self, value):
        return self.first + (self.last - self.first) * (value - self.low) / (self.high - self.low)

    def ticks(self):
        return [self.low + self.step * number for number in range(round((self.high - self.low) / self.step) + 1)]

    def label(self, tick):
        return f"{0.0 if abs(tick) < self.step / 2 else tick:.6g}"


def _text(x, y, words, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def _line(x1, y1, x2, y2, colour, width=1):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def _runs(values):
    """The runs of (place, value) without gaps."""
    run = []
    for place, value in [*enumerate(values), (len(values), math.nan)]:
        if math.isfinite(value):
            run.append((place, value))
        elif run:
            yield run
            run = []


def _curve(values, across, up, colour):
    for run in _runs(values):
        points = [(across.place(x), up.place(y)) for x, y in run]
        if len(points) == 1:
            yield f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="3" fill="{colour}"/>'
        else:
            yield (f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="'
                   + " ".join(f"{x:.1f},{y:.1f}" for x, y in points) + '"/>')


def _grid(across, up, over):
    for tick in across.ticks():
        if tick == round(tick):  # epochs and steps are whole numbers
            yield _line(across.place(tick), _TOP, across.place(tick), _HEIGHT - _BOTTOM, "#e4e4e4")
            yield _text(across.place(tick), _HEIGHT - _BOTTOM + 18, across.label(tick))
    for tick in up.ticks():
        yield _line(_LEFT, up.place(tick), _WIDTH - _RIGHT, up.place(tick), "#e4e4e4")
        yield _text(_LEFT - 8, up.place(tick) + 4, up.label(tick), "end")
    yield _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, over)


def _key(names):
    """The legend at the top right, where loss curves are low."""
    for number, name in enumerate(names):
        y = _TOP + 18 + 18 * number
        yield _text(_WIDTH - _RIGHT - 40, y, name, "end")
        yield _line(_WIDTH - _RIGHT - 34, y - 4, _WIDTH - _RIGHT - 10, y - 4, _COLOURS[number % len(_COLOURS)], 2)


def svg(lines, over):
    """{name: values} over 0, 1, 2 …, whose unit is `over`; NaN and infinities are gaps."""
    finite = [value for values in lines.values() for value in values if math.isfinite(value)] or [0.0]
    count = max(len(values) for values in lines.values())
    across, up = _Axis([0, max(count - 1, 1)], _LEFT, _WIDTH - _RIGHT), _Axis(finite, _HEIGHT - _BOTTOM, _TOP)
    parts = [*_grid(across, up, over)]
    for number, values in enumerate(lines.values()):
        parts += _curve(values, across, up, _COLOURS[number % len(_COLOURS)])
    parts += _key(lines)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" '
            f'font-size="13">\n<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")
