"""Processes of workers: what they share and what they do not, and how they end."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import miniray

HEAVY = pytest.importorskip("numpy")


def test_workers_are_copies_of_one_process_and_the_nodes_children(run_program):
    run_program("""
        import miniray, os
        miniray.init(num_workers=2)
        @miniray.remote
        class Home:
            def pids(self):
                return os.getpid(), os.getppid()
        homes = [Home.remote() for _ in range(4)]
        pids = miniray.get([home.pids.remote() for home in homes])
        assert len({pid for pid, _ in pids}) == 4 and len({parent for _, parent in pids}) == 1
        with open(f"/proc/{pids[0][1]}/comm") as name:
            assert name.read() == "miniray-node\\n"
    """)


IDLE = """
    import miniray, os%s
    miniray.init(num_workers=1)
    @miniray.remote
    class Idle:
        def look(self):
            with open("/proc/self/smaps_rollup") as lines:
                own = sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
            return own, len(os.listdir("/proc/self/task"))
    own, threads = miniray.get(Idle.remote().look.remote())
    assert own < 15 * 1024 and threads <= 2, (own, threads)
"""


@pytest.mark.parametrize("module", ["", ", numpy"])
def test_an_idle_worker_is_small_and_has_two_threads(run_program, module):
    run_program(IDLE % module)


def test_heavy_modules_are_in_workers_if_the_driver_has_them(run_program):
    program = """
        import miniray, sys%s
        @miniray.remote
        def seen():
            return "numpy" in sys.modules
        print(miniray.get(seen.remote()))
    """
    assert run_program(program % ", numpy").stdout == "True\n"
    assert run_program(program % "").stdout == "False\n"


def test_a_module_that_starts_a_thread_does_not_keep_workers_from_starting(run_program, tmp_path):
    (tmp_path / "numpy.py").write_text("import threading, time\n"
                                       "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n")
    assert run_program("""
        import numpy, miniray
        @miniray.remote
        def f(x):
            return x + 1
        print(miniray.get([f.remote(x) for x in range(3)]))
    """).stdout == "[1, 2, 3]\n"


def test_a_module_that_cannot_be_imported_again_is_the_tasks_error(run_program, tmp_path):
    (tmp_path / "numpy.py").write_text("import os\nassert 'MINIRAY_BOOT' not in os.environ, 'not in a template'\n")
    assert run_program("""
        import numpy, miniray
        @miniray.remote
        def f(x):
            return x + 1
        print(miniray.get(f.remote(1)))
    """).stdout == "2\n"


# ---- Chance.

DRAWS = """
    import miniray, random, numpy
    miniray.init(num_workers=1)
    @miniray.remote
    class Dice:
        def draw(self):
            return random.random(), float(numpy.random.rand())
    dice = []
    for _ in range(3):
        dice.append(Dice.remote())
        print(*miniray.get(dice[-1].draw.remote()))
