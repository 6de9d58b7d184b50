"""Placement of tasks and actors: `f.options(scheduling_strategy=…)`. On one machine only a placement group matters."""

from __future__ import annotations

from typing import Any

from miniray._core_api import scheduling as _scheduling
from miniray._core_api.tracebacks import public


@public
class PlacementGroupSchedulingStrategy:
    """Runs with the resources of a placement group: of one bundle, or with index -1 of any that has room. With
    `placement_group_capture_child_tasks` the tasks and actors that it starts do so, too, unless they say otherwise;
    None instead of a group excludes one from that."""

    __miniray_strategy__ = True

    def __init__(self, placement_group, placement_group_bundle_index=-1, placement_group_capture_child_tasks=None) -> None:
        _scheduling.bundle_of(placement_group, placement_group_bundle_index)
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks

    def place(self) -> Any:
        """(id of the group, number of the bundle from 1 or 0 for any)"""
        return _scheduling.bundle_of(self.placement_group, self.placement_group_bundle_index)


@public
class NodeAffinitySchedulingStrategy:
    """Runs on this node. If the node does not exist or can never have the resources, the result is a
    TaskUnschedulableError or an ActorUnschedulableError; with `soft`, another node is used."""

    __miniray_strategy__ = True

    def __init__(self, node_id, soft, _spill_on_unavailable=False, _fail_on_unavailable=False) -> None:
        if _spill_on_unavailable and not soft:
            raise ValueError("_spill_on_unavailable cannot be set when soft is False. Please set soft to True to use "
                             "_spill_on_unavailable.")
        if _fail_on_unavailable and soft:
            raise ValueError("_fail_on_unavailable cannot be set when soft is True. Please set soft to False to use "
                             "_fail_on_unavailable.")
        self.node_id, self.soft = node_id if isinstance(node_id, str) else node_id.hex(), soft
        self._spill_on_unavailable, self._fail_on_unavailable = _spill_on_unavailable, _fail_on_unavailable

    def place(self) -> Any:
        """No placement group."""
        return b"", 0


@public
class NodeLabelSchedulingStrategy:
    """Runs on a node with these labels; without effect on one node."""

    __miniray_strategy__ = True

    def __init__(self, hard=None, *, soft=None) -> None:
        self.hard, self.soft = hard, soft

    def place(self) -> Any:
        """No placement group."""
        return b"", 0


class _Labels:
    """A condition on the value of a label."""

    def __init__(self, *values):
        self.values = list(values)


class In(_Labels):
    """The label has one of these values."""


class NotIn(_Labels):
    """The label has none of these values."""


class Exists(_Labels):
    """The label exists."""


class DoesNotExist(_Labels):
    """The label does not exist."""
