"""Local mode: tasks and methods run in the program itself, at the call, so that a debugger can follow them.

Objects are the runtime's, which runs as always but executes no task. An exception fails the reference, as in other
modes.
"""

import os

from miniray import _core, exceptions
from miniray._actors import generators as _generators, methods as _methods
from miniray._core_api import (async_refs as _async_refs, error_value as _error_value, errors as _errors,
                               local_mode as _local_mode)


def run_function(function, num_returns, args, kwargs):
    """Runs a task in this process: `.remote()` in local mode."""
    return _results(lambda: function(*_values(args), **dict(zip(kwargs, _values(kwargs.values())))),
                    getattr(function, "__name__", "task"), num_returns)


def run_method(handle, name, num_returns, again, args, kwargs):
    """Runs a method in this process; `again` is passed before the arguments, if it is not None."""
    args = args if again is None else (again, *args)

    def call():
        running = _local_mode.state().running
        method = _methods.found_method(_local_mode.instance_of(handle), name)
        running.append(handle)
        try:
            return method(*_values(args), **dict(zip(kwargs, _values(kwargs.values()))))
        finally:
            running.pop()
    return _results(call, name.partition("@")[0], num_returns)


def _values(given):
    return [_core.get(each) if isinstance(each, _core.ObjectRef) else each for each in given]


def _results(call, name, num_returns):
    try:
        result = _awaited(call())
        if num_returns < 0:
            return _generated(result, name)
        if hasattr(result, "__next__"):
            result = _generators.several(result, max(num_returns, 1), name)
            result = result[0] if num_returns <= 1 else result
        several = [result] if num_returns <= 1 else list(result)
        if num_returns > 1 and len(several) != num_returns:
            raise ValueError(f"Task returned {len(several)} objects, but num_returns={num_returns}")
        refs = [_put(each) for each in several]
    except Exception as error:
        refs = [_failed(error, name) for _ in range(max(num_returns, 1))]
    return None if num_returns == 0 else refs[0] if num_returns == 1 else refs


class _Itself:
    """Pickled, becomes the reference that it holds when it is read from the store."""

    def __init__(self, ref):
        self.ref = ref

    def __reduce__(self):
        return _given, (self.ref,)


def _given(ref):
    return ref


def _put(result):
    """Stores the result of a task, which may be a reference."""
    return _core.put(_Itself(result) if isinstance(result, _core.ObjectRef) else result)


async def _all_of(items):
    """The values of an async generator, up to its exception."""
    found = []
    try:
        async for item in items:
            found.append(item)
    except Exception as error:
        return _raising(found, error)
    return found


def _raising(found, error):
    yield from found
    raise error


def _generated(items, name):
    refs = []
    try:
        for item in _awaited(_all_of(items)) if hasattr(items, "__anext__") else items:
            refs.append(_put(item))
    except Exception as error:
        refs.append(_failed(error, name))
    return _generators.ReadyRefGenerator(refs)


def _awaited(result):
    if not _async_refs.is_awaited(result):
        return result
    import asyncio
    import concurrent.futures
    with concurrent.futures.ThreadPoolExecutor(1) as thread:  # an event loop may be running in this thread
        return thread.submit(asyncio.run, result).result()


def _failed(error, name):
    """A reference that raises this error."""
    return _core.put(_error_value.Raised(error, name))


def create(cls, methods, plan, args, kwargs):
    """Makes an instance of the class in this process; its handle."""
    state = _local_mode.state()
    name, space = plan[5], plan[6]
    if name is not None and (space, name) in state.names:
        raise exceptions.ActorAlreadyExistsError(_errors.name_is_taken(name))
    key = os.urandom(16)
    handle = _core.local_actor(key, cls.__name__, methods)
    state.running.append(handle)
    try:
        state.actors[key] = cls(*_values(args), **dict(zip(kwargs, _values(kwargs.values()))))
    except Exception as error:
        state.actors[key] = exceptions.ActorDiedError(f"{cls.__name__}: could not be created: {error!r}")
    finally:
        state.running.pop()
    if name is not None:
        state.names[space, name] = handle
    return handle
