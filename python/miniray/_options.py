"""Options of tasks and actors: checked where they are given, as the runtime takes them."""

import math

_ANY = 2**31 - 1  # as often as it takes
_TASK = {"num_cpus", "num_gpus", "resources", "max_retries", "retry_exceptions", "num_returns"}
_ACTOR = {"num_cpus", "num_gpus", "resources", "max_restarts", "max_task_retries", "max_concurrency", "name", "namespace",
          "lifetime", "get_if_exists"}


def amount(name, value):
    """A number of something that can be shared, 0 if it is not given."""
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number, not {type(value).__name__}")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value}: it cannot be negative")
    return float(value)


def count(name, value, least):
    """A whole number, 0 if it is not given."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    if value < least:
        raise ValueError(f"{name} is {value}: it is at least {least}")
    return int(value)


def resources(given):
    """{"name": 2, "other": 0.5} as "name=2,other=0.5"; None if there are none."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise TypeError(f"resources is a dict of names and amounts, not {type(given).__name__}")
    for name in given:
        if name in ("CPU", "GPU"):
            raise ValueError(f"Use the 'num_{name.lower()}s' keyword instead of '{name}' in 'resources' keyword")
        if not isinstance(name, str) or not name or any(letter in name for letter in "=, "):
            raise ValueError(f"{name!r} is no name of a resource")
    return ",".join(f"{name}={amount(name, value):g}" for name, value in given.items()) or None


def _known(given, known, what):
    for name in given:
        if name not in known and not name.startswith("_"):
            raise ValueError(f"Invalid option keyword {name} for {what}. Valid ones are {sorted(known)}.")


def _cpus(given):
    """0 is the runtime's default, and less than that none at all."""
    value = given.get("num_cpus")
    return 0.0 if value is None else amount("num_cpus", value) or -1.0


def function_options(given):
    """(num_cpus, num_gpus, resources, max_retries, num_returns)"""
    _known(given, _TASK, "remote functions")
    retries = given.get("max_retries")
    retries = 0 if retries is None else _ANY if retries == -1 else count("max_retries", retries, 0) or -1
    returns = given.get("num_returns")
    returns = 1 if returns is None else count("num_returns", returns, 0)
    return (_cpus(given), amount("num_gpus", given.get("num_gpus")), resources(given.get("resources")), retries,
            returns)


def method_options(given):
    """num_returns, 0 if it is not given"""
    _known(given, {"num_returns"}, "actor methods")
    return count("num_returns", given.get("num_returns"), 1)


def actor_options(given):
    """(num_cpus, num_gpus, resources, max_restarts, max_task_retries, name, namespace, detached)"""
    _known(given, _ACTOR, "actors")
    restarts = given.get("max_restarts")
    restarts = _ANY if restarts == -1 else count("max_restarts", restarts, 0)
    retries = given.get("max_task_retries")
    retries = _ANY if retries == -1 else count("max_task_retries", retries, 0)
    count("max_concurrency", given.get("max_concurrency"), 1)
    name = given.get("name")
    if name is not None and (not isinstance(name, str) or not name):
        raise ValueError(f"name is {name!r}: a str that is not empty") if name == "" else TypeError(
            f"name must be None or a string, got: '{type(name)}'.")
    if given.get("lifetime") not in (None, "detached", "non_detached"):
        raise ValueError("actor `lifetime` argument must be one of 'detached', 'non_detached' and 'None'.")
    return (_cpus(given), amount("num_gpus", given.get("num_gpus")), resources(given.get("resources")), restarts, retries,
            name, given.get("namespace"), given.get("lifetime") == "detached")