"""


def test_every_worker_draws_its_own_numbers(run_program):
    lines = run_program(DRAWS).stdout.splitlines()
    for kind in range(2):
        assert len({line.split()[kind] for line in lines}) == 3, lines
    assert run_program(DRAWS).stdout.splitlines() != lines


def test_one_seed_gives_every_worker_the_same_numbers_again(run_program):
    def draws(seed):
        return run_program(DRAWS, environment=[("MINIRAY_SEED", seed)]).stdout.splitlines()
    first = draws("17")
    assert len(set(first)) == 3
    assert draws("17") == first
    assert draws("18") != first


# ---- Threads of numerical libraries.

def test_a_worker_has_as_many_intra_op_threads_as_cpus(run_program):
    program = """
        import miniray, os
        @miniray.remote
        def threads():
            return os.environ["OMP_NUM_THREADS"], "OPENBLAS_NUM_THREADS" in os.environ
        print(miniray.get(threads.remote()))
    """
    assert run_program(program, environment=[("OMP_NUM_THREADS", "3")]).stdout == "('3', False)\n"
    without = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    assert "OMP_NUM_THREADS" not in without
    assert run_program("import os\nos.environ.pop('OMP_NUM_THREADS', None)\n"
                       + textwrap.dedent(program)).stdout == "('1', False)\n"


def test_workers_with_torch(run_program):
    """One program for all of it, since torch takes long to import."""
    pytest.importorskip("torch")
    run_program("""
        import miniray, os
        os.environ["OMP_NUM_THREADS"] = "2"
        import torch
        miniray.init(num_workers=1)
        @miniray.remote
        class Torch:
            def look(self):
                with open("/proc/self/smaps_rollup") as lines:
                    own = sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
                return own, len(os.listdir("/proc/self/task")), torch.get_num_threads(), float(torch.rand(1)[0])
        looks = [miniray.get(actor.look.remote()) for actor in [Torch.remote() for _ in range(3)]]
        for own, tasks, threads, _ in looks:
            assert own < 15 * 1024 and tasks <= 2 and threads == 2, looks
        assert len({draw for *_, draw in looks}) == 3, looks
    """, timeout=200)


# ---- Ends.

@pytest.fixture(scope="module")
def ray():
    miniray.init(num_workers=2)
    yield miniray
    miniray.shutdown()


def test_a_segfault_shows_where_it_happened(ray):
    @ray.remote(max_retries=0)
    def read_nothing():
        import ctypes
        return ctypes.string_at(0)
    with pytest.raises(ray.exceptions.WorkerCrashedError, match="SIGSEGV") as caught:
        ray.get(read_nothing.remote())
    assert "read_nothing" in str(caught.value)


def test_a_stack_that_really_overflows_is_a_death_with_its_cause(ray):
    @ray.remote(max_retries=0)
    def dig():
        import sys
        import threading
        sys.setrecursionlimit(10**9)

        class Deep:
            def __getattr__(self, name):
                return getattr(self, name + "x")

        def run():
            Deep().a
        threading.stack_size(64 * 1024)
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    with pytest.raises(ray.exceptions.WorkerCrashedError, match="SIGSEGV"):
        ray.get(dig.remote())


def test_what_was_printed_before_a_crash_is_in_the_error(ray):
    @ray.remote(max_retries=0)
    def last_words():
        print("these are", "my last words", end="")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(ray.exceptions.WorkerCrashedError, match="my last words"):
        ray.get(last_words.remote())


# ---- Processes of the user's own.

@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_inside_a_task(ray, method):
    @ray.remote
    def pool(method):
        import math
        import multiprocessing
        with multiprocessing.get_context(method).Pool(2) as pool:
            return pool.map(math.factorial, range(5))
    assert ray.get(pool.remote(method), timeout=60) == [1, 1, 2, 6, 24]
    assert ray.get(pool.remote(method), timeout=60) == [1, 1, 2, 6, 24]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_in_the_driver(run_program, method):
    assert run_program(f"""
        import miniray, multiprocessing
        def double(x):
            return 2 * x
        if __name__ == "__main__":
            miniray.init(num_workers=1)
            ref = miniray.put(5)
            with multiprocessing.get_context("{method}").Pool(2) as pool:
                print(pool.map(double, range(4)))
            print(miniray.get([miniray.remote(double).remote(ref), ref]))
    """).stdout == "[0, 2, 4, 6]\n[10, 5]\n"


def test_a_fork_inside_a_task_has_no_runtime_and_may_end(ray):
    @ray.remote
    def split():
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, str(miniray.is_initialized()).encode())
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code, os.read(read, 100).decode(), miniray.is_initialized()
    assert ray.get(split.remote()) == (0, "False", True)
    assert ray.get(split.remote()) == (0, "False", True)


def test_a_subprocess_of_a_task_is_a_program_of_its_own(ray):
    @ray.remote
    def inner():
        import subprocess
        text = "import miniray; print(miniray.get(miniray.remote(lambda: 6 * 7).remote()))"
        return subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert ray.get(inner.remote(), timeout=60) == "42\n"


def test_threads_of_the_driver_share_the_runtime(ray):
    from concurrent.futures import ThreadPoolExecutor
    square = ray.remote(lambda x: x * x)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda x: ray.get(square.remote(x)), range(50))) == [x * x for x in range(50)]


# ---- The end of a program.

def test_hooks_at_exit_may_use_the_runtime(run_program):
    done = run_program("""
        import atexit, miniray
        @miniray.remote
        def f(x):
            return x + 1
        atexit.register(lambda: print(miniray.get(f.remote(1))))
        miniray.get(f.remote(0))
    """)
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_whatever_is_still_held_at_the_end_ends_quietly(run_program):
    done = run_program("""
        import miniray, numpy, sys
        @miniray.remote
        class Counter:
            def value(self):
                return numpy.ones(100_000)
        class Ring:
            def __init__(self, *held):
                self.held, self.self = held, self
            def __del__(self):
                self.held = None
        counter = Counter.remote()
        kept = [counter.value.remote() for _ in range(10)]
        ring = Ring(counter, *kept, *miniray.get(kept[:3]))
        sys.keep = ring, miniray.get(kept[5])
        del ring
    """)
    assert done.stderr == ""


def test_daemon_threads_that_wait_do_not_keep_a_program(run_program):
    start = time.monotonic()
    done = run_program("""
        import miniray, threading, time
        @miniray.remote
        def hang():
            time.sleep(600)
        refs = [hang.remote() for _ in range(3)]
        for ref in refs:
            threading.Thread(target=miniray.get, args=(ref,), daemon=True).start()
        time.sleep(0.2)
    """)
    assert time.monotonic() - start < 50
    assert "Fatal" not in done.stderr


# ---- Interactive programs.

def test_functions_that_are_defined_again_take_effect(run_program):
    """As cells of a notebook do it: each is run in the names of __main__."""
    cells = ["import miniray\nminiray.init(num_workers=1)",
             "def helper(x):\n    return x + 1\n@miniray.remote\ndef f(x):\n    return helper(x)",
             "print(miniray.get(f.remote(1)))",
             "def helper(x):\n    return x + 10\n@miniray.remote\ndef f(x):\n    return helper(x)",
             "print(miniray.get(f.remote(1)))",
             "@miniray.remote\nclass C:\n    def get(self):\n        return 'old'\nc = C.remote()",
             "print(miniray.get(c.get.remote()))",
             "@miniray.remote\nclass C:\n    def get(self):\n        return 'new'\nd = C.remote()",
             "print(miniray.get([c.get.remote(), d.get.remote()]))"]
    program = f"import __main__\nfor cell in {cells!r}:\n    exec(compile(cell, '<cell>', 'exec'), __main__.__dict__)\n"
    assert run_program(program).stdout == "2\n11\nold\n['old', 'new']\n"


def test_an_interactive_interpreter(tmp_path):
    import pty
    lines = ["import miniray", "miniray.init(num_workers=1)", "@miniray.remote", "def f(x):", "    return x + 40", "",
             "print('first', miniray.get(f.remote(1)))", "def g(x): return 2 * x", "",
             "print('second', miniray.get(miniray.remote(g).remote(21)))", "exit()"]
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-i", "-q"])
    os.write(fd, ("\n".join(lines) + "\n").encode())
    seen = b""
    while True:
        try:
            seen += os.read(fd, 4096)
        except OSError:  # it has ended
            break
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, seen.decode()
    os.close(fd)
    assert b"first 41" in seen and b"second 42" in seen, seen.decode()


# ---- What workers print.

def test_output_of_every_kind_has_its_prefix(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent("""
        import miniray, os, sys
        miniray.init(num_workers=1)
        @miniray.remote
        def talk():
            print("one line")
            print("two\\nlines")
            print("to stderr", file=sys.stderr)
            sys.stdout.buffer.write(b"binary \\xff\\xfe\\n")
            sys.stdout.flush()
            os.write(1, b"straight\\n")
            print("no end", end="", flush=True)
            return os.getpid()
        print(miniray.get(talk.remote()))
    """))
    done = subprocess.run([sys.executable, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
    pid, lines = done.stdout.decode().strip(), done.stderr.decode("utf-8", "replace").splitlines()
    said = [line.split(") ", 1) for line in lines if f"pid={pid}" in line]
    assert all(prefix.startswith("(") and prefix.endswith(f"pid={pid}") for prefix, _ in said), done.stderr
    words = [line for _, line in said]
    for expected in ("one line", "two", "lines", "to stderr", "straight", "no end"):
        assert expected in words, done.stderr
    assert any(line.startswith("binary") for line in words)
