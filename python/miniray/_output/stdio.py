"""Output of workers on the streams of the driver."""

import os
import sys


_BAR = b"\x1ebar:"  # begins a line about a progress bar (progress_bars.py)


def show(fd, text):
    """Writes lines of workers to sys.stdout (1) or sys.stderr (2), after the driver's own output. A stream that is
    closed or cannot encode them is skipped."""
    bars = sys.modules.get("miniray._output.progress_bars")
    if bars is None and _BAR in text:
        from miniray._output import progress_bars as bars
    if bars is None:
        _show(fd, text)
        return
    text = bars.taken(text) if _BAR in text else text
    with bars.display.hidden():
        _show(fd, text)


def _show(fd, text):
    stream = sys.stdout if fd == 1 else sys.stderr
    try:
        stream.write(text.decode(errors="replace"))
        stream.flush()
    except Exception:
        _write(fd, text)


def _write(fd, text):
    try:
        while text:
            text = text[os.write(fd, text):]
    except OSError:  # the output is closed
        pass
