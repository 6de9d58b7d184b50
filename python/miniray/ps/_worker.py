"""What a sync calls in workers that are Python's: their own methods, whose weights are then made plain (_tree.py), or
lent where they are, if they are a shared model's (_share.py)."""

from miniray import _core, _local
from miniray.ps import _share, _tree


_floats = {}  # by the id of a worker: the ways to what were floats in its weights last, and have to be floats again


def get_weights(worker):
    return _handed(worker.get_weights(), lambda weights: _copied(worker, weights))


def _copied(worker, weights):
    _begin(worker, weights)
    if _local.is_on():
        return _noted(worker, _tree.plain, weights)
    return _core.weights(weights, lambda tree: _noted(worker, _tree.plain, tree))


def lend_weights(worker):
    weights = worker.get_weights()
    return _lent(worker, weights) if type(weights) is list else _handed(weights, lambda tree: _lent(worker, tree))


def _lent(worker, weights):
    _begin(worker, weights)
    return _share.lent(weights, lambda tree: _noted(worker, _share.known, tree))


def _begin(worker, weights):
    """What were floats may be arrays now; and the id may have been another's."""
    if weights is None:
        _refuse(worker, None)
    if _floats:
        _floats.pop(id(worker), None)


def _noted(worker, make, tree):
    """The tree made plain; what is not plain as it is may have floats in it."""
    floats = set()
    made = make(tree, floats)
    if not isinstance(made, (list, tuple, dict)) and not _tree.is_tensor(made):
        _refuse(worker, type(tree).__name__)
    if floats:
        _floats[id(worker)] = floats
    return made


def _refuse(worker, given):
    raise TypeError(f"{type(worker).__name__}.get_weights returned {given}: a list or a dict of tensors is needed")


def _handed(weights, make):
    return _awaited(weights, make) if hasattr(weights, "__await__") else make(weights)


async def _awaited(weights, make):
    return make(await weights)


def set_weights(worker, weights):
    if _floats and id(worker) in _floats:
        weights = _tree.with_floats(weights, _floats[id(worker)])
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
