"""What a sync calls in workers that are Python's: their own methods, whose weights are then made plain (_tree.py), or
lent where they are, if they are a shared model's (_share.py)."""

from miniray import _core, _local
from miniray.ps import _share, _tree


def get_weights(worker):
    return _handed(worker.get_weights(), _copied)


def _copied(weights):
    return _tree.plain(weights) if _local.is_on() else _core.weights(weights, _tree.plain)


def lend_weights(worker):
    weights = worker.get_weights()
    return _share.lent(weights) if type(weights) is list else _handed(weights, _share.lent)


def _handed(weights, make):
    return _awaited(weights, make) if hasattr(weights, "__await__") else make(weights)


async def _awaited(weights, make):
    return make(await weights)


def set_weights(worker, weights):
    if _core.are_own(weights):
        return worker.set_weights(weights)
    if _share.taken(weights):
        return None
    leaves = _tree.leaves(weights)
    if not all(map(_is_owned, leaves)):
        owned = (leaf if _is_owned(leaf) else leaf.copy() for leaf in leaves)
        weights = _tree.rebuilt(weights, owned)
    return worker.set_weights(weights)


def _is_owned(leaf):
    """Whether it may be written: of a native server all may."""
    return _tree.is_torch(leaf) or leaf.flags.writeable
