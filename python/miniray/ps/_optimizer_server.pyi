from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from miniray import ActorHandle, ObjectRef
from miniray.ps._deployment import Deployment
from miniray.ps._model_session import Session
from miniray.ps.parameter_server import ParameterServer

class _Sync(Protocol):
    def remote(self, workers: Iterable[ActorHandle[Any]], on_dead: Literal["raise", "skip"] = ...) -> ObjectRef[int]: ...

class _PushGradients(Protocol):
    def remote(self, gradients: Sequence[Any] | Mapping[str, Any] | ObjectRef[Any], worker_id: int,
               step: int | None = ...) -> ObjectRef[int]: ...

class _Pull(Protocol):
    def remote(self, if_newer: int | None = ...) -> ObjectRef[Any]: ...

class OptimizerServer(ParameterServer):
    deployment: Deployment
    sync_from_workers: _Sync  # type: ignore[assignment]
    push_gradients: _PushGradients
    pull_weights: _Pull  # type: ignore[assignment]
    def __enter__(self) -> OptimizerServer: ...
    def __exit__(self, *error: object) -> None: ...
    def stop(self) -> None: ...
    def session(self, rank: int | None = ..., *, timeout: float = ...) -> Session: ...
