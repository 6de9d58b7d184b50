"""Progress bars (miniray.experimental.tqdm_ray), as the program shows them on its stderr.

On a terminal the open bars are the last lines, redrawn when one changes; other output is printed above them. Elsewhere,
in a file or a notebook's log, a bar is a line at intervals. A closed bar stays as a line.

A worker reports its bars in lines that begin with MARK.
"""

import contextlib
import json
import sys
import threading
import time

MARK = "\x1ebar:"
_WIDTH = 20  # width of the bar
_LINE_INTERVAL = 10.0  # seconds between two lines of one bar, without a terminal
_NEEDED = {"key": str, "desc": str, "unit": str, "place": int, "done": (int, float), "began": (int, float), "closed": bool}


def line_of(state):
    """The line that reports the state of a bar to the driver."""
    return f"{MARK}{json.dumps(state)}\n"


def taken(text):
    """Output of workers without the lines about bars, which are displayed."""
    rest = []
    with display.hidden():
        for line in text.splitlines(keepends=True):
            label, mark, told = line.decode(errors="replace").partition(MARK)
            state = _state_in(told) if mark else None
            if state is None:
                rest.append(line)
            else:
                display.take(state, label)
    return b"".join(rest)


def _state_in(text):
    """The state of a bar in a line; None: the line has none."""
    try:
        state = json.loads(text)
    except ValueError:
        return None
    fits = isinstance(state, dict) and all(isinstance(state.get(name), kind) for name, kind in _NEEDED.items())
    return state if fits and isinstance(state.get("total"), (int, float, type(None))) else None


class Display:
    """The bars of this program and its workers."""

    def __init__(self):
        self._lock = threading.RLock()
        self._open = {}  # {key: (label, state)}, in order of creation
        self._drawn = 0  # lines on the terminal
        self._hidden = 0  # calls of hide_bars() without unhide_bars()
        self._line_at = {}  # {key: time of its last line, without a terminal}

    def take(self, state, label=""):
        """Updates a bar."""
        with self._lock, self.hidden():
            key = state["key"]
            self._open[key] = label, dict(state)
            if state["closed"]:
                self._write(_text_of(*self._open.pop(key)) + "\n")
                self._line_at.pop(key, None)
            elif not _terminal() and time.monotonic() - self._line_at.setdefault(key, time.monotonic()) >= _LINE_INTERVAL:
                self._line_at[key] = time.monotonic()
                self._write(_text_of(label, state) + "\n")

    @contextlib.contextmanager
    def hidden(self):
        """Hides the bars inside the block, so that output is printed above them."""
        self.hide_bars()
        try:
            yield
        finally:
            self.unhide_bars()

    def hide_bars(self):
        """Hides the bars, so that output is printed above them."""
        with self._lock:
            self._hidden += 1
            if self._drawn > 0:
                self._write(f"\x1b[{self._drawn}A\r\x1b[J")  # moves up to the first bar and clears everything below
                self._drawn = 0

    def unhide_bars(self):
        """Shows the bars again."""
        with self._lock:
            self._hidden -= 1
            if self._hidden == 0 and self._open and _terminal():
                bars = sorted(self._open.values(), key=lambda bar: bar[1]["place"])
                self._write("".join(_text_of(*bar) + "\n" for bar in bars))
                self._drawn = len(bars)

    def _write(self, text):
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except Exception:  # the output is closed
            pass


def _terminal():
    try:
        return sys.stderr.isatty()
    except Exception:
        return False


def _text_of(label, state):
    done, total, unit = state["done"], state["total"], state["unit"]
    seconds = max(0.0, time.time() - state["began"])
    rate = done / seconds if seconds > 0 else 0.0
    head = label + (f"{state['desc']}: " if state["desc"] else "")
    if not total:
        return f"{head}{done}{unit} [{_clock(seconds)}, {rate:.2f}{unit}/s]"
    part = min(1.0, max(0.0, done / total))
    left = _clock((total - done) / rate) if rate > 0 and done <= total else "?"
    full = int(part * _WIDTH)
    return (f"{head}{part:4.0%}|{'█' * full}{' ' * (_WIDTH - full)}| {done}/{total} [{_clock(seconds)}<{left}, "
            f"{rate:.2f}{unit}/s]")


def _clock(seconds):
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


display = Display()
