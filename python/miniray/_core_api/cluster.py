"""Nodes, resources and timeline of the cluster."""

import os

from miniray import _core
from miniray._core_api import options as _options, own_file
from miniray._core_api.tracebacks import public

_SHOWN = {"cpu": "CPU", "gpu": "GPU"}
_EVENTS_MAX = 1_000_000


def _running():
    if not _core.is_initialized():
        raise RuntimeError("miniray has not been started yet. Please call miniray.init() first.")


def amounts(text):
    """{"CPU": 0.5, "x": 1.0} of "cpu=0.5, x=1" or "cpu=0.5, x=1 in group"."""
    text = f" {text}".partition(" in ")[0]
    pairs = (part.split("=") for part in text.replace(" ", "").split(",") if part)
    return {_SHOWN.get(name, name): float(amount) for name, amount in pairs}


def group_of(text):
    """The name of the placement group in a text like "cpu=1 in group"; "": none."""
    return f" {text}".partition(" in ")[2]


def own_row():
    """The node's facts about this process; None in the driver."""
    if _core.calls() == 0:
        return None
    rows = _core.look("workers", 100_000)["workers"]
    return next((row for row in rows if row["pid"] == os.getpid()), None)


def groups():
    """The node's facts about each placement group."""
    return _core.look("groups", 100_000)["groups"]


def own_group():
    """The node's facts about the placement group in which this task or actor runs; None outside of one."""
    row = own_row()
    name = "" if row is None else group_of(row["needs"])
    return next((group for group in groups() if group["id"] == name), None) if name else None


def _resources(rows, which):
    return {_SHOWN.get(row["name"], row["name"]): row[which] / 1000 for row in rows if row[which] > 0}


@public
def nodes():
    """The nodes of the cluster, as dicts."""
    _running()
    return [{
        "NodeID": node["id"], "Alive": node["alive"], "alive": node["alive"], "NodeName": node["host"],
        "NodeManagerAddress": "127.0.0.1", "NodeManagerHostname": node["host"], "NodeManagerPort": 0,
        "ObjectManagerPort": 0, "ObjectStoreSocketName": node["address"], "RayletSocketName": node["address"],
        "MetricsExportPort": 0, "Labels": {}, "Resources": _of_node(node, "total"),
    } for node in _core.look("nodes", 1000)["nodes"]]


def _of_node(node, which):
    taken = node["store_bytes"] if which == "free" else 0
    return {**_resources(node["resources"], which), "memory": float(node["memory_bytes"]),
            "object_store_memory": float(max(0, node["arena_bytes"] - taken)), **dict.fromkeys(_options.THIS_NODE, 1.0)}


def _sum(which):
    _running()
    total = {}
    for node in _core.look("nodes", 1000)["nodes"]:
        for name, amount in _of_node(node, which).items():
            total[name] = total.get(name, 0.0) + amount
    return total


@public
def cluster_resources():
    """All resources, free or not: {"CPU": 4.0, …}."""
    return _sum("total")


@public
def available_resources():
    """The free resources; a resource that is not listed is used up."""
    return _sum("free")


@public
def get_node_ip_address():
    """The IP address of this machine, as in nodes()."""
    return "127.0.0.1"


@public
def get_node_instance_id():
    """An empty string, since the id that a cloud gives to a machine is unknown."""
    return ""


@public
def list_named_actors(all_namespaces=False):
    """The names of this program's named actors; with `all_namespaces` [{"name", "namespace"}] of all programs."""
    from miniray._core_api import api as _api, local_mode as _local_mode, session as _session
    if not _core.is_initialized():
        _api.auto_init()
    own = _session.job().namespace
    if _local_mode.is_on():
        named = [(space or own, name) for space, name in _local_mode.names()]
    else:
        named = [(row["namespace"], row["name"]) for row in _core.look("actors", 1_000_000)["actors"]
                 if row["name"] and row["state"] != "dead" and row["namespace"] != _session.PINNED_NAMESPACE]
    if all_namespaces:
        return [{"name": name, "namespace": space} for space, name in named]
    return [name for space, name in named if space == own]


@public
def timeline(filename=None):
    """Recent tasks as a list of trace events; with `filename` written to a file for chrome://tracing and
    https://ui.perfetto.dev."""
    _running()
    data = _core.trace(_EVENTS_MAX)
    if filename is None:
        import json
        trace = json.loads(data)
        return trace["traceEvents"] if isinstance(trace, dict) else trace
    with open(filename, "wb", opener=own_file.open_own) as file:
        file.write(data)


@public
def get_gpu_ids():
    """The GPUs that this task or actor may use, by number, or by name if CUDA_VISIBLE_DEVICES has names."""
    found = _core.gpu_ids()
    return os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if -1 in found else found


def see_gpus(devices):
    """Sets or removes CUDA_VISIBLE_DEVICES in os.environ after the runtime has changed the environment of a worker."""
    if devices is None:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices
