"""The user's output files, in folders where other users may have put something first."""

import os
import stat


def open_own(path, flags):
    """For `open(..., opener=)`: opens the file without following a link, and only if it belongs to this user. A device is
    opened as it is."""
    opened = os.open(path, flags & ~os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        about = os.fstat(opened)
        if not stat.S_ISCHR(about.st_mode):
            if about.st_uid != os.geteuid() or about.st_nlink != 1:
                raise PermissionError(f"{os.fspath(path)} belongs to user {about.st_uid} and has {about.st_nlink} names; "
                                      "remove it, or choose another path")
            os.set_blocking(opened, True)  # while a pipe is full
            if flags & os.O_TRUNC and stat.S_ISREG(about.st_mode):
                os.ftruncate(opened, 0)
    except BaseException:
        os.close(opened)
        raise
    return opened
