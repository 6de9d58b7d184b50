"""Generators as tasks and methods: what they yield comes as references, one after another, while they run."""

from miniray import _core


class ObjectRefGenerator:
    """What a call with `num_returns="streaming"` gives: iterate it, with `for` or `async for`, for the references.

    An exception in the generator is that of the last reference. A generator that is dropped is told that nobody takes
    the rest.
    """

    def __init__(self, ref):
        self._ref = ref

    def __iter__(self):
        return self

    def __next__(self):
        return _core.stream_next(self._ref, None)

    def _next_sync(self, timeout_s=None):
        """The next reference, or None if it is not there in time."""
        return _core.stream_next(self._ref, timeout_s)

    def _peek(self):
        """The next reference before it is there; that of the end fails."""
        return _core.stream_peek(self._ref)

    def __aiter__(self):
        return self

    async def __anext__(self):
        from miniray import _await
        await _await.there(self._peek())
        try:
            return _core.stream_next(self._ref, 0)
        except StopIteration:
            raise StopAsyncIteration from None

    def next_ready(self):
        """Whether the next reference, or the end, is there."""
        return bool(_core.wait([self._peek()], timeout=0)[0])

    def is_finished(self):
        """Whether all references have been given out."""
        return self.next_ready() and _core.stream_ended(self._ref)

    def completed(self):
        """The reference of the whole: there when the generator has ended, with its exception if it has one."""
        return self._ref

    def task_id(self):
        return self._ref.task_id()

    def close(self):
        """Ends the generator."""
        _core.cancel(self._ref, False, True)

    def __reduce__(self):
        raise TypeError("an ObjectRefGenerator is iterated where it was asked for; its references may be sent")

    def __repr__(self):
        return f"ObjectRefGenerator({self._ref.hex()})"


class _Given(ObjectRefGenerator):
    """Of references that are there already (local_mode)."""

    def __init__(self, refs):
        self._refs = iter(refs)

    def __next__(self):
        return next(self._refs)

    async def __anext__(self):
        for ref in self._refs:
            return ref
        raise StopAsyncIteration


generator_of = ObjectRefGenerator


def of_list(refs):
    return _Given(refs)


class DynamicObjectRefGenerator:
    """The value of a call with `num_returns="dynamic"`: the references of all that was yielded."""

    def __init__(self, refs):
        self._refs = refs

    def __iter__(self):
        return iter(self._refs)

    def __len__(self):
        return len(self._refs)

    def __repr__(self):
        return f"DynamicObjectRefGenerator({self._refs})"


# ---- In the worker.


def collect(generator):
    """The value of a generator whose caller has asked for one object. An exception in it is that of the last reference."""
    refs = []
    try:
        for each in iterator(generator):
            refs.append(_core.put(each))
    except Exception as error:
        refs.append(_failed(error))
    return DynamicObjectRefGenerator(refs)


def _failed(error):
    """A reference that fails with this."""
    from miniray import _api, _errors
    _, detail = _errors.describe_failure(error, "generator")
    return _api.remake_function(_fail, {"num_cpus": 0, "max_retries": 0}).remote(detail)


def _fail(detail):
    from miniray import _errors
    _errors.raise_failure(0, "", detail)


class Dynamic:
    """What is sent instead of a function with `num_returns="dynamic"`."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        return collect(iterator(self.function(*args, **kwargs)))


class Single:
    """What is sent instead of a generator function with `num_returns=1`: the first that it yields is its value."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        for value in iterator(self.function(*args, **kwargs)):
            return value
        raise ValueError("Task returned 0 objects, but num_returns=1.")


def iterator(result):
    """What a function returned, to be given out one by one."""
    if hasattr(result, "__next__"):
        return result
    if hasattr(result, "__anext__"):
        return _driven(result)
    raise TypeError(f"a call with num_returns=\"streaming\" needs a generator, not {type(result).__name__}")


def _driven(generator):
    """An async generator as a plain one, in a loop of its own."""
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
    """Gives out what a method yields, in its thread."""
    for item in iterator(result):
        if not reply.give(item):
            return


async def give_async(reply, result):
    """The same in a loop, which goes on meanwhile."""
    import asyncio
    if not hasattr(result, "__anext__"):
        result = _stepped(iterator(result))
    pause = 0.0005
    async for item in result:
        while not reply.give_now(item):
            if reply.cancelled():
                await result.aclose()
                return
            await asyncio.sleep(pause)  # a quarter of the time that it waits already: who takes late gets it soon enough
            pause = min(1.25 * pause, 0.25)
        pause = 0.0005


async def _stepped(items):
    for item in items:
        yield item
