"""A worker, or the template that workers are copies of: run by the node as a script.

Its arguments are the modules to import before the first copy is made ("numpy,torch"), and then the driver's sys.path.
"""

import faulthandler
import gc
import os
import signal
import sys

_INTRA_OP = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def begin():
    """Before the first task: what told this process to be a worker is not for the processes that tasks start, and a task
    that is cancelled while it runs is interrupted."""
    signal.signal(signal.SIGINT, _interrupt)
    for name in [name for name in os.environ if name.startswith("MINIRAY_BOOT")]:
        del os.environ[name]


def stacks():
    """Where every thread is that has Python code to run; the innermost frame last."""
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
    """Ctrl-C is for the driver; this is for the task at hand, if it was cancelled."""
    from miniray import _core
    if _core.interrupt_is_due():
        raise KeyboardInterrupt


def copied(number):
    """In a new copy of the template, the `number`th of them: nothing that is drawn by lot is shared with the others."""
    seed = os.environ.get("MINIRAY_SEED", "0")
    _reseed(None if seed == "0" else f"{seed}/{number}")
    threads = os.environ["OMP_NUM_THREADS"]
    if threads != "1" and threads.isdecimal():
        _use_threads(int(threads))


def _reseed(text):
    """Every generator anew: from the text, always the same, or from the system's chance."""
    modules = sys.modules
    word = int.from_bytes(os.urandom(8), "little")  # Python's own generator has been seeded anew by itself
    if text is not None:
        import random
        random.seed(text)
        word = random.Random(text).getrandbits(64)
    if "numpy" in modules:
        modules["numpy"].random.seed(word % 2**32)
    if "torch" in modules:
        modules["torch"].default_generator.manual_seed(word)


def _use_threads(count):
    """What was imported with one intra-op thread has so many from now on."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)
    with open("/proc/self/maps") as lines:
        libraries = {line.split()[-1] for line in lines if "openblas" in line}
    for path in libraries:
        import ctypes
        library = ctypes.CDLL(path)
        for name in ("openblas_set_num_threads", "openblas_set_num_threads64_", "scipy_openblas_set_num_threads64_"):
            if hasattr(library, name):
                getattr(library, name)(count)


def _threads():
    return len(os.listdir("/proc/self/task"))


def _preload(names):
    """Imports what the driver has imported, with one thread: a process with threads cannot be copied."""
    given = {name: os.environ.get(name) for name in _INTRA_OP}
    os.environ.update(dict.fromkeys(_INTRA_OP, "1"))
    for name in names:
        try:
            __import__(name)
        except Exception:  # whoever needs it sees the error; a module that cannot be imported here is no reason to end
            pass
    for name, value in given.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def _main():
    gc.disable()  # modules that are being imported leave nothing to collect
    preload = sys.argv[1]
    sys.path[:] = sys.argv[2:]
    sys.argv[1:] = []
    sys.stdout.reconfigure(line_buffering=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    faulthandler.enable()  # where a worker was when it crashed is the last that it prints
    import cloudpickle  # noqa: F401  nearly every task needs it, and now there is time
    from miniray import _core, worker  # noqa: F401  the same file, under the name by which it is looked for
    if os.environ["MINIRAY_BOOT"] == "template":
        _preload([name for name in preload.split(",") if name])
        if _threads() > 1 and preload:  # some module has started one: go on without
            os.set_inheritable(3, True)
            os.execv(sys.executable, [*sys.orig_argv[:_script()], sys.argv[0], "", *sys.path])
        gc.freeze()  # what all copies share stays as it is
    gc.enable()
    _core.serve()


def _script():
    """Where in the command of this process its script is named."""
    return sys.orig_argv.index(sys.argv[0])


if __name__ == "__main__":
    _main()
