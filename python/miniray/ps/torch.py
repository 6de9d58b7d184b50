"""torch on a parameter server: an optimizer whose weights, and an embedding whose rows, are on the servers.

    ps = create_parameter_server(optimizer="adam", lr=1e-3, num_workers=4)
    optimizer = miniray.ps.torch.Optimizer(model, ps, rank)                            # in each of the ranks
    for x, y in batches:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()                                                               # push, and pull
    optimizer.finish()

On a deployment of tables (miniray.ps.start):

    connection = miniray.ps.connect(ps, rank)                                          # 1
    optimizer = miniray.ps.torch.Optimizer(model.named_parameters(), connection, optimizer="adam", lr=1e-3)   # 2
    for x, y in batches:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()                                                               # 3: push, and pull
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from miniray._core_api.tracebacks import public_module

from miniray.ps import _model_form
from miniray.ps._connection import TIMEOUT_S, Connection
from miniray.ps._optimizer_server import OptimizerServer
from miniray.ps._tables import SparseTable
from miniray.ps.errors import PsTimeoutError, StaleError

_READY = "miniray.ready"  # an array of one number, 1.0 when the weights of rank 0 are set
_NAME_MAX = 63  # longest name of an array in bytes
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
_LIMITS = {"fp32": float("inf"), "bf16": (2 - 2.0**-8) * 2.0**127, "fp16": 65520.0}  # numbers from here on are infinite


class Optimizer(torch.optim.Optimizer):
    """Replaces a torch optimizer: `step()` pushes the gradients and pulls the weights that the servers computed.

    All ranks begin with the weights of rank 0. From then on the servers hold the weights, so load weights before
    creating the Optimizer. In BSP a step applies the mean of the gradients of all ranks. `options` are those of
    `Connection.table`. `name` is that of the dense table: several optimizers of a connection need different names, in
    the same order on all ranks. The servers also hold the learning rate and the optimizer's state: use a `schedule`
    instead of torch's, and `Deployment.checkpoint` instead of `state_dict`.

    Parameters may be float32, bfloat16 or float16; the servers keep float32. A step of this rank whose gradients are not
    all finite is left out: nothing of it is applied, in BSP the mean is that of the other ranks, and `skipped` counts it.
    `torch.amp.GradScaler` works as with torch's optimizers (call `step` of the scaler).
    """

    _step_supports_amp_scaling = True  # GradScaler passes the scale, and calls step() also if a gradient is infinite

    def __new__(cls, parameters, connection: Connection | OptimizerServer, *args: Any, **options: Any):
        """An Optimizer on a connection, or a SessionOptimizer on a parameter server."""
        return super().__new__(SessionOptimizer if isinstance(connection, OptimizerServer) else cls)

    def __init__(self, parameters, connection: Connection, optimizer: str = "sgd", lr: float | None = None, *,
                 name: str = "model", **options: Any):
        if not isinstance(connection, Connection):
            raise TypeError(f"the connection must be what connect() returns, not {type(connection).__name__}")
        self.connection, self.parameters = connection, _named(parameters)
        super().__init__(list(self.parameters.values()), {"lr": lr})
        options.setdefault("average", (options.get("consistency") or connection.consistency) == "bsp")
        shapes = {array: parameter.shape for array, parameter in self.parameters.items()}
        self.table = connection.table(name, arrays={**shapes, _READY: (1,)}, optimizer=optimizer, lr=lr, **options)
        self._rate = self.table.options["lr"] if lr is None else lr
        self.param_groups[0]["lr"] = self._rate
        self.skipped = 0  # steps of this optimizer that were left out
        self._join()

    @property
    def steps_done(self) -> int:
        """The number of steps of this rank, including those of earlier processes; optimizers of one connection share
        its steps."""
        return self._step - 1

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Pushes the gradients, ends the step, and pulls the weights of the next one. Raises StaleError if the tables
        went back to a checkpoint: the weights are those of the checkpoint, and `steps_done` is its step. A `closure` is
        called first, and its result is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._check_untouched()
        try:
            gradients = self._gradients()
            before = self.connection.skipped
            if gradients is not None:
                self.table.push(gradients, wait=False, skip_nonfinite=True)
            elif self._in_rounds():
                self.connection.skip()
            self.connection.end()
            self.skipped += gradients is None or self.connection.skipped != before
        except StaleError:
            self._join()
            raise
        self._step = self.connection.begin()
        self._pull()
        return loss

    def _in_rounds(self):
        return self.table.options["consistency"] == "bsp"

    def _gradients(self):
        """{name: gradient}, unscaled; None: the step is left out. In BSP the push itself looks for what is not finite. In
        the other modes an array may be applied before the next one is looked at, so all are looked at first."""
        if _found_infinite(self):
            return None
        gradients = {name: _unscaled(self, _plain(parameter.grad)) for name, parameter in self.parameters.items()
                     if parameter.grad is not None}
        limit = _LIMITS[self.table.options["precision"]]
        whole = self._in_rounds() or all(_is_below(gradient, limit) for gradient in gradients.values())
        return gradients if whole else None

    def _check_untouched(self):
        if self.param_groups[0]["lr"] != self._rate:
            raise RuntimeError(f"lr was set to {self.param_groups[0]['lr']}, but the servers use {self._rate}: instead of "
                               'a scheduler, pass the Optimizer a schedule, such as schedule="cosine:1000"')
        changed = [name for name, parameter in self.parameters.items() if parameter._version != self._versions[name]]
        if changed:
            warnings.warn(f"the weights of {changed[0]!r} were changed since the last step; the change is lost, since "
                          "the servers hold the weights. Load weights before creating the Optimizer", stacklevel=3)

    # ---- State of the servers.

    def add_param_group(self, group: dict) -> None:
        """Raises NotImplementedError for a second group: the arrays of a table are fixed."""
        if self.param_groups:
            raise NotImplementedError("the arrays of a table are fixed: make another Optimizer, with a name of its own")
        super().add_param_group(group)

    def state_dict(self) -> dict:
        """Raises NotImplementedError: the servers hold the state."""
        raise NotImplementedError("the optimizer's state is on the servers: Deployment.checkpoint() saves it with the "
                                  "weights")

    def load_state_dict(self, state: dict) -> None:
        """Raises NotImplementedError: the servers hold the state."""
        raise NotImplementedError("the optimizer's state is on the servers, which restore their own checkpoints: "
                                  "start(checkpoint_dir=...)")

    def __reduce__(self):
        raise TypeError("an Optimizer cannot be passed to another process: create one on a connection there")

    # ---- Weights.

    def _join(self):
        """Pulls the weights. The first process of a deployment finds none: rank 0 sets its own in that step, and the
        next step has them. In BSP all ranks see this in the same step, also when the step is repeated."""
        self._step = self.connection.begin()
        if self._step == 0 or not self._is_set():
            if self.connection.rank == 0:
                self._set()
            self.connection.end()
            self._step = self.connection.begin()
            self._await_weights()
        self._pull(all=True)

    def _is_set(self):
        return float(self.table.pull([_READY])[_READY][0]) == 1.0

    def _set(self):
        """Sets the weights, and after them the flag that they are set. In BSP both take effect at the end of the step.
        """
        ticket = self.table.set({name: _plain(parameter) for name, parameter in self.parameters.items()}, wait=False)
        if self.table.options["consistency"] != "bsp":
            ticket.wait()
        self.table.set({_READY: [1.0]})

    def _await_weights(self):
        deadline = time.monotonic() + self.connection.timeout
        while not self._is_set():
            if time.monotonic() > deadline:
                raise PsTimeoutError(f"rank 0 has not set the weights of table {self.table.name!r}")
            time.sleep(0.002)

    @torch.no_grad()
    def _pull(self, all=False):
        """Pulls into the parameters themselves, if they are contiguous on the CPU. Frozen parameters do not change."""
        wanted = {name: parameter for name, parameter in self.parameters.items() if all or parameter.requires_grad}
        direct = {name: parameter.data for name, parameter in wanted.items() if _is_here(parameter)}
        ticket = self.table.pull(out=direct, wait=False)
        others = {name: torch.empty(parameter.shape, dtype=parameter.dtype)
                  for name, parameter in wanted.items() if name not in direct}
        self.table.pull(out=others)
        for name, weights in others.items():
            self.parameters[name].copy_(weights)
        ticket.wait()
        for parameter in wanted.values():  # torch does not notice these writes, and must reject graphs made before them
            parameter.unsqueeze(0)[:0].zero_()
        self._versions = {name: parameter._version for name, parameter in self.parameters.items()}


class SessionOptimizer(Optimizer):
    """`Optimizer(model, ps, rank)`: replaces a torch optimizer by the one of a parameter server (create_parameter_server with
    an optimizer). All ranks begin with the weights of rank 0, or those that the servers have.

    `step()` pushes the gradients, with the `lr` of `param_groups` if the program or a torch scheduler changed it, and pulls
    the weights that the servers computed. `finish()` ends the session; the other ranks continue. `skipped` counts steps
    without this rank, whose gradients were not all finite; `session` is the session.
    """

    def __init__(self, model: torch.nn.Module, ps: OptimizerServer, rank: int | None = None, *, timeout: float = TIMEOUT_S):
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"Optimizer needs a torch module, not {type(model).__name__}: with a parameter server it is "
                            "Optimizer(model, ps, rank)")
        self.model, self.session = model, ps.session(rank, timeout=timeout)
        try:
            self.session.push_weights(model)
            self._rate = float(ps._plan.table["lr"])
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            torch.optim.Optimizer.__init__(self, trained, {"lr": self._rate})
            self._begin()
        except BaseException:
            self.session.close()
            raise

    def _begin(self):
        self._step = self.session.begin()
        self.session.pull(out=self.model)

    @property
    def skipped(self) -> int:
        """The number of steps without this rank."""
        return self.session.skipped

    @property
    def steps_done(self) -> int:
        """The number of steps of this rank, including those of earlier processes."""
        return self._step

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Pushes the gradients, ends the step, and pulls the weights of the next one. Raises StaleError if the servers went
        back to a checkpoint: the weights are those of the checkpoint, and `steps_done` is its step. A `closure` is called
        first, and its result is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        rate = self.param_groups[0]["lr"]
        try:
            if _found_infinite(self):
                self.session.skip()
            else:
                gradients = [None if gradient is None else _unscaled(self, gradient)
                             for gradient in _model_form.gradients_of(self.session.form, self.model)]
                self.session.push_arrays(gradients, None if rate == self._rate else rate, copies=False)
        except StaleError:
            self._begin()
            raise
        self._begin()
        return loss

    def finish(self) -> None:
        """Leaves, so that no other rank waits for this one, and ends the session. Gradients that were not pushed are dropped."""
        self.session.leave()
        self.session.close()


def _found_infinite(optimizer):
    """Whether GradScaler has found a gradient that is not finite."""
    found = getattr(optimizer, "found_inf", None)
    return found is not None and float(found) != 0


def _unscaled(optimizer, gradient):
    """The gradient without the scale that GradScaler has passed."""
    scale = getattr(optimizer, "grad_scale", None)
    return gradient if scale is None else gradient.float() / float(scale)


def _named(parameters):
    """{name: parameter} of parameters() or named_parameters(). Frozen parameters are included, as in torch: all ranks
    have the same ones, and they may be unfrozen later."""
    if isinstance(parameters, (torch.Tensor, torch.nn.Module)):
        raise TypeError(f"parameters must be what model.named_parameters() returns, not {type(parameters).__name__}")
    found, seen = {}, set()
    items = [item if isinstance(item, tuple) else (str(number), item)
             for number, item in enumerate(parameters.items() if isinstance(parameters, dict) else parameters)]
    for _, parameter in items:
        _check_parameter(parameter)
    trained = {torch.float32} | {parameter.dtype for _, parameter in items if parameter.requires_grad}
    for number, (name, parameter) in enumerate(items):
        if parameter.numel() == 0 or (parameter.dtype not in trained and not parameter.requires_grad):
            continue  # the parameter cannot be trained
        if name in found or id(parameter) in seen:
            raise ValueError(f"parameter {name!r} occurs twice: parameters need different names")
        seen.add(id(parameter))
        found[_short(name, number)] = parameter
    if not any(parameter.requires_grad for parameter in found.values()):
        raise ValueError("Optimizer got no parameters: pass model.named_parameters()")
    for name, parameter in found.items():
        if parameter.dtype not in _FLOATS:
            raise TypeError(f"parameter {name!r} is {str(parameter.dtype).removeprefix('torch.')}: convert it to float32, "
                            "bfloat16 or float16")
    return found


def _check_parameter(parameter):
    if isinstance(parameter, dict):
        raise TypeError("a table has one rate for all its arrays: make an Optimizer for each group of parameters, each "
                        "with a name of its own")
    if not isinstance(parameter, torch.Tensor):
        raise TypeError(f"a parameter must be a tensor, not {type(parameter).__name__}")


def _short(name, number):
    """A name that an array may have."""
    size = len(name.encode())
    return name if size <= _NAME_MAX else f"{number}:{name.encode()[size - 50:].decode(errors='ignore')}"


def _is_below(tensor, limit):
    """Whether every number is finite, and its magnitude below the limit."""
    if limit == float("inf"):
        return bool(torch.isfinite(tensor).all())
    return bool((tensor.float().abs() < limit).all())


def _is_here(tensor):
    return tensor.device.type == "cpu" and tensor.is_contiguous()


def _plain(tensor):
    """The tensor in contiguous CPU memory."""
    tensor = tensor.detach()
    return (tensor.to_dense() if tensor.is_sparse else tensor).cpu().contiguous()


class Embedding(torch.nn.Module):
    """torch.nn.Embedding over the rows of a sparse table: `forward` pulls the rows of a batch, `backward` pushes their
    gradients, which the table's optimizer applies. A key is any number from 0, so there is no size to choose. The row
    of `padding_idx` is zero and does not learn. Gradients that are not finite are left out, in BSP with the whole step of
    this rank. `backward` pushes at once, so do not scale the loss (GradScaler): use bfloat16."""

    def __init__(self, table: SparseTable, padding_idx: int | None = None):
        super().__init__()
        if not isinstance(table, SparseTable):
            raise TypeError(f"an embedding needs a sparse table, not {type(table).__name__}")
        if table.dtype != "float32":
            raise TypeError(f"an embedding needs a table of float32, not {table.dtype}")
        self.table, self.dim, self.padding_idx = table, table.dim, padding_idx

    def extra_repr(self) -> str:
        """The table, its dim and padding_idx, for repr()."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.table.name!r}, dim={self.dim}{padding}"

    def forward(self, keys: torch.Tensor) -> torch.Tensor:
        """The rows of these keys."""
        if not isinstance(keys, torch.Tensor):
            raise TypeError(f"keys must be a tensor of whole numbers, not {type(keys).__name__}")
        once, places = torch.unique(keys, return_inverse=True)
        rows = self.table.pull(once).reshape(len(once), self.dim)
        if self.padding_idx is not None:
            rows[once == self.padding_idx] = 0
        if torch.is_grad_enabled() and self.training:
            rows.requires_grad_()
            rows.register_hook(lambda gradient: self._push(once, gradient))
        return torch.nn.functional.embedding(places, rows)

    def _push(self, keys, gradient):
        if self.padding_idx is not None:
            learns = keys != self.padding_idx
            keys, gradient = keys[learns], gradient[learns]
        self.table.push(keys, gradient.contiguous().reshape(self._shape(keys)), wait=False, skip_nonfinite=True)

    def _shape(self, keys):
        return (len(keys),) if self.dim == 1 else (len(keys), self.dim)


public_module(globals())
