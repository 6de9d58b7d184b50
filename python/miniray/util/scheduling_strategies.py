"""Where a task or an actor runs: `f.options(scheduling_strategy=…)`. On one machine, only a placement group matters."""

from miniray._core_api import scheduling as _scheduling


class PlacementGroupSchedulingStrategy:
    """With what a placement group has set aside: in that bundle, or with -1 in any that has room. With
    `placement_group_capture_child_tasks` so is what the task or the actor starts, unless that says otherwise; None instead
    of a group is how it does."""

    __miniray_strategy__ = True

    def __init__(self, placement_group, placement_group_bundle_index=-1, placement_group_capture_child_tasks=None):
        _scheduling.bundle_of(placement_group, placement_group_bundle_index)
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks

    def place(self):
        """(name of the group, bundle from 1 or 0 for any)"""
        return _scheduling.bundle_of(self.placement_group, self.placement_group_bundle_index)


class NodeAffinitySchedulingStrategy:
    """On that node. If there is no such node, or it never has what is asked for, the result is a TaskUnschedulableError or
    an ActorUnschedulableError; with `soft` it runs anywhere then."""

    __miniray_strategy__ = True

    def __init__(self, node_id, soft, _spill_on_unavailable=False, _fail_on_unavailable=False):
        if _spill_on_unavailable and not soft:
            raise ValueError("_spill_on_unavailable cannot be set when soft is False. Please set soft to True to use "
                             "_spill_on_unavailable.")
        if _fail_on_unavailable and soft:
            raise ValueError("_fail_on_unavailable cannot be set when soft is True. Please set soft to False to use "
                             "_fail_on_unavailable.")
        self.node_id, self.soft = node_id if isinstance(node_id, str) else node_id.hex(), soft
        self._spill_on_unavailable, self._fail_on_unavailable = _spill_on_unavailable, _fail_on_unavailable

    def place(self):
        return b"", 0


class NodeLabelSchedulingStrategy:
    """On a node with those labels: there is one node."""

    __miniray_strategy__ = True

    def __init__(self, hard=None, *, soft=None):
        self.hard, self.soft = hard, soft

    def place(self):
        return b"", 0


class _Labels:
    """What NodeLabelSchedulingStrategy may ask of a label."""

    def __init__(self, *values):
        self.values = list(values)


class In(_Labels):
    """One of those."""


class NotIn(_Labels):
    """None of those."""


class Exists(_Labels):
    """Any."""


class DoesNotExist(_Labels):
    """No such label."""
