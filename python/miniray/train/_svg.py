"""Lines over a common axis as an SVG, in plain Python: one panel for each kind of number, above each other."""

import html
import math

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 68, 20, 20, 48
_ALONE, _TOGETHER, _GAP = 337, 150, 22  # height of a panel that is the only one; of each of several; between two
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


def _grid(across, up):
    for tick in across.ticks():
        if tick == round(tick):  # epochs and steps are whole numbers
            yield _line(across.place(tick), up.last, across.place(tick), up.first, "#e4e4e4")
    for tick in up.ticks():
        yield _line(_LEFT, up.place(tick), _WIDTH - _RIGHT, up.place(tick), "#e4e4e4")
        yield _text(_LEFT - 8, up.place(tick) + 4, up.label(tick), "end")


def _scale(across, bottom, over):
    """The numbers and the unit below the lowest panel."""
    for tick in across.ticks():
        if tick == round(tick):
            yield _text(across.place(tick), bottom + 18, across.label(tick))
    yield _text((_LEFT + _WIDTH - _RIGHT) / 2, bottom + 38, over)


def _key(names, top, colours):
    """The legend at the right; its background keeps curves away from the text."""
    width = 46 + 7.5 * max(len(name) for name in names)
    yield (f'<rect x="{_WIDTH - _RIGHT - width:.1f}" y="{top + 3:.1f}" width="{width:.1f}" '
           f'height="{18 * len(names) + 4}" fill="white" fill-opacity="0.8"/>')
    for number, (name, colour) in enumerate(zip(names, colours)):
        y = top + 18 + 18 * number
        yield _text(_WIDTH - _RIGHT - 40, y, name, "end")
        yield _line(_WIDTH - _RIGHT - 34, y - 4, _WIDTH - _RIGHT - 10, y - 4, colour, 2)


def _panel(lines, across, top, height, colours):
    finite = [value for values in lines.values() for value in values if math.isfinite(value)] or [0.0]
    up = _Axis(finite, top + height, top)
    yield from _grid(across, up)
    for values, colour in zip(lines.values(), colours):
        yield from _curve(values, across, up, colour)
    ends = [value for values in lines.values() for value in values[-(len(values) // 3 + 1):] if math.isfinite(value)] or [0.0]
    is_high = sum(map(up.place, ends)) / len(ends) < top + height / 2  # accuracies end at the top, losses at the bottom
    yield from _key(lines, top + is_high * (height - 18 * len(lines) - 12), colours)


def svg(panels, over):
    """A panel for each {name: values} over 0, 1, 2 …, whose unit is `over`; NaN and infinities are gaps."""
    count = max(len(values) for lines in panels for values in lines.values())
    across = _Axis([0, max(count - 1, 1)], _LEFT, _WIDTH - _RIGHT)
    each, parts, used = _ALONE if len(panels) == 1 else _TOGETHER, [], 0
    for number, lines in enumerate(panels):
        top = _TOP + number * (each + _GAP)
        colours = [_COLOURS[(used + place) % len(_COLOURS)] for place in range(len(lines))]
        parts += _panel(lines, across, top, each, colours)
        used += len(lines)
    parts += _scale(across, top + each, over)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top + each + _BOTTOM}" font-family="sans-serif" '
            f'font-size="13">\n<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")
