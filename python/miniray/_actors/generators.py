"""Generators as tasks and methods: the values that they yield arrive as references while they run."""

from miniray import _core
from miniray._actors import methods as _methods
from miniray._core_api import options as _options
from miniray._core_api import error_value as _error_value
from miniray._core_api.tracebacks import public


@public
class ObjectRefGenerator:
    """The result of a call with `num_returns="streaming"`: `for` and `async for` iterate over its references.

    An exception in the generator is raised by the last reference. A generator whose ObjectRefGenerator is dropped is
    notified that the rest is not needed.
    """

    def __init__(self, ref):
        self._ref = ref

    def __iter__(self):
        return self

    def __next__(self):
        return _core.stream_next(self._ref, None)

    def _next_sync(self, timeout_s=None):
        """The next reference; None: not ready within `timeout_s`."""
        return _core.stream_next(self._ref, timeout_s)

    def _peek(self):
        """The next reference before it is ready; the reference after the last one fails."""
        return _core.stream_peek(self._ref)

    def __aiter__(self):
        return self

    async def __anext__(self):
        from miniray._core_api import async_refs as _async_refs
        await _async_refs.there(self._peek())
        try:
            return _core.stream_next(self._ref, 0)
        except StopIteration:
            raise StopAsyncIteration from None

    def next_ready(self):
        """Whether the next reference, or the end, is ready."""
        return bool(_core.wait([self._peek()], timeout=0)[0])

    def is_finished(self):
        """Whether all references have been returned."""
        return self.next_ready() and _core.stream_ended(self._ref)

    def completed(self):
        """The reference of the whole call: ready when the generator has ended, with its exception if it raised."""
        return self._ref

    def task_id(self):
        """The id of the task that runs the generator."""
        return self._ref.task_id()

    def close(self):
        """Cancels the generator."""
        _core.cancel(self._ref, False, True)

    def __reduce__(self):
        raise TypeError("an ObjectRefGenerator cannot be passed to another process: pass the ObjectRefs that it yields")

    def __repr__(self):
        return f"ObjectRefGenerator({self._ref.hex()})"


class ReadyRefGenerator(ObjectRefGenerator):
    """Iterates over references that are ready already (local mode)."""

    def __init__(self, refs):
        self._refs = iter(refs)

    def __next__(self):
        return next(self._refs)

    async def __anext__(self):
        for ref in self._refs:
            return ref
        raise StopAsyncIteration


generator_of = ObjectRefGenerator


class DynamicObjectRefGenerator:
    """The value of a call with `num_returns="dynamic"`: the references of all yielded values."""

    def __init__(self, refs):
        self._refs = refs

    def __iter__(self):
        return iter(self._refs)

    def __len__(self):
        return len(self._refs)

    def __repr__(self):
        return f"DynamicObjectRefGenerator({self._refs})"


# ---- In the worker.


def collect(generator, name="generator"):
    """The references of all values of a generator. The last reference raises the generator's exception, if any."""
    refs = []
    try:
        for each in iterator(generator):
            refs.append(_core.put(each))
    except Exception as error:
        refs.append(_core.put(_error_value.Raised(error, name)))
    return DynamicObjectRefGenerator(refs)


def several(generator, count, name):
    """The first `count` values of a generator. A value that was not yielded raises, where it is read, the generator's
    exception or ValueError."""
    values = []
    try:
        for value in iterator(generator):
            if len(values) == count:
                break
            values.append(value)
        if len(values) < count:
            raise ValueError(f"Task returned {len(values)} objects, but num_returns={count}")
    except Exception as error:
        if not values:
            raise
        values += [_error_value.Raised(error, name) for _ in range(count - len(values))]
    return values


def single(generator, name, actor):
    """The value of a generator whose caller asks for one object: the first value, or with "dynamic" the references
    of all. `actor` is the actor of the method, or None."""
    name, _, dynamic, _ = _options.of_call(name)
    instance = actor.instance if hasattr(type(actor), "__miniray_host__") else actor
    options = _methods.options_of(getattr(type(instance), name, None))
    if dynamic or options.get("num_returns") == "dynamic":
        return collect(generator, name)
    if getattr(generator, "gi_code", None) is not None and generator.gi_code.co_name == "<genexpr>":
        raise TypeError(f"{name}() returned a generator, which cannot be sent: return a list, or yield in {name}() itself")
    return several(generator, 1, name)[0]


class Dynamic:
    """Sent instead of a function with `num_returns="dynamic"`."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        return collect(iterator(self.function(*args, **kwargs)))


def iterator(result):
    """An iterator over the result of a function that is called with num_returns="streaming"."""
    if hasattr(result, "__next__"):
        return result
    if hasattr(result, "__anext__"):
        return _driven(result)
    raise TypeError(f"the function returned {type(result).__name__}, but num_returns=\"streaming\" needs a generator: yield "
                    "the results")


def _driven(generator):
    """An async generator as a plain one, with an event loop of its own."""
    import asyncio
    loop = asyncio.new_event_loop()
    try:
        while True:
            try:
                yield loop.run_until_complete(generator.__anext__())
            except StopAsyncIteration:
                return
    finally:
        loop.run_until_complete(generator.aclose())
        loop.close()


def give(reply, result):
    """Sends the values of a method's generator, in its thread."""
    for item in iterator(result):
        if not reply.give(item):
            return


async def give_async(reply, result):
    """Sends the values of a method's generator in an event loop, without blocking it."""
    import asyncio
    if not hasattr(result, "__anext__"):
        result = _stepped(iterator(result))
    pause = 0.0005
    async for item in result:
        while not reply.give_now(item):
            if reply.cancelled():
                await result.aclose()
                return
            await asyncio.sleep(pause)  # grows by a quarter, so that a slow consumer waits only a little longer
            pause = min(1.25 * pause, 0.25)
        pause = 0.0005


async def _stepped(items):
    for item in items:
        yield item
