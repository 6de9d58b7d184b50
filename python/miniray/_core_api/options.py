"""Options of tasks and actors, checked and in the runtime's form."""

import math

STREAMING = -2  # MR_STREAM: num_returns of generators
NOT_GIVEN = -1  # num_returns of a method without that option
# Options of a call follow the method's name: "name@group!?", or a part of that.
_DYNAMIC = "!"  # num_returns="dynamic"
_AGAIN = "?"  # the first argument has the retry options (_actors/retries.py)
THIS_NODE = ("node:127.0.0.1", "node:__internal_head__")  # resources of this node, which every task has implicitly
_AHEAD_MAX = 1024  # yielded values of a generator that wait for the consumer
_ANY = 2**31 - 1  # no limit

_COMMON = {"num_cpus", "num_gpus", "resources", "name", "runtime_env", "scheduling_strategy", "placement_group",
           "placement_group_bundle_index", "placement_group_capture_child_tasks"}
_TASK = _COMMON | {"max_retries", "max_calls", "retry_exceptions", "num_returns"}
_ACTOR = _COMMON | {"max_restarts", "max_task_retries", "max_concurrency", "concurrency_groups", "namespace", "lifetime",
                    "get_if_exists", "max_pending_calls"}
_METHOD = {"num_returns", "concurrency_group", "name", "max_task_retries", "retry_exceptions"}
_OPTIONS = {"remote functions": _TASK, "actors": _ACTOR, "actor methods": _METHOD}
# Options of Ray without effect here (docs/from-ray.md has the reasons).
_WITHOUT_EFFECT = {"memory", "object_store_memory", "accelerator_type", "label_selector", "fallback_strategy",
                   "enable_task_events"}
_ACTOR_WITHOUT_EFFECT = _WITHOUT_EFFECT | {"allow_out_of_order_execution"}
_METHOD_WITHOUT_EFFECT = {"enable_task_events"}


def amount(name, value):
    """A number that may be a fraction; 0 if it is not given."""
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number or None, not {value!r}")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value}: it must be a finite number of at least 0")
    whole = math.floor(value * 1000 + 1e-6) / 1000  # the 1e-6 makes three times a third one
    if value > 0 and whole == 0:
        raise ValueError(f"{name} is {value}: the least amount is 0.001")
    return whole


def count(name, value, least):
    """A whole number; 0 if it is not given."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value % 1 != 0:
        raise TypeError(f"{name} must be a whole number or None, not {value!r}")
    if value < least:
        raise ValueError(f"{name} is {value}: it must be at least {least}")
    return int(value)


def resources(given):
    """{"name": 2, "other": 0.5} as "name=2,other=0.5"; None if there are none."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise TypeError(f"resources must be a dict of names and amounts, {{'licence': 2}}, not {given!r}")
    for name in given:
        if name in ("CPU", "GPU"):
            raise ValueError(f"resources has {name!r}: pass num_{name.lower()}s={given[name]!r} instead")
        if not isinstance(name, str) or not name or any(letter in name for letter in "=, "):
            raise ValueError(f"resources has {name!r}: the name of a resource is a str without '=', ',' and spaces")
    amounts = {name: amount(f"resources[{name!r}]", value) for name, value in given.items()}
    return ",".join(f"{name}={value:.3f}" for name, value in amounts.items() if name not in THIS_NODE) or None


def _known(given, known, what):
    for name in given:
        if name in known or name.startswith("_"):
            continue
        from miniray._core_api import did_you_mean
        whose = next((of for of, names in _OPTIONS.items() if name in names), None)
        meant = (f": it is an option of {whose}" if whose else did_you_mean.hint(name, sorted(known))
                 or f"; expected {', '.join(sorted(known))}")
        raise ValueError(f"unknown option {name!r} of {what}{meant}")


def _name(given, whose):
    name = given.get("name")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a str or None, not {name!r}")
    if name == "":
        raise ValueError(f"{whose} name cannot be an empty string: leave it out for none")
    return name


def _cpus(given):
    """The number of CPUs: 0 is the runtime's default, a negative number is none."""
    value = given.get("num_cpus")
    return 0.0 if value is None else amount("num_cpus", value) or -1.0


