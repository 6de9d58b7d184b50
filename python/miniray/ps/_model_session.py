"""Sessions: a rank trains a model on a parameter server with an optimizer."""

from __future__ import annotations

import operator
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from miniray import _core
from miniray._core_api.tracebacks import public
from miniray._weights._weight_tree import is_torch
from miniray.ps import _model_form, _table_options
from miniray.ps._connection import Connection
from miniray.ps._model_form import Form
from miniray.ps.errors import PsError, StaleError

MODEL = "model"  # name of the table
_METRICS_S = 0.5  # interval of a session's metrics


class Plan(NamedTuple):
    """The options of a model, for all of its sessions."""

    table: dict[str, Any]  # options of the table
    form: Form | None = None  # None: the ranks give the model
    buffers: tuple[str, ...] = ()


@public
class Session:
    """A rank's session, which `ps.session(rank)` opens; one thread at a time uses it.

        with ps.session(rank) as session:
            for step in session.steps(1000):          # a rank that is started again continues at its step
                session.pull(out=model)
                loss(model, batch(step)).backward()
                session.push_gradients(model)         # ends the step

    At the end of the `with` block the rank leaves, and the others continue without it; after an exception they wait for
    its next process. Attributes: `rank`, `num_workers`, `skipped` (steps with a gradient that was not finite), `timeout`,
    `connection` (with its other tables), `form` (the
    model's tensors; None: not known yet).
    """

    def __init__(self, connection: Connection, plan: Plan):
        self.connection, self._plan = connection, plan
        self.rank, self.num_workers, self.timeout = connection.rank, connection.num_workers, connection.timeout
        self.form, self._weights = plan.form, None
        self._native: _core.ModelSession | None = None
        self._loops = self._is_void = False  # in steps(); the servers went back to a checkpoint during the body
        self._metrics_at = 0.0

    def __repr__(self):
        return f"Session(rank={self.rank} of {self.num_workers})"

    def __reduce__(self):
        raise TypeError("a session cannot be passed to another process: pass the parameter server, and call ps.session(rank) "
                        "there")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind, *error) -> None:
        try:
            if kind is None:
                self.leave()
        finally:
            self.close()

    def leave(self, timeout: float | None = None) -> None:
        """Waits until the pushes are acknowledged, and leaves: no other rank waits for this one any more. The next step
        returns."""
        if self._native is not None:
            self._native.leave(self._patience(timeout))

    def close(self) -> None:
        """Ends the session and its connection, without leaving. Another process may continue as this rank."""
        if self._native is not None:
            self._native.close()
        self.connection.close()

    # ---- Steps.

    def steps(self, count: int | None = None) -> Iterator[int]:
        """The numbers of the steps up to `count`, from 0; a push ends the step, and a body without a push has the same number
        again. They continue at the step of an earlier process of this rank. If the servers go back to a checkpoint, a
        warning says so, and the numbers continue with the step that is due."""
        count = None if count is None else operator.index(count)
        while True:
            step = self.begin()
            if count is not None and step >= count:
                return
            self._loops, self._is_void = True, False
            try:
                yield step
            finally:
                self._loops = False

    def begin(self, timeout: float | None = None) -> int:
        """Waits until the last push is acknowledged and the next step may begin, begins it, and returns its number. The first
        call waits for the weights of rank 0."""
        if self._native is None:
            self._open()
        while True:
            try:
                return self._native.begin(self._patience(timeout))
            except StaleError as error:
                warnings.warn(f"rank {self.rank}: {error}", stacklevel=3)

    def _open(self):
        if self.form is None:
            raise RuntimeError(f"rank {self.rank} does not know the model: call session.push_weights(model) first, or pass "
                               "model= to create_parameter_server")
        form, weights = self.form, self._weights
        memories = [None] * len(form.entries) if weights is None else [
            _first_memory(entry, array) for entry, array in zip(form.entries, weights)]
        self.connection._leaves_steps()
        tensors = [(entry.name, _table_options.dtype_number(entry.dtype), entry.shape, memory, entry.frozen)
                   for entry, memory in zip(form.entries, memories)]
        self._native = self.connection._native.session(MODEL, self.timeout, _table_options.packed(self._plan.table), tensors,
                                                        _model_form.packed(form))
        self._weights = None

    def _patience(self, timeout):
        return self.connection._patience(timeout)

    @property
    def skipped(self) -> int:
        """The number of steps that left this rank out, because a gradient was not finite."""
        return 0 if self._native is None else self._native.skipped

    # ---- Weights.

    def push_weights(self, model: Any) -> None:
        """Gives this rank's model, before the first step: if the model has no weights yet, those of rank 0 are the first ones.
        Otherwise only the names and shapes are compared."""
        if self._native is not None:
            raise RuntimeError("push_weights() is for the first weights, before the first step: the servers have the weights, "
                               "and gradients change them")
        if self.form is None:
            self.form = _model_form.form_of(model, self._plan.buffers)
        _model_form.check_same(self.form, model, "the model")
        if self.rank == 0:
            self._weights = _model_form.arrays_of(self.form, model, "the model")

    def pull(self, out: Any = None, timeout: float | None = None) -> Any:
        """Pulls the weights of the open step into `out`, a model, and returns it; without `out` returns them as new arrays, in
        a dict or a list like the model."""
        if self._native is None:
            self.begin(timeout)
        try:
            return self._pull(out, timeout)
        except StaleError as error:
            self._note_void(error)
            self.begin(timeout)
            return self._pull(out, timeout)

    def _pull(self, out, timeout):
        form = self.form
        if out is None:
            pairs = [_model_form.empty(entry, form.is_torch) for entry in form.entries]
            self._native.pull([memory for memory, _ in pairs], self._patience(timeout))
            return form.tree([array for _, array in pairs])
        arrays = _model_form.arrays_of(form, out, "out")
        pairs = [_model_form.writing(entry, array) for entry, array in zip(form.entries, arrays)]
        self._native.pull([memory for memory, _ in pairs], self._patience(timeout))
        for array, (_, made) in zip(arrays, pairs):
            if made is not None:
                _model_form.copy_to(array, made)
            elif is_torch(array):
                _touch(array)
        return out

    def version(self, timeout: float | None = None) -> int:
        """The number of steps in the weights of the open step."""
        return self._native.version(self._patience(timeout))

    # ---- Gradients.

    def push_gradients(self, gradients: Any, *, lr: float | None = None, keep: bool = False,
                       timeout: float | None = None) -> None:
        """Pushes the gradients of a module, or a list or a dict of arrays like the model, and ends the step. None for a tensor:
        it has no gradient. The gradients of a module are consumed, so that `.grad` is None afterwards, unless `keep` is
        true. `lr` replaces the learning rate for this step; if ranks give different ones, the lowest rank's applies. If a
        number is not finite, the step leaves this rank out."""
        if self._native is None:
            self.begin(timeout)
        consumes = not keep and hasattr(gradients, "named_parameters")
        arrays = _model_form.gradients_of(self.form, gradients)
        try:
            self.push_arrays(arrays, lr, not consumes, timeout)
        except StaleError as error:
            self._note_void(error)
        if consumes:
            for parameter in gradients.parameters():
                parameter.grad = None

    def push_arrays(self, arrays: list, lr: float | None, copies: bool, timeout: float | None = None) -> None:
        """The same for a list in the order of the model's tensors. With `copies` the arrays may be changed afterwards,
        otherwise after the next call."""
        if self._is_void:  # the gradients are of weights that the servers do not have any more
            return
        memories = [None if array is None or entry.frozen else _gradient_memory(entry, array, copies)
                    for entry, array in zip(self.form.entries, arrays)]
        self._native.push(memories, _table_options.number("lr", lr), self._patience(timeout))
        self._send_metrics()

    def skip(self, timeout: float | None = None) -> None:
        """Ends the step without a gradient of this rank."""
        try:
            if not self._is_void:
                self._native.skip(self._patience(timeout))
        except StaleError as error:
            self._note_void(error)

    def _note_void(self, error):
        """In steps() the rest of the body has no effect; the loop continues with the step that is due."""
        if not self._loops:
            raise error
        warnings.warn(f"rank {self.rank}: {error}", stacklevel=4)
        self._is_void = True

    def _send_metrics(self):
        now = time.monotonic()
        if now < self._metrics_at:
            return
        self._metrics_at = now + _METRICS_S
        traffic = self.connection.traffic
        try:
            for name in ("push_bytes", "push_bytes_sent", "pull_bytes"):
                self.connection.metric(name, traffic[name])
            self.connection.metric("skipped", self.skipped)
        except PsError:
            pass  # the deployment has ended, as the next step says


def _first_memory(entry, array):
    """Writable memory with the first weights."""
    memory, made = _model_form.empty(entry, is_torch(array))
    _model_form.copy_to(made, array)
    return memory


def _gradient_memory(entry, array, copies):
    """Memory with the gradient, which is read later."""
    memory = _model_form.reading(entry, array, "the gradient")
    return memory.copy() if copies and _model_form.shares(memory, array) else memory


def _touch(tensor):
    """torch does not notice writes by the extension, and must reject graphs made before them."""
    import torch
    with torch.no_grad():
        tensor.unsqueeze(0)[:0].zero_()
