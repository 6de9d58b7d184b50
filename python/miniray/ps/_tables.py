"""Tables as Python sees them, one class for each kind, and the tickets of their requests."""

from __future__ import annotations

from typing import Any

from miniray.ps import _arrays


_RANGE_ROOM = 1024  # rows that a range is asked for at first


class Ticket:
    """A request that may be under way. What it reads and writes stays alive with it; it must not be changed meanwhile."""

    def __init__(self, connection, natives, result=None):
        self._connection, self._natives, self._result = connection, natives, result

    def wait(self, timeout: float | None = None) -> Any:
        """What was pulled; None of a push. Raises what it failed with."""
        for native in self._natives:
            native.wait(self._connection._patience(timeout))
        return self._result

    @property
    def done(self) -> bool:
        """Whether it is over, well or not."""
        return all(native.done for native in self._natives)

    def __repr__(self):
        return f"Ticket({'done' if self.done else 'under way'})"


def wrapped(connection, native):
    kinds = {"sparse": SparseTable, "vectors": VectorTable, "dense": DenseTable}
    return kinds[native.options["kind"]](connection, native)


class Table:
    """Of any kind. `connection.table()` gives them."""

    def __init__(self, connection, native):
        self.connection, self._native = connection, native
        self.options = native.options
        self.name, self.kind, self.dtype = native.name, self.options["kind"], self.options["dtype"]

    def __repr__(self):
        return f"{type(self).__name__}({self.name!r}, {self.dtype}, {self.options['optimizer']})"

    def __reduce__(self):
        raise TypeError("a table belongs to its connection: pass its name, and open it over there")

    def drop(self) -> None:
        """For everybody: what is in it is gone when this worker's step ends, and its name is free."""
        self._native.drop(self.connection.timeout)
        self.connection._let_go()

    def _memory(self, values, shape, what, wait):
        """Of what is pushed. In BSP that goes with the end of the step: a push that is not waited for, and gives no
        ticket, has a copy."""
        memory = _arrays.values_in(values, self.dtype, shape, what)
        return _arrays.copied(memory) if wait and self._in_rounds() else memory

    def _in_rounds(self):
        return self.options["consistency"] == "bsp"

    def _pushed(self, natives, wait):
        ticket = Ticket(self.connection, natives)
        if not wait:
            return ticket
        return None if self._in_rounds() else ticket.wait()

    def _pulled(self, natives, result, wait):
        ticket = Ticket(self.connection, natives, result)
        return ticket.wait() if wait else ticket

    def _refuse_to_wait(self, wait):
        if wait and self._in_rounds():
            raise ValueError("in BSP what a push_pull pulls is there when the step has ended: ask with wait=False, and "
                             "wait for the ticket after end()")


def _priority(priority):
    if not 0 <= priority <= 255:
        raise ValueError(f"the priority is {priority}: it is a number from 0 to 255")
    return priority


class Mark:
    """What a conditional pull has seen: of slots in which nothing of the table has changed since the last pull with this
    mark nothing is sent, and `out` keeps what it has. So a mark belongs to one list of keys, or to the arrays of a
    table, and to one piece of memory."""

    def __init__(self, natives):
        self._natives = natives

    @property
    def changed(self) -> bool:
        """Whether its last pull has written anything."""
        return any(native.changed for native in self._natives.values())

    def __repr__(self):
        return f"Mark({'changed' if self.changed else 'unchanged'})"


def _native_mark(mark, out, key=None):
    if mark is None:
        return None
    if not isinstance(mark, Mark) or key not in mark._natives:
        raise TypeError("a mark is what mark() of this table gives")
    if out is None:
        raise ValueError("a pull with a mark writes what has changed to `out`, which has the rest")
    return mark._natives[key]


