"""What a sync calls in workers that are Python's: their own methods, whose weights are then made plain (_tree.py)."""

from miniray.ps import _tree


def get_weights(worker):
    weights = worker.get_weights()
    return _awaited(weights) if hasattr(weights, "__await__") else _tree.plain(weights)


async def _awaited(weights):
    return _tree.plain(await weights)


def set_weights(worker, weights):
    leaves = [_owned(leaf) for _, leaf in _tree.tensors(weights)]
    return worker.set_weights(_tree.rebuilt(weights, iter(leaves)))


def _owned(leaf):
    """An array that may be written: of a native server they all are."""
    return leaf if _tree.is_torch(leaf) or leaf.flags.writeable else leaf.copy()
