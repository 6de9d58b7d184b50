"""Progress of a training for people: one line that is redrawn on a terminal, otherwise one line per epoch."""

import contextlib
import os
import shutil
import sys
import time

from miniray.train.data import as_number

MODES = ("auto", "live", "lines", "quiet")
_PERIOD = 0.1  # seconds between two drawings


def open_display(mode, trainer, epochs):
    """The display of a trainer for this mode: Quiet, Lines or Live."""
    if mode == "auto":
        mode = "live" if sys.stdout is not None and sys.stdout.isatty() and not _is_dumb() else "lines"
    return {"live": Live, "lines": Lines, "quiet": Quiet}[mode](trainer, epochs)


def _is_dumb():
    """Whether the terminal cannot redraw a line."""
    return os.environ.get("TERM") == "dumb"


class Quiet:
    """Shows nothing."""

    def __init__(self, trainer, epochs):
        self._trainer, self._epochs = trainer, epochs
        self._began = time.monotonic()
        self._epoch, self._name, self._value, self._samples_s = 0, None, 0.0, 0.0

    def tick(self, done):
        """Called at intervals while workers train."""

    def epoch(self, epoch, result, took):
        """Called after an epoch with its duration in seconds, before the hooks print anything."""

    def pause(self):
        """Called before other output is printed."""

    def close(self):
        """Called at the end of the training."""

    def _note(self, epoch, result, took):
        self._epoch = epoch + 1
        self._name, self._value = shown(result)
        samples = as_number(result.get("samples", result.get("num_samples")))
        self._samples_s = samples * self._trainer.num_workers / took if samples and took > 0 else 0.0

    def _line(self, done, width, colour):
        return self._trainer.native.line(self._epoch, self._epochs, done, self._trainer.num_workers, self._name, self._value,
                                         self._samples_s, time.monotonic() - self._began, width, colour)


class Lines(Quiet):
    """One line per epoch."""

    def epoch(self, epoch, result, took):
        """Prints the line of an epoch."""
        numbers = ((name, as_number(value)) for name, value in result.items() if not isinstance(value, bool))
        told = [f"{name} {number:.4g}" for name, number in numbers if number is not None]
        if result.get("synced") is True:
            told.append("synced")
        _write(f"epoch {epoch + 1}/{self._epochs}  {'  '.join(told)}  {took:.2f} s\n")


class Live(Quiet):
    """One line that is redrawn, with one write each time, so that it does not flicker."""

    def __init__(self, trainer, epochs):
        super().__init__(trainer, epochs)
        self._colour = not os.environ.get("NO_COLOR") and not _is_dumb()
        self._next, self._is_drawn = 0.0, False
        self._draw(0)

    def tick(self, done):
        """Redraws the line."""
        if time.monotonic() >= self._next:
            self._draw(done)

    def epoch(self, epoch, result, took):
        """Redraws the line with the result of an epoch."""
        self._note(epoch, result, took)
        self.pause()

    def pause(self):
        """Clears the line."""
        if self._is_drawn:
            _write("\r\x1b[K")
            self._is_drawn = False

    def close(self):
        """Ends the line."""
        self._draw(0)
        _write("\n")

    def _draw(self, done):
        self._next = time.monotonic() + _PERIOD
        width = shutil.get_terminal_size().columns - 1  # a terminal wraps in its last column
        _write(f"\r{self._line(done, width, self._colour)}\x1b[K")
        self._is_drawn = True


def _write(text):
    """Writes without buffering. An error of the output does not end the training."""
    if sys.stdout is None:
        return
    with contextlib.suppress(OSError, ValueError):  # the output is closed
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:
            plain = text.replace("━", "=").replace("─", "-")
            sys.stdout.write(plain.encode(sys.stdout.encoding, "replace").decode(sys.stdout.encoding))
        sys.stdout.flush()


def shown(result):
    """(name, value) of the most important number: the loss, if the result has one."""
    names = [name for name in result if isinstance(name, str) and name != "synced"]
    for name in sorted(names, key=lambda name: (name != "loss", "loss" not in name)):
        number = as_number(result[name])
        if number is not None and not isinstance(number, bool):
            return name, float(number)
    return None, 0.0