class SparseTable(Table):
    """64-bit key → row of `dim` numbers; of one number, if dim is 1.

    Keys are an array or a list, of any shape, in any order. A key that is there several times has what is pushed to it
    added up, or, by `set`, the last one assigned. With `wait=False` each method gives a Ticket at once. What has the
    higher `priority`, up to 255, goes first where something waits.
    """

    def __init__(self, connection, native):
        super().__init__(connection, native)
        self.dim: int = self.options["dim"]

    def push(self, keys, values, *, wait: bool = True, priority: int = 0) -> Ticket | None:
        """Gives gradients, keys.shape + (dim,), to the optimizer; waits until they are applied. In BSP they go with the
        end of the step, so nothing is waited for."""
        return self._push(keys, values, wait, priority, False)

    def set(self, keys, values, *, wait: bool = True, priority: int = 0) -> Ticket | None:
        """Assigns rows, past the optimizer. In BSP the last rank's count."""
        return self._push(keys, values, wait, priority, True)

    def pull(self, keys, *, out: Any = None, wait: bool = True, priority: int = 0, mark: Mark | None = None) -> Any:
        """The rows, keys.shape + (dim,): of torch if the keys are, else of NumPy; or `out`, if that is given.

        A row that was never pushed to is as it would begin. In BSP they are as the steps before have left them. With a
        `mark`, keys that ascend, and `out`, only what has changed since the last pull with it is sent.
        """
        memory, shape = _arrays.keys_in(keys)
        shape = self._shape(shape)
        native_mark = _native_mark(mark, out)
        if out is None:
            into, out = _arrays.empty(self.dtype, shape, keys)
        else:
            into = _arrays.out_memory(out, self.dtype, shape, "out")
        self.connection._ready()
        native = self._native.keys(memory, None, None, into, _priority(priority), False, native_mark)
        return self._pulled([native], out, wait)

    def mark(self) -> Mark:
        """For pulls of one list of keys into one array."""
        return Mark({None: self._native.mark()})

    # ---- Ranges, of a table that is ordered.

    def push_range(self, first: int, values, *, wait: bool = True, priority: int = 0) -> Ticket | None:
        """Gives gradients, (count, dim), of the keys first … first + count - 1 to the optimizer. Only the first of the
        keys is sent."""
        return self._push_range(first, values, wait, priority, False)

    def set_range(self, first: int, values, *, wait: bool = True, priority: int = 0) -> Ticket | None:
        """Assigns rows to the keys first … first + count - 1, past the optimizer."""
        return self._push_range(first, values, wait, priority, True)

    def pull_range(self, first: int = 0, last: int = 2**64 - 1, *, limit: int | None = None,
                   priority: int = 0) -> tuple[Any, Any]:
        """(keys, rows) of the keys from first to last, both included, that have rows, ascending. ValueError: there are
        more than `limit`, or than an answer has room for (32 MB)."""
        self.connection._ready()
        first, last = max(first, self.options["first_key"]), min(last, self.options["last_key"])
        room = _RANGE_ROOM if limit is None else limit
        while True:
            keys = _arrays.empty_keys(room)
            into, rows = _arrays.empty(self.dtype, self._shape((room,)))
            native = self._native.range(first, last, keys, into, _priority(priority))
            try:
                native.wait(self.connection.timeout)
            except ValueError:
                if limit is not None or native.count <= room:
                    raise
                room *= 8
                continue
            return keys[:native.count], rows[:native.count]

    def _push_range(self, first, values, wait, priority, set):
        memory = self._memory(values, self._shape((len(values),)), "values", wait)
        self.connection._ready()
        return self._pushed([self._native.push_range(first, memory, _priority(priority), set)], wait)

    def push_pull(self, keys, values, *, wait: bool = True, priority: int = 0) -> Any:
        """Pushes, and pulls what came of it, in one request."""
        memory, shape = _arrays.keys_in(keys)
        shape = self._shape(shape)
        self._refuse_to_wait(wait)
        given = self._memory(values, shape, "values", wait)
        into, out = _arrays.empty(self.dtype, shape, values)
        self.connection._ready()
        return self._pulled([self._native.keys(memory, None, given, into, _priority(priority), False)], out, wait)

    def _shape(self, shape):
        return shape if self.dim == 1 else (*shape, self.dim)

    def _push(self, keys, values, wait, priority, set):
        memory, shape = _arrays.keys_in(keys)
        values = self._memory(values, self._shape(shape), "values", wait)
        self.connection._ready()
        return self._pushed([self._native.keys(memory, None, values, None, _priority(priority), set)], wait)


