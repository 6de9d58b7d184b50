"""Worker methods that a sync calls in Python workers.

They call the worker's own get_weights and set_weights. Weights are made plain (_weight_tree.py), or passed by reference
if they belong to a shared model (_shared_model.py). A worker that was asked for its weights waits until all others were
asked, and yields its CPU to them.
"""

from miniray import _core
from miniray._core_api import local_mode as _local_mode
from miniray._weights import _shared_model, _weight_tree


_forms = {}  # {id of a worker: form of its last weights, if they were not plain}


def get_weights(worker):
    """The worker's weights as a copy."""
    return _handed(worker.get_weights(), lambda weights: _copied(worker, weights))


def _copied(worker, weights):
    _note(worker, weights)
    _core.make_way()
    if _local_mode.is_on():
        return _made(worker, _weight_tree.plain, weights)
    return _core.weights(weights, lambda tree: _made(worker, _weight_tree.plain, tree))


def lend_weights(worker):
    """The worker's weights by reference, if possible."""
    weights = worker.get_weights()
    return _lent(worker, weights) if type(weights) is list else _handed(weights, lambda tree: _lent(worker, tree))


def _lent(worker, weights):
    _note(worker, weights)
    _core.make_way()
    return _shared_model.lent(weights, lambda tree: _made(worker, _shared_model.known, tree))


def _note(worker, weights):
    """Records the types of weights that are not plain; the id may have belonged to another worker."""
    if weights is None:
        _refuse(worker, None)
    form = None if _core.are_usual(weights) else _weight_tree.form(weights)
    if form is not None:
        _forms[id(worker)] = form
    elif _forms:
        _forms.pop(id(worker), None)


def _made(worker, make, tree):
    made = make(tree)
    if not isinstance(made, (list, tuple, dict)) and not _weight_tree.is_tensor(made):
        _refuse(worker, type(tree).__name__)
    return made


def _refuse(worker, given):
    raise TypeError(f"{type(worker).__name__}.get_weights returned {given}: a list or a dict of tensors is needed")


def _handed(weights, make):
    return _awaited(weights, make) if hasattr(weights, "__await__") else make(weights)


async def _awaited(weights, make):
    return make(await weights)


def set_weights(worker, weights):
    """Gives the worker its new weights, in the types that it uses."""
    if not _core.are_own(weights):
        if _shared_model.taken(weights):
            return None
        leaves = _weight_tree.leaves(weights)
        if not all(map(_is_owned, leaves)):
            owned = (leaf if _is_owned(leaf) else leaf.copy() for leaf in leaves)
            weights = _weight_tree.rebuilt(weights, owned)
    if _forms:
        weights = _weight_tree.restored(weights, _forms.get(id(worker)))
    given = worker.set_weights(weights)
    _core.make_way()
    return given


def _is_owned(leaf):
    """Whether the array may be written; arrays from a native server may."""
    return _weight_tree.is_torch(leaf) or leaf.flags.writeable
