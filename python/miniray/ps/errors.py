"""Errors of tables and connections. Wrong arguments raise ValueError and TypeError."""

from miniray._core_api import did_you_mean
from miniray.exceptions import RayError


class PsError(RayError):
    """Base of all errors of the key-value parameter server."""


class StaleError(PsError):
    """No step is open, or it is void: all copies of a slot were lost, or a round of BSP closed without this rank.

    After a loss the text names the checkpoint from which the tables continue. `connection.begin()` returns the step to
    continue with; in `for step in connection.steps(n)`, `continue` does the same.
    """


class TableNotFoundError(PsError, LookupError):
    """The table does not exist, or was dropped."""


class TableExistsError(PsError, ValueError):
    """A table of this name exists with other options."""


class RankTakenError(PsError):
    """Another process now has this rank."""


class PsTimeoutError(PsError, TimeoutError):
    """The operation timed out; the text names the cause."""


# By the numbers of mr_status (include/miniray/status.h).
_CLASSES = {1: ValueError, 2: TableNotFoundError, 3: TableExistsError, 4: PsTimeoutError, 7: MemoryError, 8: ValueError,
            12: StaleError}
_NOT_FOUND, _EXISTS = 2, 3


def raise_ps(code, text):
    """Raises the exception of a status."""
    kind = _CLASSES.get(code, PsError)
    if code == _EXISTS and text.startswith("the data"):
        kind = ValueError
    elif code in (_NOT_FOUND, _EXISTS) and "table" not in text:
        kind = RankTakenError if code == _EXISTS else PsError
    raise kind(did_you_mean.in_python(text)) from None
