"""torch on a parameter server: an optimizer whose weights are on the servers, and an embedding whose rows are.

    connection = miniray.ps.connect(ps, rank)                                          # 1
    optimizer = miniray.ps.torch.Optimizer(model.named_parameters(), connection, optimizer="adam", lr=1e-3)   # 2
    for x, y in batches:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()                                                               # 3: push, and pull
"""

from __future__ import annotations

import time
from typing import Any

import torch

from miniray.ps._connection import Connection
from miniray.ps._tables import SparseTable
from miniray.ps.errors import PsTimeoutError, StaleError

_READY = "miniray.ready"  # one number: the weights of rank 0 are in


class Optimizer:
    """Stands in the place of an optimizer of torch's: `step()` pushes the gradients, and pulls the weights that the
    servers made of them.

    All ranks begin with the weights of rank 0. In BSP a step has the mean of the gradients of all ranks. `options` are
    those of `Connection.table`. `name` is that of the dense table.
    """

    def __init__(self, parameters, connection: Connection, optimizer: str = "sgd", lr: float | None = None, *,
                 name: str = "model", **options: Any):
        self.connection, self.parameters = connection, _named(parameters)
        options.setdefault("average", (options.get("consistency") or connection.consistency) == "bsp")
        shapes = {name: parameter.shape for name, parameter in self.parameters.items()}
        self.table = connection.table(name, arrays={**shapes, _READY: (1,)}, optimizer=optimizer, lr=lr, **options)
        self._begin()

    @property
    def steps_done(self) -> int:
        """How many steps this rank has done, also in processes that played it before."""
        return self._step - 1

    def zero_grad(self, set_to_none: bool = False) -> None:
        for parameter in self.parameters.values():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach().zero_()

    def step(self) -> None:
        """Pushes the gradients, ends the step, and has the weights of the next one. Raises StaleError if the tables
        went back to a checkpoint: the weights are those of then, and `steps_done` says how far that was."""
        try:
            gradients = {name: _plain(parameter.grad) for name, parameter in self.parameters.items()
                         if parameter.grad is not None}
            self.table.push(gradients, wait=False)
            self.connection.end()
        except StaleError:
            self._begin()
            raise
        self._begin()

    def _begin(self):
        """Step 0 is rank 0's, to set the weights; a rank that died in it does it again."""
        self._step = self.connection.begin()
        if self._step == 0:
            if self.connection.rank == 0:
                weights = {name: _plain(parameter) for name, parameter in self.parameters.items()}
                self._wait_outside_rounds(self.table.set(weights, wait=False))
                self.table.set({_READY: [1.0]})
            self.connection.end()
            self._step = self.connection.begin()
        if self._step == 1:
            self._await_weights()
        self._pull()

    def _wait_outside_rounds(self, ticket):
        """The mark comes after them. In BSP everything of a step comes at once."""
        if self.table.options["consistency"] != "bsp":
            ticket.wait()

    def _await_weights(self):
        deadline = time.monotonic() + self.connection.timeout
        while float(self.table.pull([_READY])[_READY][0]) != 1.0:
            if time.monotonic() > deadline:
                raise PsTimeoutError("rank 0 has not set the weights")
            time.sleep(0.002)

    @torch.no_grad()
    def _pull(self):
        """Into the parameters themselves, where they lie in a row on this machine."""
        direct = {name: parameter.data for name, parameter in self.parameters.items() if _is_here(parameter)}
        ticket = self.table.pull(out=direct, wait=False)
        others = {name: torch.empty(parameter.shape, dtype=parameter.dtype)
                  for name, parameter in self.parameters.items() if name not in direct}
        self.table.pull(out=others)
        for name, weights in others.items():
            self.parameters[name].copy_(weights)
        ticket.wait()


def _named(parameters):
    """{name: parameter}, from parameters() or from named_parameters()."""
    found = {}
    for number, item in enumerate(parameters):
        name, parameter = item if isinstance(item, tuple) else (str(number), item)
        if parameter.requires_grad:
            found[name] = parameter
    if not found:
        raise ValueError("there are no parameters to optimize")
    if {parameter.dtype for parameter in found.values()} != {torch.float32}:
        raise TypeError("parameters of other types than float32 have to be cast first")
    return found


def _is_here(tensor):
    return tensor.device.type == "cpu" and tensor.is_contiguous()


def _plain(tensor):
    """In a row on this machine, as the table takes it."""
    tensor = tensor.detach()
    return (tensor.to_dense() if tensor.is_sparse else tensor).cpu().contiguous()


class Embedding(torch.nn.Module):
    """Rows of a sparse table as torch.nn.Embedding has them: `forward` pulls those of a batch, `backward` pushes their
    gradients, which the table's optimizer applies. A key may be any number of 64 bits: there is no size to choose."""

    def __init__(self, table: SparseTable):
        super().__init__()
        if not isinstance(table, SparseTable):
            raise TypeError(f"an embedding needs a sparse table, not {type(table).__name__}")
        if table.dtype != "float32":
            raise TypeError(f"an embedding needs a table of float32, not {table.dtype}")
        self.table, self.dim = table, table.dim

    def extra_repr(self) -> str:
        return f"{self.table.name!r}, dim={self.dim}"

    def forward(self, keys: torch.Tensor) -> torch.Tensor:
        once, places = torch.unique(keys, return_inverse=True)
        rows = self.table.pull(once).reshape(len(once), self.dim)
        if torch.is_grad_enabled() and self.training:
            rows.requires_grad_()
            rows.register_hook(lambda gradient: self._push(once, gradient))
        return torch.nn.functional.embedding(places, rows)

    def _push(self, keys, gradient):
        self.table.push(keys, gradient.contiguous().reshape(self._shape(keys)), wait=False)

    def _shape(self, keys):
        return (len(keys),) if self.dim == 1 else (len(keys), self.dim)
