"""Files that are written completely or not at all: as a draft beside the path, PATH.PID.tmp, which replaces the file at
the end.

A draft is locked while it is written. So an unlocked draft was left by a writer that was killed, on any machine or in
any container; the next writer of the same path removes it. On file systems without locks such drafts stay.
"""

import contextlib
import errno
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
    """The draft, empty and locked; waits for another thread that writes the same path."""
    while True:
        file = os.fdopen(_own(draft), "wb")
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        if _is_called(file.fileno(), draft):
            file.truncate()
            return file
        file.close()


def _own(draft):
    """Opens or creates the draft. What another user has put in its place is removed, and not written through."""
    while True:
        try:
            opened = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            about = os.fstat(opened)
            if about.st_uid == os.geteuid() and about.st_nlink <= 1:
                return opened
            os.close(opened)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        os.unlink(draft)


def _is_called(opened, path):
    """Whether the open file still has this name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(opened), os.lstat(path))
    return False


def _keep_names(folder):
    """Syncs the folder, where the file system allows that, so that the new name survives a machine failure."""
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
