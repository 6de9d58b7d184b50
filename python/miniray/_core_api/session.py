"""A session: the result of init(), and the job as its workers know it."""

import enum
import os

from miniray import _core

# Arguments of Ray's init() that make no difference here: there is no dashboard, logs are files, and settings are those
# of `miniray config`.
WITHOUT_EFFECT = {"include_dashboard", "dashboard_host", "dashboard_port", "job_config", "configure_logging",
                  "logging_level", "logging_format", "labels", "enable_resource_isolation",
                  "system_reserved_cpu", "system_reserved_memory", "cgroup_path", "proxy_server_url", "allow_multiple",
                  "storage", "logging_config"}

SCRIPT_MODE, WORKER_MODE, LOCAL_MODE = range(3)  # kinds of processes, by Ray's numbers


class Language(enum.Enum):
    """The language of a task's code."""

    PYTHON, JAVA, CPP = range(3)


class LoggingConfig:
    """Ray's log format for `init(logging_config=)`; without effect."""

    def __init__(self, encoding="TEXT", log_level="INFO", additional_log_standard_attrs=()):
        if encoding not in ("TEXT", "JSON"):
            raise ValueError(f"Invalid encoding type: {encoding}. Valid encoding types are: ['TEXT', 'JSON']")
        self.encoding, self.log_level = encoding, log_level
        self.additional_log_standard_attrs = list(additional_log_standard_attrs)


PINNED_NAMESPACE = "miniray.kept"  # namespace of the actors of _actors/pinned_refs.py
_VARIABLE = "MINIRAY_JOB"  # variable in the environment of workers


class Context:
    """The result of init(): facts about the session as attributes and as a mapping; a `with` block ends the runtime."""

    dashboard_url = None

    def __init__(self):
        import sys
        self.python_version = sys.version.split()[0]
        self.ray_version, self.ray_commit = _core.version, None
        address = _core.address()
        self.address_info = {
            "node_ip_address": "127.0.0.1", "raylet_ip_address": "127.0.0.1", "address": address, "gcs_address": address,
            "raylet_socket_name": address, "object_store_address": address, "session_dir": os.path.dirname(address or ""),
            "webui_url": None, "metrics_export_port": None, "node_id": _core.look("nodes", 1)["nodes"][0]["id"],
        }

    def __getitem__(self, name):
        return self.address_info[name]

    def __len__(self):
        return len(self.address_info)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.disconnect()

    def disconnect(self):
        """Ends the runtime."""
        _core.shutdown()

    def __repr__(self):
        return f"RayContext(dashboard_url='', python_version={self.python_version!r}, ray_version={self.ray_version!r})"


class Job:
    """A program, in its driver and its workers."""

    def __init__(self, job_id, namespace, runtime_env):
        self.id, self.namespace, self.runtime_env = job_id, namespace, runtime_env

    def variables(self, runtime_env):
        """Environment variables for the job's workers."""
        import json
        told = {"id": self.id, "namespace": self.namespace, "runtime_env": runtime_env}
        return {_VARIABLE: json.dumps(told, default=os.fspath)}


_job = None


def begin(namespace, runtime_env):
    """Starts a job; its namespace is random unless it is named."""
    global _job
    _job = Job(os.urandom(4).hex(), namespace or os.urandom(16).hex(), runtime_env)
    return _job


def job():
    """The job of this process."""
    global _job
    if _job is None and _VARIABLE in os.environ:
        import json
        told = json.loads(os.environ[_VARIABLE])
        _job = Job(told["id"], told["namespace"], told["runtime_env"])
    return _job
