"""The script of a worker, or of the zygote from which workers are forked. The node runs it.

Its arguments are the modules to import before the first fork ("numpy,torch"), and then the driver's sys.path.
"""

import faulthandler
import gc
import os
import sys
import _signal  # importing signal creates enumerations, which takes milliseconds

_NAME = "\x1ename:"  # begins a line that names this process, for the node (WORKER_LOG_NAME)
_INTRA_OP = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_is_zygote = False


def learn():
    """Reads the environment of workers, once, if possible in the zygote, since a fork copies every page of memory that
    it writes to."""
    global _boot, _has_hook, _seed, _threads_inside
    _boot = [name for name in os.environ if name.startswith("MINIRAY_BOOT")]
    _has_hook = "MINIRAY_SETUP_HOOK" in os.environ
    _seed = os.environ.get("MINIRAY_SEED", "0")
    threads = os.environ["OMP_NUM_THREADS"]
    _threads_inside = int(threads) if threads.isdecimal() else 1


def begin():
    """Prepares this process for its first task: removes the variables that made it a worker, sets the signal handler
    that interrupts cancelled tasks, and runs the program's setup hook."""
    _signal.signal(_signal.SIGINT, _interrupt)
    for name in _boot:
        del os.environ[name]
    if _has_hook:
        from miniray._core_api import runtime_env as _runtime_env
        _runtime_env.run_hook()


def say_name(actor):
    """Makes the lines that this process prints begin with the actor's repr(), if its class defines one."""
    actor = getattr(actor, "instance", actor) if getattr(type(actor), "__miniray_host__", False) else actor
    if type(actor).__repr__ is not object.__repr__:  # the class defines repr()
        tell(f"{_NAME}{' '.join(repr(actor).splitlines())}\n")


def tell(line):
    """Writes a line for the node or the driver, not for people; no-op if the node does not read this process's
    output."""
    if os.readlink("/proc/self/fd/1").endswith(f"/{os.getpid()}.out.log"):
        sys.stdout.flush()
        try:
            os.write(1, line.encode(errors="replace"))
        except OSError:
            pass  # the disk of the logs is full


def leave(actor):
    """Ends the actor: calls its __ray_shutdown__, and drops the instance of a host."""
    hosted = getattr(type(actor), "__miniray_host__", False)
    shut = getattr(type(actor.instance if hosted else actor), "__ray_shutdown__", None)
    if shut is not None:
        shut(actor.instance if hosted else actor)
    if hosted:
        actor.instance = None


def left():
    """Runs the atexit functions after the actor has ended, and before the process ends."""
    import atexit
    atexit._run_exitfuncs()
    sys.stdout.flush()


