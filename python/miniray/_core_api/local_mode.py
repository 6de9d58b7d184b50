"""local_mode: tasks and actors run in the program itself, at the call, so that a debugger can follow them.

Objects are those of the runtime, which is there as ever; only nothing is run by it. An exception becomes that of the
reference, as it would elsewhere.
"""

import os

from miniray import _core, exceptions
from miniray._core_api import async_refs as _async_refs
from miniray._serialize import error_value as _error_value

_state = None  # of a program in local mode


class _State:
    def __init__(self):
        self.actors = {}  # id: instance, or the exception of its constructor
        self.names = {}  # (name space, name): handle
        self.running = []  # handles of the actors whose methods run, the innermost last


def is_on():
    return _state is not None


def switch(on):
    global _state
    _state = _State() if on else None
    _core.set_local(on)


# ---- Running.


def run_function(function, num_returns, args, kwargs):
    """What `.remote()` does instead."""
    return _results(lambda: function(*_values(args), **dict(zip(kwargs, _values(kwargs.values())))),
                    getattr(function, "__name__", "task"), num_returns)


def run_method(handle, name, num_returns, again, args, kwargs):
    """The same of a method; `again` goes before the arguments, if it is not None."""
    args = args if again is None else (again, *args)

    def call():
        from miniray._actors import methods as _methods
        method = _methods.found_method(_instance(handle), name)
        _state.running.append(handle)
        try:
            return method(*_values(args), **dict(zip(kwargs, _values(kwargs.values()))))
        finally:
            _state.running.pop()
    return _results(call, name.partition("@")[0], num_returns)


def _values(given):
    return [_core.get(each) if isinstance(each, _core.ObjectRef) else each for each in given]


def _results(call, name, num_returns):
    try:
        result = _awaited(call())
        if num_returns < 0:
            return _generated(result, name)
        if hasattr(result, "__next__"):
            from miniray._actors import generators as _generators
            result = _generators.several(result, max(num_returns, 1), name)
            result = result[0] if num_returns <= 1 else result
        several = [result] if num_returns <= 1 else list(result)
        if num_returns > 1 and len(several) != num_returns:
            raise ValueError(f"Task returned {len(several)} objects, but num_returns={num_returns}.")
        refs = [_put(each) for each in several]
    except Exception as error:
        refs = [_failed(error, name) for _ in range(max(num_returns, 1))]
    return None if num_returns == 0 else refs[0] if num_returns == 1 else refs


class _Itself:
    """Comes out of the store as the reference that it was given."""

    def __init__(self, ref):
        self.ref = ref

    def __reduce__(self):
        return _given, (self.ref,)


def _given(ref):
    return ref


def _put(result):
    """What a task gives back may be a reference, which put() does not take."""
    return _core.put(_Itself(result) if isinstance(result, _core.ObjectRef) else result)


async def _all_of(items):
    """What a generator with `await` in it gives, up to what it raises."""
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
    from miniray._actors import generators as _generators
    refs = []
    try:
        for item in _awaited(_all_of(items)) if hasattr(items, "__anext__") else items:
            refs.append(_put(item))
    except Exception as error:
        refs.append(_failed(error, name))
    return _generators.of_list(refs)


def _awaited(result):
    if not _async_refs.is_awaited(result):
        return result
    import asyncio
    import concurrent.futures
    with concurrent.futures.ThreadPoolExecutor(1) as thread:  # a loop may be running in this one
        return thread.submit(asyncio.run, result).result()


def _failed(error, name):
    """A reference that raises this."""
    return _core.put(_error_value.Raised(error, name))


# ---- Actors.


def create(cls, methods, plan, args, kwargs):
    name, space = plan[5], plan[6]
    if name is not None and (space, name) in _state.names:
        from miniray._core_api import errors as _errors
        raise exceptions.ActorAlreadyExistsError(_errors.name_is_taken(name))
    key = os.urandom(16)
    handle = _core.local_actor(key, cls.__name__, methods)
    _state.running.append(handle)
    try:
        _state.actors[key] = cls(*_values(args), **dict(zip(kwargs, _values(kwargs.values()))))
    except Exception as error:
        _state.actors[key] = exceptions.ActorDiedError(f"{cls.__name__}: could not be created: {error!r}")
    finally:
        _state.running.pop()
    if name is not None:
        _state.names[space, name] = handle
    return handle


def _instance(handle):
    instance = _state.actors.get(bytes.fromhex(handle.__actor_id__))
    if instance is None:
        raise exceptions.ActorDiedError("the actor was killed by the program")
    if isinstance(instance, exceptions.ActorDiedError):
        raise instance
    return instance


def is_dead(handle):
    try:
        _instance(handle)
    except exceptions.ActorDiedError:
        return True
    return False


def current():
    """The handle of the actor whose method runs, or None."""
    return _state.running[-1] if _state.running else None


def names():
    """[(name space, name)] of actors that have one."""
    return list(_state.names)


def find(name, space):
    if (space, name) not in _state.names:
        raise ValueError(f"Failed to look up actor with name '{name}'.")
    return _state.names[space, name]


def kill(handle):
    _state.actors.pop(bytes.fromhex(handle.__actor_id__), None)
    for key in [key for key, named in _state.names.items() if named == handle]:
        del _state.names[key]
