"""What a parameter server is to be like, checked."""

from __future__ import annotations

import math
import os
import typing

_SERVERS, _WORKERS, _SLOTS, _BACKUP, _STALENESS = 1024, 1024, 4095, 1023, 1 << 20
_LEAST_S, _MOST_S = 0.01, 1e6


class Shape(typing.NamedTuple):
    servers: int
    replicas: int
    workers: int
    slots: int
    consistency: int  # as mr_ps_consistency has it: 0 asp, 1 ssp, 2 bsp
    staleness: int  # of ssp
    folder: str | None
    checkpoint: float  # seconds; 0: never
    mixed: bool
    balance: float  # seconds; 0: as usual, below: never
    backup: int
    deadline: float  # seconds; 0: none


def shape_of(servers, replicas, workers, consistency, slots, folder, checkpoint_every, mixed, balance_every, backup,
             deadline):
    kind, staleness = _consistency(consistency)
    return Shape(_whole("servers", servers, 1, _SERVERS), _whole("replicas", replicas, 1, _SERVERS),
                 _whole("workers", workers, 1, _WORKERS), _whole("slots", slots, 1, _SLOTS), kind, staleness,
                 None if folder is None else os.path.abspath(os.fspath(folder)),
                 0.0 if checkpoint_every is None else _seconds("checkpoint_every", checkpoint_every), bool(mixed),
                 0.0 if balance_every is None else _seconds("balance_every", balance_every) if balance_every else -1.0,
                 _whole("backup", backup, 0, _BACKUP), 0.0 if deadline is None else _seconds("deadline", deadline))


def _whole(name, value, least, most):
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}: {name} is a whole number from {least} to {most}")
    return value


def _seconds(name, value):
    if isinstance(value, (bool, str)) or not _LEAST_S <= float(value) <= _MOST_S or math.isnan(value):
        raise ValueError(f"{name} is a number of seconds from {_LEAST_S}, not {value!r}")
    return float(value)


def _consistency(text):
    if text in ("asp", "bsp"):
        return (0 if text == "asp" else 2), 0
    if isinstance(text, str) and text.startswith("ssp:") and text[4:].isdecimal() and int(text[4:]) <= _STALENESS:
        return 1, int(text[4:])
    raise ValueError(f"consistency is bsp, ssp:STEPS or asp, not {text!r}")
