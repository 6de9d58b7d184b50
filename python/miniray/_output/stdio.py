"""What workers print, on the program's own streams."""

import os
import sys


_BAR = b"\x1ebar:"  # in a line that tells of a progress bar (progress_bars.py)


def show(fd, text):
    """Whole lines that workers wrote to their stdout (1) or stderr (2): where the program prints now, behind what it has
    printed itself. A stream that is closed or cannot say it is gone past."""
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
    except OSError:  # there is nobody to tell
        pass
