"""Scheduling strategies: where a task or an actor runs. On one machine only a placement group makes a difference."""


def check(strategy):
    """Refuses what is none."""
    if strategy in ("DEFAULT", "SPREAD"):
        return
    if not getattr(type(strategy), "__miniray_strategy__", False):
        raise TypeError(f"scheduling_strategy is 'DEFAULT', 'SPREAD' or one of miniray.util.scheduling_strategies, not "
                        f"{strategy!r}")
