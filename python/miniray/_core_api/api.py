"""Functions of `import miniray` that start and end the runtime, make remote functions, and find and end actors."""

import _thread
import atexit
import os
import sys

from miniray import _core
from miniray._core_api import (did_you_mean, local_mode as _local_mode, options as _options, runtime_env as _runtime_env,
                               session as _session, signature as _signature)
from miniray._core_api.tracebacks import public

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_GENERATOR, _COROUTINE = 0x20 | 0x200, 0x80  # bits of co_flags
_turn = _thread.RLock()  # held by the thread that starts the runtime
_HEAVY = ("numpy", "torch")  # workers import these if the driver has imported them when it starts the runtime


def _worker_command():
    """The command of a worker: this interpreter with its flags, worker.py, and sys.path."""
    flags = [f"-X{name}" if value is True else f"-X{name}={value}" for name, value in sys._xoptions.items()]
    flags += [f"-W{option}" for option in sys.warnoptions] + ["-O"] * sys.flags.optimize
    folder = _runtime_env.current_folder()  # entries below a removed one lead nowhere
    path = [os.path.join(folder or "", entry) for entry in sys.path if folder is not None or os.path.isabs(entry)]
    path = [os.path.normpath(entry) for entry in path]
    heavy = ",".join(name for name in _HEAVY if name in sys.modules)
    return [sys.executable, *flags, os.path.join(_PACKAGE, "worker.py"), heavy, *path]


@public
def init(address=None, *, num_workers=None, num_cpus=None, num_gpus=None, resources=None, object_store_memory=None,
         local_mode=False, namespace=None, runtime_env=None, ignore_reinit_error=False, log_to_driver=True, **others):
    """Starts the runtime on this machine; `shutdown()` or the end of the program ends it.

    `num_workers` (or `num_cpus`) is the number of tasks that run at once, by default the number of cores. With
    `address="auto"` the program joins the node that `miniray start` has started, and ends only its own tasks and
    actors. With `local_mode=True` tasks and actors run in the program itself. Returns a Context with facts about the
    session, which may be used in a `with` statement.
    """
    for name in others:
        if not name.startswith("_") and name not in _session.WITHOUT_EFFECT:
            raise TypeError(f"init() got an unexpected keyword argument '{name}'"
                            + did_you_mean.hint(name, _INIT_OPTIONS))
    if num_workers is not None and num_cpus is not None and num_workers != num_cpus:
        raise ValueError(f"init() got num_workers={num_workers} and num_cpus={num_cpus}, which mean the same: pass one")
    if _core.is_initialized():
        return _again(ignore_reinit_error)
    _options.check_namespace(namespace)
    if address is not None and not isinstance(address, str):
        raise TypeError(f"address must be 'auto', the path of a node's socket, or None, not {address!r}")
    if isinstance(address, str) and address.startswith("ray://"):
        raise ValueError(f"{address}: Ray Client is not supported; address=\"auto\" joins the node of `miniray start` on "
                         "this machine")
    if runtime_env is not None:
        _runtime_env.check(runtime_env, whole_program=True)
        runtime_env = _runtime_env.with_paths(runtime_env)
    cpus, others = num_cpus if num_workers is None else num_workers, _options.resources(resources)
    if num_workers is None and cpus == 0:  # num_cpus=0: no CPU for tasks, but a process for tasks that need none
        cpus, others = 1, "cpu=0" if others is None else f"cpu=0,{others}"
    with _turn:
        if _core.is_initialized():  # another thread has started the runtime meanwhile
            return _again(ignore_reinit_error)
        _start(None if address == "local" else address,
               _options.count("num_cpus" if num_workers is None else "num_workers", cpus, 1),
               _options.amount("num_gpus", num_gpus), others,
               _options.count("object_store_memory", object_store_memory, 1), log_to_driver,
               _session.begin(namespace, runtime_env))
        _local_mode.switch(bool(local_mode))
    return _session.Context()


_INIT_OPTIONS = ("address", "num_workers", "num_cpus", "num_gpus", "resources", "object_store_memory", "local_mode",
                 "namespace", "runtime_env", "ignore_reinit_error", "log_to_driver")


