"""What is said once, and not again and again."""

import time

_PERIOD_S = 60
_said = {}  # {key: when}
_mode = "once"  # or "periodically", or "never"


def log_once(key):
    """Whether this is the first time that the process asks with this key; with enable_periodic_logging(), whether it is
    the first time in a minute."""
    now = time.monotonic()
    if _mode == "never" or key in _said and (_mode == "once" or now - _said[key] < _PERIOD_S):
        return False
    _said[key] = now
    return True


def disable_log_once_globally():
    """log_once() says no from now on."""
    global _mode
    _mode = "never"


def enable_periodic_logging():
    """log_once() says yes again after a minute from now on."""
    global _mode
    _mode = "periodically"


def reset_log_once(key=None):
    """As if nobody had asked with this key, or with any."""
    if key is None:
        _said.clear()
    else:
        _said.pop(key, None)
