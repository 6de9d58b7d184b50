"""The options of a parameter server with an optimizer: torch's names, as options of a table and of a deployment."""

from __future__ import annotations

import math
from typing import Any

from miniray import _core
from miniray._core_api import did_you_mean
from miniray.ps import _old_names

OPTIMIZERS = ("sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw", "lamb", "ftrl")
_RANKS_OF_ASYNC = 64  # num_workers of "async", if it is not given
_SLOT_BYTES = 4 << 20  # of a model, in each slot
_SLOTS_MOST = 256
_ADAPTIVE = ("adam", "adamw", "lamb", "adagrad", "rmsprop", "ftrl")  # a weight's rate follows from its own gradients
_RENAMED = {"eps": "epsilon", "weight_decay": "decay", "alpha": "beta2"}  # torch's names
_TABLE = ("schedule", "clip_norm", "precision", "compression", "seed")
_CONSISTENCIES = {"sync": "bsp", "async": "asp"}
_HYPERPARAMETERS = tuple(name for name, _ in _core.ps_hyperparameters)


def consistency_of(given: str | None) -> str:
    """The consistency in the words of tables."""
    return _CONSISTENCIES.get(given or "sync", given)


def ranks_of(given: int | None, consistency: str) -> int:
    """The number of ranks."""
    if given is None and consistency != "asp":
        raise ValueError(f'num_workers is missing: with consistency="{consistency}" the ranks wait for each other, so their '
                         'number must be known; or pass consistency="async"')
    return _RANKS_OF_ASYNC if given is None else given


def slots_for(size: int | None, num_servers: int) -> int | None:
    """The number of slots for a model of this size in bytes; None: the default."""
    return None if size is None else max(num_servers, min(_SLOTS_MOST, math.ceil(size / _SLOT_BYTES)))


def table(optimizer: str, lr: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The options of the model's table, with the names of tables; they are checked when the table is created."""
    if optimizer not in OPTIMIZERS:
        raise did_you_mean.one_of("optimizer", optimizer, OPTIMIZERS)
    if lr is None:
        raise ValueError(f"lr is missing: optimizer={optimizer!r} needs a learning rate, such as lr=0.001")
    given = dict(given)
    optimizer = _with_momentum(optimizer, given)
    known = {*_HYPERPARAMETERS, *_RENAMED, *_TABLE, "betas"}
    _old_names.refuse(f"create_parameter_server(optimizer={optimizer!r})", {name: given[name] for name in given if name not in known},
                      [*known, *COMMON])
    made = {"optimizer": optimizer, "lr": lr}
    betas = given.pop("betas", None)
    if betas is not None:
        made["beta1"], made["beta2"] = _pair(betas)
    for name, value in given.items():
        if value is not None:
            made[_RENAMED.get(name, name)] = value
    _check_compression(optimizer, made.get("compression"))
    return made


COMMON = ("optimizer", "lr", "model", "buffers", "num_workers", "consistency", "num_servers", "replicas", "checkpoint_dir",
          "checkpoint_every", "restore", "resume")


def _with_momentum(optimizer, given):
    """torch's SGD has momentum and nesterov as options."""
    if optimizer != "sgd":
        return optimizer
    nesterov = given.pop("nesterov", False)
    if not given.get("momentum"):
        given.pop("momentum", None)
        if nesterov:
            raise ValueError("nesterov needs momentum, such as momentum=0.9")
        return "sgd"
    return "nesterov" if nesterov else "momentum"


def _pair(betas):
    try:
        first, second = betas
    except (TypeError, ValueError):
        raise ValueError(f"betas are {betas!r}: expected two numbers, such as (0.9, 0.999)") from None
    return first, second


def _check_compression(optimizer, compression):
    codec = str(compression or "").partition("+")[0].partition(":")[0]
    if codec in ("topk", "randk") and optimizer in _ADAPTIVE:
        raise ValueError(f"compression={compression!r} does not converge with {optimizer}: it sends each weight's gradient in "
                         f"rare large parts, and {optimizer} divides by their size; use int8, bf16 or fp16, or the optimizer "
                         "sgd or momentum")
