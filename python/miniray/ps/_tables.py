"""The table classes, one for each kind, and the tickets of their requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from miniray._core_api import did_you_mean
from miniray._core_api.tracebacks import public
from miniray.ps import _arrays, _old_names, _table_options
from miniray.ps._callbacks import Callback

_RANGE_ROOM = 1024  # number of rows in the first request for a range
_KEY_MAX = 2**64 - 1
Done = Callable[["Ticket"], Any] | None


@public
class Ticket:
    """A request that may be under way. Its arrays stay alive with the ticket, and must not be changed until the request
    has ended."""

    def __init__(self, connection, natives, result=None):
        """`result`: what wait() returns, or a function that makes it from the finished native ticket."""
        self._connection, self._natives, self._result = connection, natives, result

    def wait(self, timeout: float | None = None) -> Any:
        """Waits for the request and returns the pulled values (None for a push). Raises its error."""
        for native in self._natives:
            native.wait(self._connection._patience(timeout))
        result = self._result
        if callable(result):
            result = self._result = result(self._natives[0])
        return result

    @property
    def done(self) -> bool:
        """Whether the request has ended, with or without success."""
        return all(native.done for native in self._natives)

    def __repr__(self):
        return f"Ticket({'done' if self.done else 'under way'})"


def wrapped(connection, native):
    """The table class for a native table."""
    kinds = {"sparse": SparseTable, "vectors": VectorTable, "dense": DenseTable}
    return kinds[native.options["kind"]](connection, native)


@public
class Table:
    """Base of the three kinds of tables, which `connection.table()` returns."""

    __getattr__ = _old_names.attributes(mark="version")

    def __init__(self, connection, native):
        self.connection, self._native = connection, native
        self.options = native.options
        self.name, self.kind, self.dtype = native.name, self.options["kind"], self.options["dtype"]

    def __repr__(self):
        return f"{type(self).__name__}({self.name!r}, {self.dtype}, {self.options['optimizer']})"

    def __reduce__(self):
        raise TypeError("a table cannot be passed to another process: pass its name and open it on a connection there")

    def drop(self) -> None:
        """Drops the table for all workers: its rows are deleted when this worker's step ends, and its name may be used
        again."""
        self._native.drop(self.connection.timeout)

    def _asked(self, request, ask, result=None):
        """Sends the requests that ask() makes. Returns a ticket or, if the request waits, the result."""
        self.connection._ready()
        thread = None if request.callback is None else self.connection._callbacks()
        ticket = Ticket(self.connection, ask(), result)
        if thread is not None:
            thread.begin(request.callback, ticket)
        return ticket.wait() if request.wait else ticket

    def _memory(self, values, shape, what, request):
        """(memory of pushed values, their dtype). In BSP values are sent at the end of the step, so a push without a ticket
        copies them."""
        self.connection._check_push(self)
        memory, dtype = _arrays.values_in(values, self.dtype, shape, what)
        return _arrays.copied(memory) if request.wait and self._in_rounds() else memory, dtype

    def _key_request(self, request, keys, lengths, pushed, wanted, dtype, set=False, version=None):
        """A function that sends the request about these keys, with values of this dtype."""
        form = request.form(dtype, set)
        return lambda: [self._native.keys(keys, lengths, pushed, wanted, form, version, request.expect())]

    def _in_rounds(self):
        return self.options["consistency"] == "bsp"

    def _pushed(self, request, ask):
        """Pushes; with rounds it does not wait, since the push is sent at the end of the step."""
        if not request.wait:
            return self._asked(request, ask)
        request.wait = not self._in_rounds()
        self._asked(request, ask)
        return None

    def _refuse_to_wait(self, request):
        if request.wait and self._in_rounds():
            raise ValueError("push_pull of a BSP table has its result after the step: call it with wait=False, and "
                             "wait for the ticket after end()")


class _Request:
    """How a request is made: whether it waits, its callback, its priority, whether a push with a value that is not
    finite is left out, and the learning rate of a push."""

    __slots__ = "wait", "priority", "callback", "skips", "rate"

    def __init__(self, wait, priority, done, skip_nonfinite=False, lr=None):
        self.wait, self.callback = wait and done is None, None if done is None else Callback(done)
        self.priority = _table_options.whole("priority", priority, 255) if priority != 0 else 0
        self.skips = _table_options.truth("skip_nonfinite", skip_nonfinite) if skip_nonfinite is not False else False
        self.rate = 0.0 if lr is None else _table_options.number("lr", lr)

    def form(self, dtype, set=False):
        """What the extension needs to know, for values of this dtype."""
        return self.priority, set, self.skips, _table_options.dtype_number(dtype), self.rate

    def expect(self):
        """The callback, which expects one more request; None: no callback."""
        return None if self.callback is None else self.callback.expect()


class Version:
    """The state that a conditional pull has received. The next pull with it transfers only slots in which the table has
    changed since; `out` keeps the rest. So a version belongs to one list of keys, or to the arrays of a table, and to one
    piece of memory."""

    def __init__(self, natives):
        self._natives = natives

    @property
    def changed(self) -> bool:
        """Whether the last pull has written any value."""
        return any(native.changed for native in self._natives.values())

    def __repr__(self):
        return f"Version({'changed' if self.changed else 'unchanged'})"


def _native_version(version, out, key=None):
    if version is None:
        return None
    if not isinstance(version, Version) or key not in version._natives:
        raise TypeError(f"version is {type(version).__name__}: it must be what version() of this table returns")
    if out is None:
        raise ValueError("a pull with a version writes the changes to `out`, which has the rest: give out=")
    return version._natives[key]


def _refuse_old(others):
    _old_names.refuse("pull()", others, ("out", "wait", "priority", "version", "done"))


@public
class SparseTable(Table):
    """A table with 64-bit keys and rows of `dim` numbers; with dim 1 a row is one number.

    Keys are an array or a list, of any shape, in any order. Values that are pushed to a repeated key are added up;
    `set` assigns the last one. With `wait=False` each method returns a Ticket at once; so it does with `done`, a
    function that is called with the ticket when the request has ended, by a thread of the connection, one after the
    other, so that it may wait, push and pull. Requests with a higher `priority`, up to 255, are sent before others that
    wait.

    Values of a table of floats are float32, float16 or bfloat16, also in `out`: the library converts them. With
    `skip_nonfinite` a push that contains a NaN or an infinity, also as it would be sent, is left out; in BSP with all pushes
    of this rank in the step (`Connection.skip`).

    `lr` of a push replaces the learning rate of the table's schedule, for this push; in BSP for the whole step, in which
    the lr of the lowest rank that gives one applies, and of a rank the last one.
    """

    def __init__(self, connection, native):
        super().__init__(connection, native)
        self.dim: int = self.options["dim"]

    def push(self, keys, values, *, wait: bool = True, priority: int = 0, done: Done = None,
             skip_nonfinite: bool = False, lr: float | None = None) -> Ticket | None:
        """Passes gradients, keys.shape + (dim,), to the optimizer and waits until they are applied. In BSP they are
        sent at the end of the step, so push does not wait."""
        return self._push(keys, values, _Request(wait, priority, done, skip_nonfinite, lr), False)

    def set(self, keys, values, *, wait: bool = True, priority: int = 0, done: Done = None) -> Ticket | None:
        """Assigns rows without the optimizer. In BSP the rows of the last rank count."""
        return self._push(keys, values, _Request(wait, priority, done), True)

    def pull(self, keys, *, out: Any = None, wait: bool = True, priority: int = 0, version: Version | None = None,
             done: Done = None, **others: Any) -> Any:
        """The rows, keys.shape + (dim,): a torch tensor if the keys are one, otherwise a NumPy array; or `out`, if that
        is given.

        A row that was never pushed to has its initial value. In BSP rows are as the previous steps have left them. With
        a `version`, the changes since the last pull with it are written to `out`; the keys must ascend.
        """
        if others:
            _refuse_old(others)
        request = _Request(wait, priority, done)
        memory, shape = _arrays.keys_in(keys)
        shape = self._shape(shape)
        native_version = _native_version(version, out)
        dtype = self.dtype
        if out is None:
            into, out = _arrays.empty(dtype, shape, keys)
        else:
            into, dtype = _arrays.out_memory(out, dtype, shape, "out")
        return self._asked(request, self._key_request(request, memory, None, None, into, dtype, version=native_version),
                           out)

    def push_pull(self, keys, values, *, wait: bool = True, priority: int = 0, done: Done = None,
                  skip_nonfinite: bool = False, lr: float | None = None) -> Any:
        """Pushes and pulls the resulting rows in one request; they have the dtype of the values."""
        request = _Request(wait, priority, done, skip_nonfinite, lr)
        self._refuse_to_wait(request)
        memory, shape = _arrays.keys_in(keys)
        shape = self._shape(shape)
        given, dtype = self._memory(values, shape, "values", request)
        into, out = _arrays.empty(dtype, shape, values)
        return self._asked(request, self._key_request(request, memory, None, given, into, dtype), out)

    def version(self) -> Version:
        """A Version for pulls of one list of keys into one array."""
        return Version({None: self._native.mark()})

    # ---- Ranges of keys, for ordered tables.

    def push_range(self, first: int, values, *, wait: bool = True, priority: int = 0, done: Done = None,
                   skip_nonfinite: bool = False, lr: float | None = None) -> Ticket | None:
        """Passes gradients, (count, dim), of the keys first … first + count - 1 to the optimizer. Only the first key is
        sent."""
        return self._push_range(first, values, _Request(wait, priority, done, skip_nonfinite, lr), False)

    def set_range(self, first: int, values, *, wait: bool = True, priority: int = 0,
                  done: Done = None) -> Ticket | None:
        """Assigns rows to the keys first … first + count - 1, without the optimizer."""
        return self._push_range(first, values, _Request(wait, priority, done), True)

    def push_pull_range(self, first: int, values, *, wait: bool = True, priority: int = 0, done: Done = None,
                        skip_nonfinite: bool = False, lr: float | None = None) -> Any:
        """Pushes to the keys first … first + count - 1 and pulls the resulting rows, in one request; they have the dtype of
        the values."""
        request = _Request(wait, priority, done, skip_nonfinite, lr)
        self._refuse_to_wait(request)
        first, given, dtype = self._range(first, values, request)
        into, out = _arrays.empty(dtype, self._shape((len(values),)), values)
        form = request.form(dtype)
        return self._asked(request, lambda: [self._native.push_range(first, given, into, form, request.expect())], out)

    def pull_range(self, first: int = 0, last: int = _KEY_MAX, *, limit: int | None = None,
                   priority: int = 0) -> tuple[Any, Any]:
        """(keys, rows) of the keys from `first` to `last`, both included, that have rows, in ascending order.
        A range of more than 8 MB in a slot is read in parts, one after the other. ValueError: there are more than
        `limit`."""
        request = _Request(True, priority, None)
        first, last = _table_options.whole("first", first, _KEY_MAX), _table_options.whole("last", last, _KEY_MAX)
        if first > last:
            raise ValueError(f"keys {first} to {last}: not a range")
        first, last = max(first, self.options["first_key"]), min(last, self.options["last_key"] or _KEY_MAX)
        room = _RANGE_ROOM if limit is None else _table_options.whole("limit", limit, 2**32)
        self.connection._ready()
        while first <= last:
            keys = _arrays.empty_keys(room)
            into, rows = _arrays.empty(self.dtype, self._shape((room,)))
            native = self._native.range(first, last, keys, into, request.form(self.dtype))
            try:
                native.wait(self.connection.timeout)
            except ValueError:
                if native.count <= room:
                    raise
                if limit is not None:
                    raise ValueError(f"keys {first} to {last} have more rows than limit={limit}") from None
                room *= 8
                continue
            return keys[:native.count], rows[:native.count]
        return _arrays.empty_keys(0), _arrays.empty(self.dtype, self._shape((0,)))[1]

    def _range(self, first, values, request):
        if not hasattr(values, "__len__"):
            raise TypeError(f"values must be an array or a list with one row for each key, not {values!r:.80}")
        return (_table_options.whole("first", first, _KEY_MAX),
                *self._memory(values, self._shape((len(values),)), "values", request))

    def _push_range(self, first, values, request, set):
        first, memory, dtype = self._range(first, values, request)
        form = request.form(dtype, set)
        return self._pushed(request, lambda: [self._native.push_range(first, memory, None, form, request.expect())])

    def _shape(self, shape):
        return shape if self.dim == 1 else (*shape, self.dim)

    def _push(self, keys, values, request, set):
        memory, shape = _arrays.keys_in(keys)
        values, dtype = self._memory(values, self._shape(shape), "values", request)
        return self._pushed(request, self._key_request(request, memory, None, values, None, dtype, set))


@public
class VectorTable(Table):
    """A table with 64-bit keys and arrays, each as long as the longest that was pushed to it. Keys are in any order,
    each once."""

    def push(self, keys, vectors, *, wait: bool = True, priority: int = 0, done: Done = None,
             skip_nonfinite: bool = False) -> Ticket | None:
        """Passes gradients to the optimizer: a list of arrays of one dimension, one for each key, all of one dtype."""
        return self._push(keys, vectors, _Request(wait, priority, done, skip_nonfinite), False)

    def set(self, keys, vectors, *, wait: bool = True, priority: int = 0, done: Done = None) -> Ticket | None:
        """Assigns arrays without the optimizer."""
        return self._push(keys, vectors, _Request(wait, priority, done), True)

    def pull(self, keys, lengths=None, *, wait: bool = True, priority: int = 0, done: Done = None) -> Any:
        """A list of arrays of these lengths; elements beyond a stored array are 0. Without `lengths` the arrays are as
        long as the stored ones, and empty for keys to which nothing was pushed; a key may then be repeated."""
        request = _Request(wait, priority, done)
        memory, (count,) = _flat(keys)
        if lengths is None:
            return self._asked(request, lambda: [self._native.vectors(memory, request.form(self.dtype), request.expect())],
                               lambda native: self._taken(native, keys))
        lengths = _arrays.lengths_in(lengths, count)
        into, vectors = self._empty(lengths, self.dtype, keys)
        return self._asked(request, self._key_request(request, memory, lengths, None, into, self.dtype), vectors)

    def push_pull(self, keys, vectors, *, wait: bool = True, priority: int = 0, done: Done = None,
                  skip_nonfinite: bool = False) -> Any:
        """Pushes and pulls the resulting arrays, as long as those that were pushed and of their dtype, in one request."""
        request = _Request(wait, priority, done, skip_nonfinite)
        self._refuse_to_wait(request)
        memory, lengths, given, dtype = self._joined(keys, vectors)
        into, found = self._empty(lengths, dtype, next(iter(vectors), None))
        return self._asked(request, self._key_request(request, memory, lengths, given, into, dtype), found)

    def _taken(self, native, like):
        """The vectors of a finished request that did not know their lengths."""
        into, vectors = self._empty(native.lengths, self.dtype, like)
        native.copy(into)
        return vectors

    def _empty(self, lengths, dtype, like):
        """Memory for vectors of these lengths, and the vectors."""
        into, flat = _arrays.empty(dtype, (sum(lengths),), like)
        ends = [0]
        for length in lengths:
            ends.append(ends[-1] + length)
        return into, [flat[begin:end] for begin, end in zip(ends, ends[1:])]

    def _joined(self, keys, vectors):
        """Keys, lengths, the concatenated values, and their dtype."""
        self.connection._check_push(self)
        memory, (count,) = _flat(keys)
        if any(not hasattr(vector, "__len__") for vector in vectors):
            raise TypeError("vectors must be a list of arrays or lists, one for each key")
        lengths = _arrays.lengths_in([len(vector) for vector in vectors], count, "vectors")
        found = {number: _arrays.values_in(vector, self.dtype, (length,), f"vector {number}")
                 for number, (vector, length) in enumerate(zip(vectors, lengths)) if length > 0}
        dtype = next((dtype for _, dtype in found.values()), self.dtype)
        other = next((number for number in found if found[number][1] != dtype), None)
        if other is not None:
            raise TypeError(f"vector {other} is {found[other][1]}, and those before it are {dtype}: the vectors of a "
                            "request have one dtype")
        return memory, lengths, b"".join(memoryview(part).cast("B") for part, _ in found.values()), dtype

    def _push(self, keys, vectors, request, set):
        memory, lengths, given, dtype = self._joined(keys, vectors)
        return self._pushed(request, self._key_request(request, memory, lengths, given, None, dtype, set))


def _flat(keys):
    memory, shape = _arrays.keys_in(keys)
    if len(shape) != 1:
        raise ValueError(f"keys of vectors must be a list, not of the shape {list(shape)}")
    return memory, shape


@public
class DenseTable(Table):
    """A table of named arrays of fixed shapes: the parameters of a model."""

    def __init__(self, connection, native):
        super().__init__(connection, native)
        self.shapes: dict[str, tuple[int, ...]] = dict(self.options["arrays"])
        self._numbers = {name: number for number, name in enumerate(self.shapes)}

    def push(self, gradients: dict[str, Any], *, wait: bool = True, priority: int = 0, done: Done = None,
             skip_nonfinite: bool = False, lr: float | None = None) -> Ticket | None:
        """Passes {name: gradient} of some or all arrays to the optimizer and waits until they are applied. In BSP they
        are sent at the end of the step, so push does not wait. With `skip_nonfinite` a gradient that contains a NaN or an
        infinity is left out; in BSP with all pushes of this rank in the step. `lr` replaces the learning rate of the
        table's schedule for this push, as in a SparseTable."""
        return self._push(gradients, _Request(wait, priority, done, skip_nonfinite, lr), False)

    def set(self, values: dict[str, Any], *, wait: bool = True, priority: int = 0, done: Done = None) -> Ticket | None:
        """Assigns {name: array} without the optimizer. In BSP the arrays of the last rank count."""
        return self._push(values, _Request(wait, priority, done), True)

    def push_pull(self, gradients: dict[str, Any], *, wait: bool = True, priority: int = 0, done: Done = None,
                  skip_nonfinite: bool = False, lr: float | None = None) -> Any:
        """Pushes {name: gradient} and pulls the resulting arrays: {name: array} of the same names and dtypes."""
        request = _Request(wait, priority, done, skip_nonfinite, lr)
        self._refuse_to_wait(request)
        memories = self._memories(gradients, request)
        made = {name: _arrays.empty(dtype, self.shapes[name], gradients[name]) for name, (_, dtype) in memories.items()}
        places = {name: (made[name][0], dtype) for name, (_, dtype) in memories.items()}
        return self._asked(request, self._array_requests(request, memories, places),
                           {name: pair[1] for name, pair in made.items()})

    def pull(self, names: list[str] | None = None, *, out: dict[str, Any] | None = None, wait: bool = True,
             priority: int = 0, version: Version | None = None, done: Done = None, **others: Any) -> Any:
        """{name: array} of all arrays, or of the named ones; or `out`, into whose arrays the values are written: with a
        `version`, the changes since the last pull with it."""
        if others:
            _refuse_old(others)
        request = _Request(wait, priority, done)
        if names is not None and (isinstance(names, str) or not hasattr(names, "__iter__")):
            raise TypeError(f"names must be a list of the names of arrays, not {names!r}")
        versions = {name: _native_version(version, out, name) for name in out or ()}
        if version is not None and out is None:
            _native_version(version, out, next(iter(self.shapes)))
        if out is None:
            made = {name: _arrays.empty(self.dtype, self._shape(name))
                    for name in (self.shapes if names is None else names)}
            places = {name: (pair[0], self.dtype) for name, pair in made.items()}
            out = {name: pair[1] for name, pair in made.items()}
        else:
            places = {name: _arrays.out_memory(array, self.dtype, self._shape(name), f"array {name!r}")
                      for name, array in out.items()}
        return self._asked(request, self._array_requests(request, {}, places, versions=versions), out)

    def version(self) -> Version:
        """A Version for pulls of these arrays into the same memory."""
        return Version({name: self._native.mark() for name in self.shapes})

    def _shape(self, name):
        if name not in self.shapes:
            raise KeyError(f"table {self.name!r} has no array {name!r}"
                           + (did_you_mean.hint(name, self.shapes) or f": {', '.join(self.shapes)}"))
        return self.shapes[name]

    def _array_requests(self, request, pushed, wanted, set=False, versions={}):
        """A function that sends a request for each array; `pushed` and `wanted` have (memory, dtype) by name."""
        none = None, None
        return lambda: [
            self._native.array(self._numbers[name], 0, pushed.get(name, none)[0], wanted.get(name, none)[0],
                               request.form((wanted or pushed)[name][1], set), versions.get(name), request.expect())
            for name in wanted or pushed]

    def _memories(self, arrays, request):
        if not isinstance(arrays, dict):
            raise TypeError(f"a dense table takes {{name: array}}, not {type(arrays).__name__}; its arrays are "
                            f"{', '.join(self.shapes)}")
        return {name: self._memory(array, self._shape(name), f"array {name!r}", request) for name, array in arrays.items()}

    def _push(self, arrays, request, set):
        memories = self._memories(arrays, request)
        return self._pushed(request, self._array_requests(request, memories, {}, set))
