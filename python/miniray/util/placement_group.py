"""Placement groups: bundles of resources that are reserved together, all or none, for tasks and actors that name the
group (util/scheduling_strategies.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import miniray
from miniray import _core
from miniray._core_api import cluster as _cluster, did_you_mean, ids as _ids, options as _options
from miniray._core_api.tracebacks import public, public_module

if TYPE_CHECKING:
    from miniray import ObjectRef

_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")  # indexed by mr_placement_strategy
_OPTIONS = ("bundles", "strategy", "name", "lifetime", "bundle_label_selector", "topology_strategy")
_NAMES = {"CPU": "cpu", "GPU": "gpu"}
_NOT_COUNTED = {"memory", *_options.THIS_NODE}
_GONE_MAX = 1000
_gone = {}  # {id as text: group that this process has removed}; the oldest are dropped


@public
class PlacementGroup:
    """Bundles that are reserved, or will be. A group may be passed to tasks and actors."""

    def __init__(self, group_id, bundles=None, name="", strategy="PACK") -> None:
        self.id, self._bundles, self._name, self._strategy = group_id, bundles or [], name, strategy

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """The resources of each bundle: [{"CPU": 1.0}]."""
        return [dict(bundle) for bundle in self._bundles]

    @property
    def bundle_count(self) -> int:
        """The number of bundles."""
        return len(self._bundles)

    @property
    def is_empty(self) -> bool:
        """Whether this is the empty group."""
        return self.id.is_nil()

    @staticmethod
    def empty() -> PlacementGroup:
        """The empty group, without bundles."""
        return PlacementGroup(_ids.PlacementGroupID.nil(), [])

    def ready(self) -> ObjectRef[Any]:
        """An ObjectRef that is ready when the bundles are reserved; its value is this group."""
        from miniray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
        return _itself.options(scheduling_strategy=PlacementGroupSchedulingStrategy(self)).remote(self)

    def wait(self, timeout_seconds=30) -> bool:
        """Waits until the bundles are reserved, at most `timeout_seconds`; returns whether they are."""
        return _core.placement_wait(self.id.binary(), float(timeout_seconds))

    def _removed(self):
        """The facts about a group that was removed."""
        return {"placement_group_id": self.id.hex(), "name": self._name, "bundles": dict(enumerate(self.bundle_specs)),
                "bundles_to_node_id": {}, "strategy": self._strategy, "state": "REMOVED"}

    def __eq__(self, other):
        return isinstance(other, PlacementGroup) and self.id == other.id

    def __hash__(self):
        return hash(self.id)

    def __repr__(self):
        return f"PlacementGroup({self.id.hex()}, {self._bundles})"


@miniray.remote(num_cpus=0, max_retries=0, name="placement group")
def _itself(group):
    return group


@public
def placement_group(bundles, strategy="PACK", name="", lifetime=None, *, bundle_label_selector=None,
                    topology_strategy=None, **others) -> PlacementGroup:
    """Asks for bundles, [{"CPU": 1, "GPU": 1}, {"CPU": 1}], and returns at once. With `lifetime="detached"` a reserved
    group outlives its program, on a node that does. Options that choose among machines have no effect."""
    strategy = "PACK" if strategy is None else strategy
    if strategy not in _STRATEGIES:
        raise did_you_mean.one_of("strategy of a placement group", strategy, _STRATEGIES)
    if lifetime not in (None, "detached"):
        raise did_you_mean.one_of("lifetime of a placement group", lifetime, (None, "detached"))
    if not isinstance(name, str):
        raise TypeError(f"the name of a placement group must be a str, not {name!r}")
    for option in others:
        if not option.startswith("_"):
            raise TypeError(f"placement_group() got an unexpected keyword argument '{option}'"
                            + did_you_mean.hint(option, _OPTIONS))
    made = [_bundle(bundle) for bundle in _list(bundles)]
    texts = [",".join([f"{_NAMES.get(kind, kind)}={amount:.3f}" for kind, amount in bundle.items()]) for bundle in made]
    made_id = _core.placement_create(texts, _STRATEGIES.index(strategy), name, lifetime == "detached")
    return PlacementGroup(_ids.PlacementGroupID(made_id), made, name, strategy)


def _list(bundles):
    if not isinstance(bundles, list) or not bundles:
        raise ValueError(f"bundles must be a list of at least one dict, [{{'CPU': 1}}], not {bundles!r}")
    return bundles


def _bundle(given):
    if not isinstance(given, dict):
        raise ValueError(f"a bundle must be a dict of resources, {{'CPU': 1}}, not {given!r}")
    made = {}
    for kind, amount in given.items():
        if not isinstance(kind, str):
            raise ValueError(f"a bundle has the resource {kind!r}: its name must be a str")
        if kind == "bundle":
            raise ValueError(f"the bundle {given!r} has the resource 'bundle', a reserved name")
        counted = 0 if kind in _NOT_COUNTED else _options.amount(f"the amount of {kind} in a bundle", amount)
        if counted > 0:
            made[kind] = counted
    if not made:
        raise ValueError(f"the bundle {given!r} is empty: a bundle has at least one resource above 0")
    return made


@public
def get_placement_group(placement_group_name) -> PlacementGroup:
    """The group of this name."""
    if not isinstance(placement_group_name, str) or not placement_group_name:
        raise ValueError(f"get_placement_group() takes the name of a group, not {placement_group_name!r}")
    rows = _cluster.groups()
    for row in rows:
        if row["name"] == placement_group_name:
            return _made(row)
    meant = did_you_mean.hint(placement_group_name, [row["name"] for row in rows])
    raise ValueError(f"there is no placement group named {placement_group_name!r}{meant}")


def get_current_placement_group() -> PlacementGroup | None:
    """The group in which this task or actor runs; None outside of one."""
    row = _cluster.own_group()
    return None if row is None else _made(row)


def placement_group_table(placement_group=None) -> dict[str, Any]:
    """{id: facts} of all groups, or the facts of one group."""
    found = {key: group._removed() for key, group in _gone.items()}
    found.update((facts["placement_group_id"], facts) for facts in map(_facts, _cluster.groups()))
    if placement_group is None:
        return found
    key = placement_group.id.hex()
    return found.get(key) or placement_group._removed()


def _made(row):
    return PlacementGroup(_ids.group_id_of(row["handle"]), [_cluster.amounts(bundle) for bundle in row["bundles"]],
                          row["name"], row["strategy"])


def _facts(row):
    return {"placement_group_id": _ids.group_id_of(row["handle"]).hex(), "name": row["name"],
            "bundles": {number: _cluster.amounts(bundle) for number, bundle in enumerate(row["bundles"])},
            "bundles_to_node_id": {number: _node_id() for number in range(len(row["bundles"]))},
            "strategy": row["strategy"], "state": "CREATED" if row["state"] == "placed" else "PENDING"}


def _node_id():
    return _core.look("nodes", 1)["nodes"][0]["id"]


@public
def remove_placement_group(placement_group) -> None:
    """Releases the bundles; ends the tasks and actors that run in them."""
    if not isinstance(placement_group, PlacementGroup):
        raise TypeError(f"remove_placement_group() takes a PlacementGroup, not {placement_group!r}")
    _core.placement_remove(placement_group.id.binary())
    _gone[placement_group.id.hex()] = placement_group
    if len(_gone) > _GONE_MAX:
        del _gone[next(iter(_gone))]


public_module(globals())