def _gpus(given):
    value = amount("num_gpus", given.get("num_gpus"))
    if value > 1 and value != int(value):
        raise ValueError(f"num_gpus is {value}: it must be from 0 to 1, or a whole number")
    return value


def _often(given, name, default):
    """A number of retries; -1: no limit."""
    value = given.get(name)
    if isinstance(value, int) and value < -1:
        raise ValueError(f"{name} is {value}: it must be -1 (no limit), or at least 0")
    return default if value is None else _ANY if value == -1 else count(name, value, 0)


def _returns(given, default):
    value = given.get("num_returns")
    if value is None:
        return default
    if value in ("streaming", "dynamic"):
        return STREAMING if value == "streaming" else 1
    if isinstance(value, str):
        from miniray._core_api import did_you_mean
        raise did_you_mean.one_of("num_returns", value, ("a number", "streaming", "dynamic"))
    return count("num_returns", value, 0)


def _groups(given):
    if given is not None and not isinstance(given, dict):
        raise TypeError(f"concurrency_groups must be a dict of names and numbers of calls, not {given!r}")
    for group, most in (given or {}).items():
        count(f"concurrency_groups[{group!r}]", most, 1)


def _ahead(given):
    value = given.get("_generator_backpressure_num_objects")
    return _AHEAD_MAX if value in (None, -1) else min(count("_generator_backpressure_num_objects", value, 1), _AHEAD_MAX)


def _place(given):
    """(id of a placement group, b"" for none or None if nothing is given; its bundle)"""
    strategy, group = given.get("scheduling_strategy"), given.get("placement_group")
    if strategy is None and group in (None, "default"):
        _without_group(given, group)
        return (b"" if "placement_group" in given and group is None else None), 0
    from miniray._core_api import scheduling as _scheduling
    placed = _scheduling.place(strategy, group, given.get("placement_group_bundle_index"))
    _scheduling.check_fits(getattr(strategy, "placement_group", group), placed[1], _needs(given))
    return placed


def _without_group(given, group):
    """Raises for a bundle of no placement group. "default" is the group of the task or actor that starts this one."""
    bundle = given.get("placement_group_bundle_index")
    if bundle not in (None, -1) and group is None:
        raise ValueError(f"placement_group_bundle_index is {bundle}, without a placement group: pass scheduling_strategy="
                         f"PlacementGroupSchedulingStrategy(group, {bundle})")


def _needs(given):
    """The required resources by name: {"CPU": 2, "licence": 1}."""
    needs = {"CPU": given.get("num_cpus"), "GPU": given.get("num_gpus"), **(given.get("resources") or {})}
    return {name: value for name, value in needs.items() if value and name not in THIS_NODE}


def _common(given):
    if given.get("runtime_env") is not None:
        from miniray._core_api import runtime_env as _runtime_env
        _runtime_env.check(given["runtime_env"])
    return _cpus(given), _gpus(given), resources(given.get("resources"))


def is_bound(given):
    """Whether the options name the only node on which the task or actor may run (_core_api/scheduling.py)."""
    strategy = given.get("scheduling_strategy")
    return hasattr(strategy, "node_id") and not strategy.soft


def captured_by(given):
    """The id of the placement group for all tasks and actors that the task or actor starts; b"": none."""
    strategy = given.get("scheduling_strategy")
    said = given if strategy is None else vars(strategy) if hasattr(strategy, "__dict__") else {}
    return (_place(given)[0] or b"") if said.get("placement_group_capture_child_tasks") else b""


def threads(given):
    """The number of threads inside operations: one for each whole CPU."""
    return max(1, int(given.get("num_cpus") or 1))


def function_options(given):
    """(num_cpus, num_gpus, resources, max_retries, num_returns, name, placement group, bundle, results that may wait,
    max_calls, whether the placement group captures what the task starts, whether the task is bound to a node)"""
    _known(given, _TASK | _WITHOUT_EFFECT, "remote functions")
    retries = _often(given, "max_retries", None)
    retried(given)
    return (*_common(given), 0 if retries is None else retries or -1, _returns(given, 1), _name(given, "Task"),
            *_place(given), _ahead(given), _calls(given), bool(captured_by(given)), is_bound(given))


