import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar, overload
from typing_extensions import ParamSpec

from miniray import ActorHandle, ObjectRef
from miniray.ps._optimizer_server import OptimizerServer
from miniray.ps.strategies import SyncStrategy

_T = TypeVar("_T")
_P = ParamSpec("_P")
_Weights = Sequence[Any] | Mapping[str, Any]
_Path = str | os.PathLike[str]
_Optimizer = Literal["sgd", "nesterov", "adagrad", "rmsprop", "adam", "adamw", "lamb", "ftrl"]
_Strategy = str | SyncStrategy | type[SyncStrategy] | Callable[[Any], Any]

class _Method(Generic[_P, _T]):
    def remote(self, *args: _P.args, **kwargs: _P.kwargs) -> ObjectRef[_T]: ...

class _Sync(Protocol):
    def remote(self, workers: Iterable[ActorHandle[Any]], on_dead: Literal["raise", "skip"] = ..., *,
               weights: Sequence[ObjectRef[Any]] | None = ...) -> ObjectRef[int]: ...

class _Push(Protocol):
    def remote(self, weights: _Weights | ObjectRef[Any]) -> ObjectRef[int]: ...

class _SetWeight(Protocol):
    def remote(self, worker_id: int, weight: float) -> ObjectRef[None]: ...

class _Save(Protocol):
    def remote(self, path: _Path) -> ObjectRef[str]: ...

class _Starter(Protocol):
    def remote(self, strategy: _Strategy | None = ..., *, checkpoint_dir: _Path | None = ...,
               checkpoint_every: float | None = ..., restore: _Path | None = ..., resume: bool = ...,
               **kwargs: Any) -> ParameterServer: ...

class ParameterServer:
    @classmethod
    def remote(cls, strategy: _Strategy | None = ..., *, checkpoint_dir: _Path | None = ...,
               checkpoint_every: float | None = ..., restore: _Path | None = ..., resume: bool = ...,
               **kwargs: Any) -> ParameterServer: ...
    @classmethod
    def options(cls, **options: Any) -> _Starter: ...
    sync_from_workers: _Sync
    pull_weights: _Method[[], Any]
    push_weights: _Push
    get_stats: _Method[[], dict[str, Any]]
    set_worker_weight: _SetWeight
    save: _Save

@overload
def create_parameter_server(strategy: _Optimizer, *, lr: float, model: Any = ..., buffers: Sequence[str] = ...,
                            num_workers: int | None = ..., consistency: str | None = ..., num_servers: int = ...,
                            replicas: int | None = ..., checkpoint_dir: _Path | None = ...,
                            checkpoint_every: float | None = ..., timeout: float = ..., **kwargs: Any) -> OptimizerServer: ...
@overload
def create_parameter_server(strategy: None = ..., *, optimizer: str, lr: float, model: Any = ...,
                            buffers: Sequence[str] = ..., num_workers: int | None = ..., consistency: str | None = ...,
                            num_servers: int = ..., replicas: int | None = ..., checkpoint_dir: _Path | None = ...,
                            checkpoint_every: float | None = ..., timeout: float = ..., **kwargs: Any) -> OptimizerServer: ...
@overload
def create_parameter_server(strategy: _Strategy | None = ..., *, checkpoint_dir: _Path | None = ...,
                            checkpoint_every: float | None = ..., restore: _Path | None = ..., resume: bool = ...,
                            **kwargs: Any) -> ParameterServer: ...
def checked_workers(workers: Iterable[ActorHandle[Any]], on_dead: str) -> list[ActorHandle[Any]]: ...
def copied_weights(worker: ActorHandle[Any]) -> ObjectRef[Any]: ...
def checked_weight(worker_id: int, weight: float) -> tuple[int, float]: ...
