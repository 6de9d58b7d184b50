"""Names that miniray.ps and miniray.train had before release 0.2: each is an error that gives the new name."""

from miniray._core_api import did_you_mean
from miniray._core_api.tracebacks import public

_ARGUMENTS = {"servers": "num_servers", "workers": "num_workers", "folder": "checkpoint_dir", "copies": "replicas",
              "backup": "backup_workers", "mixed": "mixed_consistency", "codec": "compression", "mark": "version",
              # names in other systems
              "learning_rate": "lr", "rate": "lr", "weight_decay": "decay", "betas": "beta1, beta2", "eps": "epsilon",
              "alpha": "beta2", "lr_schedule": "schedule", "clip": "clip_norm"}


def refuse(callee, given, known):
    """Raises TypeError for the first argument of `given` that is not among the `known` names."""
    name = next((name for name in given if name not in known), None)
    if name is None:
        return
    new = _ARGUMENTS.get(name, "")
    if new.partition(",")[0] in known:
        raise TypeError(f"{callee} takes no {name}: it is called {new}")
    listed = f"; it takes {', '.join(known)}" if known else "; it takes no options"
    raise TypeError(f"{callee} takes no {name}{did_you_mean.hint(name, known) or listed}")


def attributes(**new_names):
    """The `__getattr__` of a class whose attributes were renamed: old_name="new_name"."""
    def __getattr__(self, name):
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name in new_names:
            raise AttributeError(f"{text}: it is called {new_names[name]!r}")
        known = () if name.startswith("__") else dir(self)  # dir() asks for __dict__
        raise did_you_mean.attribute_error(text, name, known)
    return public(__getattr__)