def _calls(given):
    """max_calls; 0: no limit. The default is 1 for a task with GPUs, since only the end of its process frees their
    memory."""
    value = given.get("max_calls")
    return (1 if _gpus(given) > 0 else 0) if value is None else count("max_calls", value, 0)


def retried(given):
    """The exceptions of retry_exceptions as a tuple; None: not given."""
    wanted = given.get("retry_exceptions")
    if wanted is not None and not isinstance(wanted, (bool, list, tuple)):
        raise TypeError(f"retry_exceptions must be True, False or a list of exception classes, not {wanted!r}")
    for kind in wanted if isinstance(wanted, (list, tuple)) else ():
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            raise TypeError(f"retry_exceptions has {kind!r}: its items must be exception classes")
    return wanted if wanted is None else ((Exception,) if wanted else ()) if isinstance(wanted, bool) else tuple(wanted)


def method_options(given, entry=None):
    """(num_returns or NOT_GIVEN, results that may wait, suffix of the name or None, as method_retries, arguments
    before the others or None), of a method with this entry in methods.py."""
    _known(given, _METHOD | _METHOD_WITHOUT_EFFECT, "actor methods")
    mark = given.get("concurrency_group")
    if mark is not None and not isinstance(mark, str):
        raise TypeError(f"concurrency_group must be a str, not {mark!r}")
    if given.get("num_returns") == "dynamic":
        mark = (mark or "") + _DYNAMIC
    retries, exceptions = method_retries(given, 0), retried(given)
    again = None
    if exceptions is not None or (retries and entry is not None):
        again = max(0, retries or (0 if entry is None else entry[5])), exceptions
        mark = (mark or "") + _AGAIN
    return _returns(given, NOT_GIVEN), _ahead(given), mark, retries, again


def method_retries(given, default):
    """max_task_retries of a method or a call, or `default`: negative means none, 0 that of the actor."""
    value = _often(given, "max_task_retries", None)
    return default if value is None else value or -1


def of_call(name):
    """(method, group or "", whether "dynamic", whether there are retry options) of the name of a call."""
    name, _, mark = name.partition("@")
    bare = mark.removesuffix(_AGAIN)
    return name, bare.removesuffix(_DYNAMIC), bare.endswith(_DYNAMIC), mark.endswith(_AGAIN)


def pending_calls(given):
    """max_pending_calls; 0: no limit."""
    value = given.get("max_pending_calls")
    if value == 0:
        raise ValueError("max_pending_calls is 0: it must be -1 (no limit), or at least 1")
    return 0 if value == -1 else count("max_pending_calls", value, 1)


def check_namespace(given):
    """Raises for a namespace of actors' names that is no str, or empty."""
    if given is not None and not isinstance(given, str):
        raise TypeError(f"namespace must be a str or None, not {given!r}")
    if given == "":
        raise ValueError("namespace is empty: leave it out for the program's own")


def actor_options(given):
    """(num_cpus, num_gpus, resources, max_restarts, max_task_retries, name, namespace, detached, placement group,
    bundle)"""
    _known(given, _ACTOR | _ACTOR_WITHOUT_EFFECT, "actors")
    count("max_concurrency", given.get("max_concurrency"), 1)
    _groups(given.get("concurrency_groups"))
    pending_calls(given)
    if given.get("lifetime") not in (None, "detached", "non_detached"):
        from miniray._core_api import did_you_mean
        raise did_you_mean.one_of("lifetime", given["lifetime"], ("detached", "non_detached", None))
    if given.get("get_if_exists") and given.get("name") is None:
        raise ValueError("get_if_exists=True needs the name of the actor: pass name=, too")
    space = given.get("namespace")
    check_namespace(space)
    often = _often(given, "max_restarts", 0), _often(given, "max_task_retries", 0)
    return *_common(given), *often, _name(given, "Actor"), space, given.get("lifetime") == "detached", *_place(given)
