"""Files that are written whole or not at all: as a draft beside the path, PATH.PID.tmp, that takes its place at the end.

A draft is locked while it is written. So one that is not locked is of a writer that was killed, on whichever machine and
in whichever container, and whoever writes the same path next removes it. Where the file system has no locks they stay.
"""

import contextlib
import fcntl
import glob
import os
import re


@contextlib.contextmanager
def written(path):
    """A file to write into; it is `path` when the block has ended without an error."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    draft = f"{path}.{os.getpid()}.tmp"
    with _locked(draft) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft)
            raise
    _keep_names(folder)
    _remove_forsaken(path)


def _locked(draft):
    """The file, empty, and this one's alone: another thread that writes the same path is waited for."""
    while True:
        file = os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "wb")
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        if _is_called(file.fileno(), draft):
            file.truncate()
            return file
        file.close()


def _is_called(opened, path):
    """Whether the file still has this name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(opened), os.stat(path))
    return False


def _keep_names(folder):
    """The new name outlives a machine that fails, too, where the file system can be asked for that."""
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _remove_forsaken(path):
    for draft in glob.glob(f"{glob.escape(path)}.*.tmp"):
        if re.fullmatch(r"\.\d+\.tmp", draft[len(path):]):
            with contextlib.suppress(OSError):
                _remove_if_forsaken(draft)


def _remove_if_forsaken(draft):
    opened = os.open(draft, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_called(opened, draft):
            os.unlink(draft)
    finally:
        os.close(opened)
