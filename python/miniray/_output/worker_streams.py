"""sys.stdout and sys.stderr of a worker, which continues without output when its log cannot grow."""

import errno
import io
import sys

from miniray import _core

_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # the disk is full, or the file has its largest size


class _LogFile(io.FileIO):
    """The file behind a stream. Bytes that cannot be written are dropped, and the driver is warned once."""

    def write(self, data):
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _LOST:
                raise
            _core.output_lost(error.errno)
            return memoryview(data).nbytes


def install():
    """Replaces both streams. They write each line at once, since a log is a file."""
    sys.stdout = sys.__stdout__ = _opened(1, sys.stdout)
    sys.stderr = sys.__stderr__ = _opened(2, sys.stderr)


def _opened(fd, before):
    before.flush()
    file = _LogFile(fd, "wb", closefd=False)
    file.name = before.name
    return io.TextIOWrapper(io.BufferedWriter(file), encoding=before.encoding, errors=before.errors,
                            newline="\n", line_buffering=True, write_through=before.write_through)
