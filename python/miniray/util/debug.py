"""Messages that are printed once."""

from __future__ import annotations

import time

from miniray._core_api.tracebacks import public

_PERIOD_S = 60
_said = {}  # {key: time of the last call}
_mode = "once"  # "once", "periodically" or "never"


@public
def log_once(key) -> bool:
    """Whether this is the first call with this key in this process; after enable_periodic_logging(), the first call in
    a minute."""
    now = time.monotonic()
    if _mode == "never" or key in _said and (_mode == "once" or now - _said[key] < _PERIOD_S):
        return False
    _said[key] = now
    return True


@public
def disable_log_once_globally() -> None:
    """Makes log_once() return False from now on."""
    global _mode
    _mode = "never"


@public
def enable_periodic_logging() -> None:
    """Makes log_once() return True again after a minute."""
    global _mode
    _mode = "periodically"


@public
def reset_log_once(key=None) -> None:
    """Resets log_once() for this key, or for all keys."""
    if key is None:
        _said.clear()
    else:
        _said.pop(key, None)
