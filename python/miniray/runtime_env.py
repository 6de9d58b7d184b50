"""runtime_env as a class: a dict that is checked when it is created (_core_api/runtime_env.py)."""

from __future__ import annotations

from typing import Any

from miniray._core_api import runtime_env as _runtime_env
from miniray._core_api.tracebacks import public_module

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]


class RuntimeEnv(dict):
    """RuntimeEnv(env_vars={…}, working_dir=…, py_modules=[…]), for every argument `runtime_env`."""

    def __init__(self, **fields) -> None:
        given = {name: value for name, value in fields.items() if value is not None}
        _runtime_env.check(given)
        super().__init__(given)

    def to_dict(self) -> dict[str, Any]:
        """The same as a plain dict."""
        return dict(self)

    def __reduce__(self):
        return _again, (dict(self),)


def _again(fields):
    return RuntimeEnv(**fields)


class RuntimeEnvConfig(dict):
    """Accepted for compatibility, without effect, since there is nothing to set up."""


public_module(globals())
