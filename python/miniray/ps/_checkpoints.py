"""The options for checkpoints of create_parameter_server, and the strategy that a checkpoint names."""

import os
from typing import NamedTuple

from miniray import _core
from miniray._core_api import local_mode as _local_mode
from miniray.ps import strategies

_EVERY_S = 30.0


class Checkpoints(NamedTuple):
    """Where a server begins and saves; paths are absolute, None: none."""

    restore: str | None = None  # as given
    folder: str | None = None
    every: float = 0.0  # seconds; 0: not given
    sets_aside: bool = False
    facts: tuple | None = None  # of the checkpoint that the server begins with: strategy, momentum, trim, version, syncs
    source: str | None = None  # that checkpoint

    def native(self):
        """The options as the library's server takes them."""
        return self.restore, self.folder, self.every, -1 if self.sets_aside else 0

    def for_server(self):
        """The options as the server in Python takes them."""
        return self._replace(restore=self.source, every=self.every or _EVERY_S)


def absolute(name, path):
    """The absolute path of a folder."""
    path = os.fspath(path)
    if not path:
        raise ValueError(f"{name} is empty: pass the path of a folder")
    return os.path.abspath(os.fsdecode(path))


def read(checkpoint_dir, checkpoint_every, restore, resume):
    """The checked options."""
    if checkpoint_dir is None and (checkpoint_every is not None or resume is not True):
        given = "resume" if checkpoint_every is None else "checkpoint_every"
        raise ValueError(f"{given} needs checkpoint_dir: pass the folder of the checkpoints, too")
    if not isinstance(resume, bool):
        raise TypeError(f"resume must be True or False, not {resume!r}")
    every = 0.0 if checkpoint_every is None else float(checkpoint_every)
    if checkpoint_every is not None and not 0 < every <= 1e9:
        raise ValueError(f"checkpoint_every is {checkpoint_every!r}: it must be seconds, above 0 and at most 1e9")
    restore = None if restore is None else absolute("restore", restore)
    folder = None if checkpoint_dir is None else absolute("checkpoint_dir", checkpoint_dir)
    if (restore or folder) and _local_mode.is_on():
        raise ValueError("checkpoints need processes: local mode has none; call init() without local_mode=True")
    source, facts = restore, None
    there = None if folder is None or not resume else _core.checkpoint_peek(folder)
    if there is not None and restore is not None:
        raise ValueError(f"restore is {restore}, but checkpoint_dir {folder} has a checkpoint, too: leave restore out, or "
                         "set resume=False")
    if restore is not None:
        facts = _core.checkpoint_peek(restore)
        if facts is None:
            raise FileNotFoundError(f"restore: there is no checkpoint of a model in {restore}")
    elif there is not None:
        source, facts = folder, there
    return Checkpoints(restore, folder, every, not resume, facts, source)


def strategy_of(checkpoints, known):
    """The name, in the registry `known`, of the strategy that the checkpoint names."""
    name = checkpoints.facts[0]
    if name in known and strategies.is_builtin_class(known[name]):
        return name
    for registered, each in known.items():
        if getattr(each, "__name__", None) == name and not strategies.is_builtin_class(each):
            return registered
    raise ValueError(f"the checkpoint {checkpoints.source} is of the strategy {name!r}, which STRATEGIES does not have: "
                     "register it, or pass it")


def check(checkpoints, made):
    """Raises for a strategy that is not the checkpoint's."""
    saved = checkpoints.facts[0]
    label = made._name if strategies.is_builtin(made) else type(made).__name__
    if label != saved:
        raise ValueError(f"the strategy is {label!r}, but the checkpoint {checkpoints.source} is of the strategy {saved!r}: "
                         "leave the strategy out, or give that one")