class VectorTable(Table):
    """64-bit key → array, as long as the longest that was pushed to it. Keys are in any order, each once."""

    def push(self, keys, vectors, *, wait: bool = True, priority: int = 0) -> Ticket | None:
        """`vectors` is a list of arrays of one dimension, one for each key."""
        return self._push(keys, vectors, wait, priority, False)

    def set(self, keys, vectors, *, wait: bool = True, priority: int = 0) -> Ticket | None:
        """Assigns, past the optimizer."""
        return self._push(keys, vectors, wait, priority, True)

    def pull(self, keys, lengths, *, wait: bool = True, priority: int = 0) -> Any:
        """A list of arrays of these lengths; what a vector does not have is 0."""
        memory, (count,) = _flat(keys)
        lengths = _arrays.lengths_in(lengths, count)
        into, flat = _arrays.empty(self.dtype, (sum(lengths),), keys)
        ends = [0]
        for length in lengths:
            ends.append(ends[-1] + length)
        vectors = [flat[begin:end] for begin, end in zip(ends, ends[1:])]
        self.connection._ready()
        return self._pulled([self._native.keys(memory, lengths, None, into, _priority(priority), False)], vectors, wait)

    def _push(self, keys, vectors, wait, priority, set):
        memory, (count,) = _flat(keys)
        lengths = _arrays.lengths_in([len(vector) for vector in vectors], count)
        parts = [memoryview(_arrays.values_in(vector, self.dtype, (length,), f"vector {number}")).cast("B")
                 for number, (vector, length) in enumerate(zip(vectors, lengths)) if length > 0]
        self.connection._ready()
        native = self._native.keys(memory, lengths, b"".join(parts), None, _priority(priority), set)
        return self._pushed([native], wait)


def _flat(keys):
    memory, shape = _arrays.keys_in(keys)
    if len(shape) != 1:
        raise ValueError(f"keys of vectors are a list, not of the shape {list(shape)}")
    return memory, shape


class DenseTable(Table):
    """Arrays of fixed shapes, by name: the parameters of a model."""

    def __init__(self, connection, native):
        super().__init__(connection, native)
        self.shapes: dict[str, tuple[int, ...]] = dict(self.options["arrays"])
        self._numbers = {name: number for number, name in enumerate(self.shapes)}

    def push(self, gradients: dict[str, Any], *, wait: bool = True, priority: int = 0) -> Ticket | None:
        """Gives {name: gradient} to the optimizer, of some arrays or of all; waits until they are applied. In BSP they
        go with the end of the step, so nothing is waited for."""
        return self._push(gradients, wait, priority, False)

    def set(self, values: dict[str, Any], *, wait: bool = True, priority: int = 0) -> Ticket | None:
        """Assigns {name: array}, past the optimizer. In BSP the last rank's count."""
        return self._push(values, wait, priority, True)

    def pull(self, names: list[str] | None = None, *, out: dict[str, Any] | None = None, wait: bool = True,
             priority: int = 0, mark: Mark | None = None) -> Any:
        """{name: array} of all arrays, or of those that are named; or `out`, whose arrays are written: with a `mark`
        what has changed of them since the last pull with it."""
        marks = {name: _native_mark(mark, out, name) for name in out or ()}
        if out is None:
            made = {name: _arrays.empty(self.dtype, self._shape(name))
                    for name in (self.shapes if names is None else names)}
            places, out = {name: pair[0] for name, pair in made.items()}, {name: pair[1] for name, pair in made.items()}
        else:
            places = {name: _arrays.out_memory(array, self.dtype, self._shape(name), f"array {name!r}")
                      for name, array in out.items()}
        priority = _priority(priority)
        self.connection._ready()
        natives = [self._native.array(self._numbers[name], 0, None, place, priority, False, marks.get(name))
                   for name, place in places.items()]
        return self._pulled(natives, out, wait)

    def mark(self) -> Mark:
        """For pulls of these arrays into the same memory."""
        return Mark({name: self._native.mark() for name in self.shapes})

    def _shape(self, name):
        if name not in self.shapes:
            raise KeyError(f"table {self.name!r} has no array {name!r}: {', '.join(self.shapes)}")
        return self.shapes[name]

    def _push(self, arrays, wait, priority, set):
        if not isinstance(arrays, dict):
            raise TypeError(f"a dense table takes {{name: array}}, not {type(arrays).__name__}")
        memories = {name: self._memory(array, self._shape(name), f"array {name!r}", wait)
                    for name, array in arrays.items()}
        priority = _priority(priority)
        self.connection._ready()
        natives = [self._native.array(self._numbers[name], 0, memory, None, priority, set)
                   for name, memory in memories.items()]
        return self._pushed(natives, wait)