def _again(is_fine):
    if not is_fine:
        raise RuntimeError("init() was called twice: the runtime of this program is running already. Pass "
                           "ignore_reinit_error=True to use it, or call shutdown() before")
    return _session.Context()


def _start(address, workers, gpus, others, store_bytes, log_to_driver, job):
    """Starts the runtime. Workers begin with this process's present folder and environment."""
    given, hook = _runtime_env.hook_variables(job.runtime_env or {})
    with _runtime_env.applied({**given, "env_vars": {**(given.get("env_vars") or {}), **job.variables(given), **hook}}):
        _core.init(address, workers, gpus, others, store_bytes, job.namespace, 0 if log_to_driver else -1,
                   _worker_command(), os.path.join(_PACKAGE, "miniray-node"))


def auto_init():
    """Starts the runtime with its defaults, for a first `.remote()` without `init()`; other threads wait."""
    with _turn:
        if not _core.is_initialized():
            init()


@public
def shutdown(*, wait_for_processes=False, _exiting_interpreter=False):
    """Ends every process of the runtime and waits for them. Objects that were not fetched are lost."""
    _local_mode.switch(False)
    _core.shutdown()


is_initialized = _core.is_initialized
atexit.register(shutdown)
os.register_at_fork(after_in_child=_core.forked)
os.register_at_fork(after_in_child=_turn._at_fork_reinit)  # the thread that holds the lock does not exist in the child


def remake_function(function, options):
    """A RemoteFunction of a function and options; also unpickles one."""
    name = getattr(function, "__name__", type(function).__name__)
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    if flags & _COROUTINE:
        raise ValueError("'async def' should not be used for remote tasks. You can wrap the async function with "
                         "`asyncio.run(f())`.")
    if flags & _GENERATOR and options.get("num_returns") is None:
        options = {**options, "num_returns": "streaming"}
    import functools  # imported here, since workers do not need it
    made = _core.RemoteFunction(function, name, options, _signature.limits(function))
    functools.update_wrapper(made, function, updated=())
    return made


def remote_with(target, args=None, kwargs=None, **options):
    """Calls `target` with these options: `_remote` of functions and methods."""
    return target.options(**options).remote(*args or (), **kwargs or {})


@public
def cancel(object_ref=None, *, force=False, recursive=True, ray_waitable=None):
    """Cancels a task or actor call and, unless `recursive=False`, the tasks that it has started: `get` raises
    TaskCancelledError. A waiting task never runs. A running task gets KeyboardInterrupt, or with `force` its worker is
    ended; a coroutine of an actor gets asyncio.CancelledError; other methods of an actor run to their end.
    `ray_waitable` is another name of the first parameter."""
    if object_ref is not None and ray_waitable is not None:
        raise TypeError("miniray.cancel() takes one ObjectRef or ObjectRefGenerator, not two")
    object_ref = ray_waitable if object_ref is None else object_ref
    _core.cancel(getattr(object_ref, "_ref", object_ref), force, recursive)  # an ObjectRefGenerator has `_ref`


@public
def kill(actor, *, no_restart=True):
    """Ends an actor at once; its running and waiting calls fail with ActorDiedError. With `no_restart=False` only its
    process ends, and the actor is restarted if it may be."""
    if not isinstance(actor, _core.ActorHandle) and hasattr(actor, "_kill"):
        actor._kill(no_restart)  # a parameter server
        return
    if _local_mode.is_on() and isinstance(actor, _core.ActorHandle):
        _local_mode.kill(actor)
    else:
        _core.kill(actor, no_restart)


@public
def get_actor(name, namespace=None):
    """The handle of the actor with this name, in this program's namespace or in the given one."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"get_actor() takes the name of an actor, not {name!r}")
    _options.check_namespace(namespace)
    try:
        return _local_mode.find(name, namespace) if _local_mode.is_on() else _core.get_actor(name, namespace)
    except ValueError as error:
        _, sign, meant = str(error).rpartition("; did you mean ")
        where = "" if namespace is None else f" in namespace '{namespace}'"
        raise ValueError(f"Failed to look up actor with name '{name}'{where}{sign + meant if sign else '.'} It was never "
                         "created, it has died, or it is in another namespace.") from None
