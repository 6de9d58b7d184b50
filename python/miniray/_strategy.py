"""scheduling_strategy, as the runtime takes it."""

from miniray import _core


def place(strategy, group=None, index=None):
    """(name of a placement group or b"", bundle of it from 1 or 0 for any); refuses what is no strategy. The group and
    its index are the old way to say the same."""
    if group not in (None, "default"):
        if strategy is not None:
            raise ValueError("Placement groups should be specified via the scheduling_strategy option. The "
                             "placement_group option is deprecated.")
        from miniray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
        return PlacementGroupSchedulingStrategy(group, -1 if index is None else index).place()
    if strategy in ("DEFAULT", "SPREAD"):
        return b"", 0
    if not getattr(type(strategy), "__miniray_strategy__", False):
        raise TypeError(f"scheduling_strategy is 'DEFAULT', 'SPREAD' or one of miniray.util.scheduling_strategies, not "
                        f"{strategy!r}")
    return strategy.place()


class captured:
    """What is started while it is entered, and does not say where it runs, runs in that placement group."""

    def __init__(self, group):
        self.group = group

    def __enter__(self):
        _core.placement_capture(self.group)

    def __exit__(self, *error):
        _core.placement_capture(b"")
