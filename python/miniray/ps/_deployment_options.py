"""The options of a deployment, checked."""

from __future__ import annotations

import math
import os
import typing

from miniray._core_api import did_you_mean

_SERVERS, _WORKERS, _SLOTS, _BACKUP, _STALENESS, _READERS = 1024, 1024, 4095, 1023, 1 << 20, 1024
_LEAST_S, _MOST_S = 0.01, 1e6


class DeploymentOptions(typing.NamedTuple):
    """The options of a deployment, checked, in the order in which ps_start (python/native/py_ps_deployment.c) reads them."""

    checkpoint_dir: str | None
    num_servers: int
    replicas: int
    num_workers: int
    slots: int  # 0: those of the folder, 16 in a new one
    consistency: int  # number in mr_ps_consistency: 0 asp, 1 ssp, 2 bsp
    staleness: int  # bound of ssp
    mixed_consistency: bool
    checkpoint_every: float  # seconds; 0: never
    balance_every: float  # seconds; 0: default, negative: never
    backup_workers: int
    deadline: float  # seconds; 0: none
    readers: int


def checked(num_servers, replicas, num_workers, consistency, slots, checkpoint_dir, checkpoint_every, mixed_consistency,
            balance_every, backup_workers, deadline, readers):
    """The options of `start()`; raises ValueError where one is out of range."""
    kind, staleness = _consistency(consistency)
    return DeploymentOptions(
        None if checkpoint_dir is None else os.path.abspath(os.fspath(checkpoint_dir)),
        _whole("num_servers", num_servers, 1, _SERVERS), _whole("replicas", replicas, 1, _SERVERS),
        _whole("num_workers", num_workers, 1, _WORKERS), 0 if slots is None else _whole("slots", slots, 1, _SLOTS),
        kind, staleness,
        bool(mixed_consistency),
        0.0 if checkpoint_every is None else _seconds("checkpoint_every", checkpoint_every),
        0.0 if balance_every is None else _seconds("balance_every", balance_every) if balance_every else -1.0,
        _whole("backup_workers", backup_workers, 0, _BACKUP), 0.0 if deadline is None else _seconds("deadline", deadline),
        _whole("readers", readers, 0, _READERS))


def _whole(name, value, least, most):
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}: it must be a whole number from {least} to {most}")
    return value


def _seconds(name, value):
    if isinstance(value, (bool, str)) or not _LEAST_S <= float(value) <= _MOST_S or math.isnan(value):
        raise ValueError(f"{name} must be a number of seconds from {_LEAST_S} to {_MOST_S:.0f}, not {value!r}")
    return float(value)


def _consistency(text):
    if text in ("asp", "bsp"):
        return (0 if text == "asp" else 2), 0
    if isinstance(text, str) and text.startswith("ssp:") and text[4:].isdecimal() and int(text[4:]) <= _STALENESS:
        return 1, int(text[4:])
    raise did_you_mean.one_of("consistency", text, ("bsp", f"ssp:STEPS (0 to {_STALENESS})", "asp"))
