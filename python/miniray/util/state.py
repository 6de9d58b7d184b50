"""Ray's state API: actors, tasks, objects, nodes, workers and placement groups as lists, as `miniray list` shows them.

    from miniray.util.state import list_actors
    for actor in list_actors(filters=[("state", "=", "ALIVE")]):
        print(actor.actor_id, actor["class_name"], actor.pid)

Fields can be read as attributes and as keys. Ids are those of references, handles and the runtime context. Finished
tasks are listed as far as the workers' records go back (docs/observability.md), with ids of their own.
"""

from __future__ import annotations

import collections
import socket
from typing import Any

from miniray import _core
from miniray._core_api import cluster as _cluster, did_you_mean, session as _session
from miniray._core_api.tracebacks import public_module

_MANY = 1_000_000
_TASK_STATES = {"arguments": "PENDING_ARGS_AVAIL", "queued": "PENDING_NODE_ASSIGNMENT",
                "sent": "SUBMITTED_TO_WORKER"}
_ACTOR_STATES = {"alive": "ALIVE", "dead": "DEAD"}
_TYPES = {"task": "NORMAL_TASK", "call": "ACTOR_TASK", "method": "ACTOR_TASK", "create": "ACTOR_CREATION_TASK"}


class State(dict):
    """An item of a list: state.field and state["field"] are the same."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise did_you_mean.attribute_error(f"'{type(self).__name__}' object has no attribute '{name}'", name, self,
                                               "its fields are") from None

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.items())})"

    def asdict(self) -> dict[str, Any]:
        """The fields as a dict."""
        return dict(self)


class ActorState(State):
    """The state of an actor."""


class TaskState(State):
    """The state of a task or an actor call."""


class ObjectState(State):
    """The state of an object."""


class NodeState(State):
    """The state of a node."""


class WorkerState(State):
    """The state of a process."""


class PlacementGroupState(State):
    """The state of a placement group."""


class JobState(State):
    """The state of a job."""


# ---- Names and rows.


def _node():
    return _look("nodes")[0]


def _look(what):
    from miniray._core_api import api as _api
    if not _core.is_initialized():
        _api.auto_init()
    return _core.look(what, _MANY)[what]


def _long_id(short, node_id):
    """The long form of "a2:1" (as in handles) or of "o2:5.2" and "t2:5.2" (as in references)."""
    process, _, rest = short[1:].partition(":")
    place, _, turn = rest.partition(".")
    word = int(place) if short[0] == "a" else int(turn or 1) << 28 | int(place)
    return f"{node_id}{int(process):08x}{word:016x}"


def _processes():
    """{"p3": its row}"""
    return {row["id"]: row for row in _look("workers")}


def _worker_id(row):
    return f"{row['pid']:08x}"


def _kept(states, filters, limit):
    """The items that pass all filters: (field, "=" or "!=", value)."""
    states = list(states)
    for wanted in filters or ():
        if isinstance(wanted, str) or len(wanted) != 3 or wanted[1] not in ("=", "!="):
            raise ValueError(f"a filter is (field, '=' or '!=', value), not {wanted!r}")
        if states and wanted[0] not in states[0]:
            raise did_you_mean.one_of("field of a filter", wanted[0], states[0])
    kept = [state for state in states if all(_passes(state, *wanted) for wanted in filters or ())]
    return kept[:limit]


def _passes(state, field, sign, value):
    found = state.get(field)
    return (str(found).lower() == str(value).lower()) == (sign == "=")


# ---- Lists.


def list_actors(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True,
                _explain=False) -> list[Any]:
    """The actors, including dead ones that the node still knows."""
    node, processes = _node(), _processes()
    return _kept((_actor(row, node, processes) for row in _look("actors")), filters, limit)


def _actor(row, node, processes):
    process = processes.get(row["worker"])
    return ActorState(
        actor_id=_long_id(row["id"], node["id"]), class_name=row["class"],
        state=_ACTOR_STATES.get(row["state"], "RESTARTING" if row["starts"] > 1 else "PENDING_CREATION"), job_id=_session.job().id, name=row["name"],
        node_id=node["id"], pid=process["pid"] if process else None, ray_namespace=row["namespace"],
        required_resources=_cluster.amounts(row["needs"] or ""), num_restarts=str(max(0, row["starts"] - 1)),
        death_cause=row["failure"])


def list_tasks(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True,
               _explain=False) -> list[Any]:
    """The tasks and actor calls: unfinished ones first, then those that finished recently."""
    node, processes = _node(), _processes()
    running = collections.Counter((row["id"], run["name"]) for row in processes.values()
                                  for run in row["running"] or ())
    open_ones = [_open_task(row, node, processes, running) for row in _look("tasks")]
    return _kept(open_ones + _done_tasks(node, processes), filters, limit)


def _open_task(row, node, processes, running):
    process, state = processes.get(row["worker"]), _TASK_STATES.get(row["state"], "PENDING_NODE_ASSIGNMENT")
    if row["state"] == "sent" and running[row["worker"], row["name"]] > 0:
        running[row["worker"], row["name"]] -= 1
        state = "RUNNING"
    name = _full_name(row["name"], row["kind"], process and process["class"])
    return _task(node, name, row["kind"], state, process, _long_id(row["id"], node["id"]),
                 actor_id=_long_id(row["actor"], node["id"]) if row["actor"] else None,
                 resources=_cluster.amounts(row["needs"] or ""))


def _done_tasks(node, processes):
    """The finished tasks of the timeline."""
    by_pid = {row["pid"]: row for row in processes.values()}
    events = [event for event in _cluster.timeline() if event["ph"] == "X" and event["cat"] in _TYPES]
    classes = {event["pid"]: event["name"] for event in events if event["cat"] == "create"}
    done = []
    for event in events:
        if event["args"]["outcome"] == "running":
            continue
        state = "FINISHED" if event["args"]["outcome"] == "OK" else "FAILED"
        process = by_pid.get(event["pid"])
        actor = process and process["actor"]
        for turn in range(event["args"]["calls"]):
            task_id = f"{event['args']['caller']}/{event['args']['call']}" + (f"+{turn}" if turn else "")
            name = _full_name(event["name"], event["cat"], classes.get(event["pid"]) or process and process["class"])
            made = _task(node, name, event["cat"], state, process, task_id,
                         actor_id=_long_id(actor, node["id"]) if actor else None, resources={})
            made.update(worker_pid=event["pid"], start_time_ms=event["ts"] // 1000,
                        end_time_ms=(event["ts"] + event["dur"]) // 1000,
                        error_type=None if state == "FINISHED" else event["args"]["outcome"])
            done.append(made)
    return done


def _full_name(name, kind, class_name):
    """"Class.method" or "Class.__init__"; the name alone if the class is unknown."""
    if kind == "create":
        return f"{name}.__init__"
    return f"{class_name}.{name}" if class_name and kind != "task" else name


def _task(node, name, kind, state, process, task_id, actor_id, resources):
    return TaskState(
        task_id=task_id, attempt_number=0, name=name, state=state, job_id=_session.job().id, actor_id=actor_id,
        type=_TYPES[kind], func_or_class_name=name, node_id=node["id"], worker_id=process and _worker_id(process),
        worker_pid=process and process["pid"], required_resources=resources, error_type=None)


def list_objects(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True,
                 _explain=False) -> list[Any]:
    """The objects that processes hold, the largest first."""
    node, processes = _node(), _processes()
    return _kept((_object(row, node, processes) for row in _look("objects")), filters, limit)


def _object(row, node, processes):
    owner = processes.get("p" + row["id"][1:].partition(":")[0])
    return ObjectState(
        object_id=_long_id(row["id"].partition(" ")[0], node["id"]), object_size=row["bytes"],
        task_status="FINISHED" if row["state"] == "ready" else "NIL" if row["failure"] is None else "FAILED",
        reference_type=row["held_by"], call_site="", type=owner["role"].upper() if owner else None,
        pid=owner["pid"] if owner else None, ip=_cluster.get_node_ip_address())


def list_nodes(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True,
               _explain=False) -> list[Any]:
    """The nodes."""
    return _kept((NodeState(
        node_id=node["NodeID"], node_ip=node["NodeManagerAddress"], is_head_node=True,
        state="ALIVE" if node["Alive"] else "DEAD", node_name=node["NodeName"], resources_total=node["Resources"],
        labels=node["Labels"]) for node in _cluster.nodes()), filters, limit)


def list_workers(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True,
                 _explain=False) -> list[Any]:
    """The processes: drivers and workers."""
    node = _node()
    return _kept((WorkerState(
        worker_id=_worker_id(row), is_alive=True, worker_type=row["role"].upper(), exit_type=None, node_id=node["id"],
        ip=_cluster.get_node_ip_address(), pid=row["pid"]) for row in _processes().values()), filters, limit)


def list_placement_groups(address=None, filters=None, limit=100, timeout=30, detail=False,
                          raise_on_missing_output=True, _explain=False) -> list[Any]:
    """The placement groups."""
    from miniray.util import placement_group_table
    return _kept((PlacementGroupState(
        placement_group_id=key, name=facts["name"], creator_job_id=_session.job().id, state=facts["state"],
        bundles=facts["bundles"]) for key, facts in placement_group_table().items()), filters, limit)


def list_jobs(address=None, filters=None, limit=100, timeout=30, detail=False, raise_on_missing_output=True, _explain=False) -> list[Any]:
    """This job."""
    import sys
    return _kept([JobState(job_id=_session.job().id, submission_id=None, status="RUNNING", type="DRIVER",
                           entrypoint=" ".join(sys.orig_argv), driver_info={"node_ip_address": socket.gethostname()})],
                 filters, limit)


# ---- Single items.


def _one(states, field, wanted):
    return next((state for state in states if state[field] == wanted), None)


def get_actor(id, address=None, timeout=30) -> Any:
    """The actor with this id; None if there is none."""
    return _one(list_actors(limit=_MANY), "actor_id", id)


def get_task(id, address=None, timeout=30) -> Any:
    """The task with this id; None if there is none."""
    wanted = id if isinstance(id, str) else id.task_id().hex()
    return _one(list_tasks(limit=_MANY), "task_id", wanted)


def get_node(id, address=None, timeout=30) -> Any:
    """The node with this id; None if there is none."""
    return _one(list_nodes(limit=_MANY), "node_id", id)


def get_worker(id, address=None, timeout=30) -> Any:
    """The process with this id; None if there is none."""
    return _one(list_workers(limit=_MANY), "worker_id", id)


def get_placement_group(id, address=None, timeout=30) -> Any:
    """The placement group with this id; None if there is none."""
    return _one(list_placement_groups(limit=_MANY), "placement_group_id", id)


def get_objects(id, address=None, timeout=30) -> list[Any]:
    """A list of the facts about the object with this id."""
    return [state for state in list_objects(limit=_MANY) if state.object_id == id]


# ---- Summaries.


def summarize_tasks(address=None, timeout=30, raise_on_missing_output=True, _explain=False) -> dict[str, Any]:
    """The number of tasks by name and state."""
    tasks = list_tasks(limit=_MANY)
    summary = _counted(tasks, "func_or_class_name", ("func_or_class_name", "type"))
    kinds = collections.Counter(task.type for task in tasks)
    return {"cluster": {"summary": summary, "total_tasks": kinds["NORMAL_TASK"],
                        "total_actor_tasks": kinds["ACTOR_TASK"],
                        "total_actor_scheduled": kinds["ACTOR_CREATION_TASK"], "summary_by": "func_name"}}


def summarize_actors(address=None, timeout=30, raise_on_missing_output=True, _explain=False) -> dict[str, Any]:
    """The number of actors by class and state."""
    actors = list_actors(limit=_MANY)
    return {"cluster": {"summary": _counted(actors, "class_name", ("class_name",)), "total_actors": len(actors),
                        "summary_by": "class"}}


def summarize_objects(address=None, timeout=30, raise_on_missing_output=True, _explain=False) -> dict[str, Any]:
    """The number and size of the objects."""
    objects = list_objects(limit=_MANY)
    sizes = sum(state.object_size for state in objects)
    by_state = dict(collections.Counter(state.task_status for state in objects))
    whole = {"total_objects": len(objects), "total_size_mb": sizes / (1 << 20), "task_state_counts": by_state}
    return {"cluster": {"summary": {"disabled": whole}, "total_objects": len(objects),
                        "total_size_mb": sizes / (1 << 20), "callsite_enabled": False, "summary_by": "callsite"}}


def _counted(states, key, shown):
    summary = {}
    for state in states:
        row = summary.setdefault(state[key], {**{name: state[name] for name in shown}, "state_counts": {}})
        row["state_counts"][state.state] = row["state_counts"].get(state.state, 0) + 1
    return summary


public_module(globals())
