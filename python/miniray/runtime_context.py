"""The runtime context: facts about the task, actor and process in which code runs."""

from __future__ import annotations

import os
import sys
from typing import Any

from miniray import _core
from miniray._core_api import cluster as _cluster, ids as _ids, local_mode as _local_mode, session as _session, tracebacks
from miniray._core_api.tracebacks import public_module

_NAMES = {_ids.JobID: "job_id", _ids.NodeID: "node_id", _ids.TaskID: "task_id", _ids.ActorID: "actor_id"}


class RuntimeContext:
    """Facts about the task, actor or driver that runs this code."""

    @property
    def current_actor(self) -> Any:
        """The handle of this actor, which can be passed to others. RuntimeError outside of an actor."""
        actor = _actor()
        if actor is None:
            raise RuntimeError("This method is only available in an actor.")
        return actor

    def get_actor_id(self) -> str | None:
        """The id of this actor in hexadecimal; None outside of an actor."""
        actor = _actor()
        return None if actor is None else actor.__actor_id__

    def get_actor_name(self) -> str | None:
        """The name of this actor; "" if it has none, None outside of an actor."""
        facts = self._facts()
        return None if facts is None else facts[1]

    def get_job_id(self) -> str | None:
        """The id of the job that this code runs for."""
        job = _session.job()
        return None if job is None else job.id

    @property
    def namespace(self) -> str | None:
        """The namespace of this job's named actors."""
        job = _session.job()
        return None if job is None else job.namespace

    @property
    def runtime_env(self) -> dict[str, object]:
        """The runtime_env that was passed to init()."""
        job = _session.job()
        return dict(job.runtime_env or {}) if job is not None else {}

    def get_runtime_env_string(self) -> str:
        """The runtime_env that was passed to init(), as JSON."""
        import json
        return json.dumps(self.runtime_env, default=os.fspath)

    def get_node_id(self) -> str:
        """The id of this node, as in nodes()."""
        return _cluster.nodes()[0]["NodeID"]

    def get_worker_id(self) -> str:
        """The id of this process."""
        return f"{os.getpid():08x}"

    def get_task_id(self) -> str | None:
        """The id of the task or actor call; None in the driver."""
        return f"{os.getpid():08x}{_core.call():016x}" if _core.calls() > 0 else None

    def get_task_name(self) -> str | None:
        """The name of the task, or "Class.method" in an actor; None in the driver."""
        row, facts = _cluster.own_row(), self._facts()
        name = row["running"][0]["name"].partition("@")[0] if row and row["running"] else None
        return name if name is None or facts is None else f"{facts[0]}.{name}"

    def get_task_function_name(self) -> str | None:
        """The function that runs: "module.function" or "module.Class.method"; None in the driver."""
        frame = _function_frame() if _core.calls() > 0 else None
        if frame is None:
            return None
        facts = self._facts()
        name = frame.f_code.co_name if facts is None else f"{facts[0]}.{frame.f_code.co_name}"
        return f"{frame.f_globals.get('__name__')}.{name}"

    def is_canceled(self) -> bool:
        """Whether cancel() was called for this task or actor call. A method that is no coroutine is not interrupted: it
        can check this and return."""
        return _core.is_cancelled()

    def get_assigned_resources(self) -> dict[str, float]:
        """The resources that the task or actor has: {"CPU": 1.0}."""
        row = _cluster.own_row()
        return _cluster.amounts(row["needs"]) if row else {}

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """The ids of the accelerators that the task or actor may use: {"GPU": ["0"]}."""
        return {"GPU": [str(gpu) for gpu in _cluster.get_gpu_ids()]}

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether this actor has been restarted."""
        facts = self._facts()
        if facts is None:
            raise RuntimeError("This method is only available in an actor.")
        return facts[3] > 1

    @property
    def gcs_address(self) -> str | None:
        """The address of the node."""
        return _core.address()

    def get_placement_group_id(self) -> str | None:
        """The id of the placement group in which this code runs; None outside of one."""
        row = _cluster.own_group()
        return None if row is None else _ids.group_id_of(row["handle"]).hex()

    def get_dashboard_url(self) -> str:
        """An empty string: there is no dashboard."""
        return ""

    # ---- Old names, whose results are ids.

    @property
    def job_id(self) -> Any:
        """get_job_id() as a JobID; deprecated."""
        _is_old("get_job_id")
        job = self.get_job_id()
        return _ids.JobID.nil() if job is None else _ids.JobID.from_hex(job)

    @property
    def node_id(self) -> Any:
        """get_node_id() as a NodeID; deprecated."""
        _is_old("get_node_id")
        return _ids.NodeID.from_hex(self.get_node_id())

    @property
    def worker_id(self) -> Any:
        """get_worker_id() as a WorkerID."""
        return _ids.WorkerID.from_hex(self.get_worker_id())

    @property
    def task_id(self) -> Any:
        """get_task_id() as a TaskID; deprecated. None in the driver."""
        _is_old("get_task_id")
        task = self.get_task_id()
        return None if task is None else _ids.TaskID.from_hex(task)

    @property
    def actor_id(self) -> Any:
        """get_actor_id() as an ActorID; deprecated. None outside of an actor."""
        _is_old("get_actor_id")
        actor = self.get_actor_id()
        return None if actor is None else _ids.ActorID.from_hex(actor)

    @property
    def current_placement_group_id(self) -> Any:
        """get_placement_group_id() as a PlacementGroupID; deprecated."""
        _is_old("get_placement_group_id")
        row = _cluster.own_group()
        return None if row is None else _ids.group_id_of(row["handle"])

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether tasks and actors that are started here run in the placement group of this code unless they say
        otherwise."""
        return _core.placement_captured() is not None

    def get_node_labels(self) -> dict[str, str]:
        """An empty dict: nodes have no labels."""
        return {}

    def get_temp_dir(self) -> str:
        """The folder that contains the folders of all sessions."""
        return os.path.dirname(os.path.dirname(_core.address() or ""))

    def get_resource_ids(self) -> dict[str, list[str]]:
        """The earlier name of get_accelerator_ids()."""
        _is_old("get_accelerator_ids")
        return self.get_accelerator_ids()

    def get_session_name(self) -> str:
        """The name of this session, which is the name of its folder."""
        return os.path.basename(os.path.dirname(_core.address() or ""))

    def get(self) -> dict[str, object]:
        """The known ids and the namespace, as a dict."""
        texts = {_ids.JobID: self.get_job_id(), _ids.NodeID: self.get_node_id(), _ids.TaskID: self.get_task_id(),
                 _ids.ActorID: self.get_actor_id()}
        found = {kind: kind.from_hex(text) for kind, text in texts.items() if text is not None}
        return {**{_NAMES[kind]: made for kind, made in found.items()}, "namespace": self.namespace}

    def _facts(self):
        actor = _actor()
        return None if actor is None or _local_mode.is_on() else _core.facts(actor)


def _is_old(instead):
    import warnings
    warnings.warn(f"Use {instead}() instead", DeprecationWarning, stacklevel=3)


def _function_frame():
    """The frame of the task or method that calls this function: the outermost frame of this thread outside the
    package."""
    frame, found = sys._getframe(1), None
    while frame is not None:
        ours = tracebacks.is_internal(frame.f_code.co_filename)
        if not ours and frame.f_globals.get("__name__", "").partition(".")[0] not in ("asyncio", "threading"):
            found = frame
        frame = frame.f_back
    return found


def _actor():
    return _local_mode.current() if _local_mode.is_on() else _core.current_actor()


def get_runtime_context() -> RuntimeContext:
    """The RuntimeContext of this process; starts the runtime if it is not running."""
    if not _core.is_initialized():
        from miniray._core_api import api as _api
        _api.auto_init()
    return RuntimeContext()


public_module(globals())
