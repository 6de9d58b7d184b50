"""scheduling_strategy in the runtime's form."""

from miniray import _core, exceptions
from miniray._core_api import cluster as _cluster, did_you_mean, options as _options

_NAMED = ("DEFAULT", "SPREAD")


def place(strategy, group=None, index=None):
    """(id of a placement group or b"", number of its bundle from 1 or 0 for any); raises for an unknown strategy.
    `group` and `index` are Ray's older options with the same meaning."""
    if group not in (None, "default"):
        if strategy is not None:
            raise ValueError("placement_group and scheduling_strategy are both given: pass the group in "
                             "scheduling_strategy=PlacementGroupSchedulingStrategy(group)")
        return bundle_of(group, -1 if index is None else index)
    if strategy in _NAMED:
        return b"", 0
    if not getattr(type(strategy), "__miniray_strategy__", False):
        wrong = ValueError if isinstance(strategy, str) else TypeError
        raise wrong(f"unknown scheduling_strategy {strategy!r}; expected 'DEFAULT', 'SPREAD' or an object of "
                    f"miniray.util.scheduling_strategies{did_you_mean.hint(strategy, _NAMED)}")
    return strategy.place()


def bundle_of(group, index):
    """The placement group as (id, bundle), checked: bundles are counted from 1, 0 is any bundle. None: (b"", 0)."""
    if group is not None and not hasattr(group, "bundle_count"):
        raise TypeError(f"the placement group must be what placement_group() returned, or None, not {group!r}")
    if group is not None and group.is_empty:
        raise ValueError("the placement group has no bundles: it was made by PlacementGroup.empty()")
    count = 0 if group is None else group.bundle_count
    if not isinstance(index, int) or not -1 <= index < count:
        raise ValueError(f"bundle index {index!r} of a placement group: expected -1 (any bundle)"
                         + (f" to {count - 1}" if count > 0 else ", since there is no group"))
    return (b"", 0) if group is None else (group.id.binary(), index + 1)


def check_fits(group, number, needs):
    """Raises ValueError unless the resources fit into the bundle, or with number 0 into any bundle."""
    bundles = [] if group in (None, "default") else group.bundle_specs
    if number > 0:
        bundles = bundles[number - 1:number]
    if bundles and not any(all(bundle.get(name, 0) >= value for name, value in needs.items()) for bundle in bundles):
        raise ValueError(f"the resources {needs} cannot fit into any bundles of the placement group, {bundles}")


# ---- Tasks and actors that are bound to one node.


def refused(given):
    """A remote function that raises the reason why a task with these options can never run; None: it can run."""
    why = _why_not(given, _options.function_options(given))
    return None if why is None else _remote(_Refusal(exceptions.TaskUnschedulableError, "task", why), given)


def refused_actor(given):
    """An object that raises, instead of creating the actor, the reason why the actor can never run; None: it can
    run."""
    why = _why_not(given, _options.actor_options(given))
    return None if why is None else _Refusal(exceptions.ActorUnschedulableError, "actor", why)


def _why_not(given, plan):
    wanted = given["scheduling_strategy"].node_id
    nodes = [node for node in _cluster.nodes() if node["NodeID"] == wanted and node["Alive"]]
    if not nodes:
        return f"there is no node {wanted}"
    cpus, gpus, others = plan[:3]
    need = {"CPU": max(cpus or 1.0, 0.0), "GPU": gpus, **_cluster.amounts(others or "")}
    lacks = [name for name, amount in need.items() if amount > nodes[0]["Resources"].get(name, 0.0)]
    return f"the node {wanted} has less {' and '.join(lacks)} than it needs" if lacks else None


class _Refusal:
    """Raises its error when a worker calls it."""

    def __init__(self, kind, what, why):
        self.kind, self.what, self.why = kind, what, why
        self.__name__ = self.__qualname__ = what

    def __call__(self, *args, **kwargs):
        raise self.kind(f"The {self.what} is not schedulable: {self.why}, and NodeAffinitySchedulingStrategy has "
                        "soft=False; miniray.nodes() lists the nodes")


def _remote(refusal, given):
    """A remote function that needs no resources and raises the refusal."""
    def refuse(*args, **kwargs):
        refusal(*args, **kwargs)
    from miniray._core_api import api as _api
    returns = {"num_returns": given["num_returns"]} if given.get("num_returns") is not None else {}
    return _api.remake_function(refuse, {"num_cpus": 0, "max_retries": 0, **returns})


class captured:
    """Tasks and actors that are started inside the block run in this placement group, unless their options name
    another."""

    def __init__(self, group):
        self.group = group

    def __enter__(self):
        _core.placement_capture(self.group)

    def __exit__(self, *error):
        _core.placement_capture(b"")