def end_child(name, error):
    """Ends a process that the body of `name` has forked and that has returned from the body, or raised `error`.

    The parent answers the call. The child ends as a script does, but runs none of the worker's exit functions."""
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else error.code is not None
        if status is True:
            print(error.code, file=sys.stderr)
    elif error is not None:
        import traceback
        traceback.print_exception(error)
        status = 1
    else:
        print(f"'{name}' called os.fork() and the child, process {os.getpid()}, returned from it: the child ends here, and "
              "the result of the call is what its parent returns. End a child with os._exit().", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass  # the output is closed, or the disk is full: the child ends anyway
    os._exit(status & 0xff)


def stacks():
    """The stack of every thread that runs Python code; the innermost frame is last."""
    import threading
    import traceback
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    own, parts = threading.get_ident(), []
    for ident, frame in sys._current_frames().items():
        if ident == own:
            continue
        frames = [entry for entry in traceback.extract_stack(frame) if entry.filename != __file__]
        if frames:
            parts.append(f"thread {names.get(ident, ident)}:\n" + "".join(traceback.format_list(frames)))
    return "\n".join(parts) or "no Python code runs"


def _interrupt(number, frame):
    """The signal handler: raises KeyboardInterrupt in a task that was cancelled. Ctrl-C is handled by the driver."""
    from miniray import _core
    if _core.interrupt_is_due():
        raise KeyboardInterrupt


def has_copied():
    """Called in the zygote after each fork: imports slow modules that the first tasks can do without: those of functions
    sent by value, and of tasks that submit others."""
    if "cloudpickle" not in sys.modules:
        _import_into_zygote(["cloudpickle", "miniray._actors.retries", "miniray._core_api.task_context"])
        gc.freeze()  # keeps pages shared with forks unmodified


def copied(number):
    """In the `number`th fork of the zygote: reseeds the random generators, so that no fork shares their state."""
    global _is_zygote
    _is_zygote = False
    if _seed != "0":
        _reseed(f"{_seed}/{number}")
    elif "numpy" in sys.modules or "torch" in sys.modules:
        _reseed(None)
    if _threads_inside != 1:
        from miniray._core_api import thread_counts
        thread_counts.apply(_threads_inside)


def _import_into_zygote(names):
    """Imports modules without threading's fork handler, which takes longer than the rest of a fork. The handler resets
    locks of other threads; a zygote has no other threads."""
    register = os.register_at_fork

    def register_all_but_one(*, after_in_child=None, **others):
        if getattr(after_in_child, "__module__", "") == "threading":
            forget_threads = after_in_child

            def after_in_child():
                if not _is_zygote:  # in processes that the worker or its tasks fork
                    forget_threads()
        register(**others, **({} if after_in_child is None else {"after_in_child": after_in_child}))
    os.register_at_fork = register_all_but_one
    try:
        for name in names:
            try:
                __import__(name)
            except Exception:  # the task that imports the module will get the error
                pass
    finally:
        os.register_at_fork = register


# ---- Random generators.


def _reseed(text):
    """Seeds every random generator: from the text, or from the system's randomness."""
    word = int.from_bytes(os.urandom(8), "little")  # Python has reseeded its own generator
    if text is not None:
        import random
        random.seed(text)
        word = random.Random(text).getrandbits(64)
    seeds = {"numpy": lambda module: module.random.seed(word % 2**32),
             "torch": lambda module: module.default_generator.manual_seed(word)}
    for name in [name for name in seeds if name in sys.modules]:
        seeds.pop(name)(sys.modules[name])
    if text is not None:  # without a text, modules seed themselves randomly on import
        sys.meta_path.insert(0, _SeedingImports(seeds))


class _SeedingImports:
    """Seeds modules when they are imported."""

    def __init__(self, seeds):
        self.seeds = seeds

    def find_spec(self, name, path=None, target=None):
        seed = self.seeds.pop(name, None)
        if seed is None:
            return None
        import importlib.util
        spec = importlib.util.find_spec(name)  # the same without this finder
        if spec is not None:
            execute = spec.loader.exec_module

            def execute_and_seed(module):
                execute(module)
                seed(module)
            spec.loader.exec_module = execute_and_seed
        return spec


# ---- The script.


def _threads():
    return len(os.listdir("/proc/self/task"))


def _preload(worker, names):
    """Imports modules of the driver with one thread each, since a process with threads cannot be forked."""
    given = {name: os.environ.get(name) for name in _INTRA_OP}
    os.environ.update(dict.fromkeys(_INTRA_OP, "1"))
    worker._import_into_zygote(names)
    for name, value in given.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def _main():
    gc.disable()  # modules are being imported, which creates no garbage
    preload = sys.argv[1]
    sys.path[:] = sys.argv[2:]
    sys.argv[1:] = []
    from miniray._output import worker_streams
    worker_streams.install()
    faulthandler.enable()  # a crashing worker prints its stack
    from miniray import _core, worker  # the second is this file under its module name
    from miniray._core_api import thread_counts
    from miniray._serialize import code  # noqa: F401  forks of this process have it imported
    if "OMP_NUM_THREADS" not in os.environ:
        os.environ.update({"OMP_NUM_THREADS": "1", thread_counts.CHOSEN: "1"})
    worker.learn()
    if os.environ["MINIRAY_BOOT"] == "template":
        worker._is_zygote = True
        _preload(worker, [name for name in preload.split(",") if name])
        if _threads() > 1 and preload:  # a module has started a thread: start again without imports
            os.set_inheritable(3, True)
            os.execv(sys.executable, [*sys.orig_argv[:_script()], sys.argv[0], "", *sys.path])
        gc.freeze()  # as in has_copied
    gc.enable()
    _core.serve()


def _script():
    """The index of the script in the command of this process."""
    return sys.orig_argv.index(sys.argv[0])


if __name__ == "__main__":
    _main()
