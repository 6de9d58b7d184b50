"""Processes, threads and exits that the user's code makes, and interactive programs."""

import os
import sys
import time

import pytest

import miniray

pytest.importorskip("numpy")


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


def _forked(ending):
    """The body of a task whose child ends by `ending`; returns (the child's status, this process)."""
    child = os.fork()
    if child == 0:
        return ending()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.getpid()


@pytest.mark.parametrize("ending, status", [
    (lambda: "of the child", 0), (lambda: b"x" * (1 << 20), 0), (lambda: 1 / 0, 1), (lambda: sys.exit(3), 3)])
def test_a_child_that_returns_from_its_task_ends_and_answers_nothing(ray, ending, status):
    task = ray.remote(_forked)
    for _ in range(3):
        assert ray.get(task.remote(ending), timeout=60)[0] == status
    one, other = ray.get([task.remote(ending), task.remote(ending)], timeout=60)
    assert one[0] == other[0] == status


@pytest.mark.parametrize("options", [{}, {"max_concurrency": 2}])
def test_a_child_that_returns_from_its_method_ends(ray, options):
    @ray.remote
    class Forks:
        def split(self, ending):
            return _forked(ending)

        async def split_later(self, ending):
            return _forked(ending)

    class Born:
        def __init__(self):
            self.status = _forked(lambda: None)

        def said(self):
            return self.status

    actor = Forks.options(**options).remote()
    for _ in range(3):
        assert ray.get(actor.split.remote(lambda: "of the child"), timeout=60)[0] == 0
        assert ray.get(actor.split_later.remote(lambda: "of the child"), timeout=60)[0] == 0
    pids = {ray.get(actor.split.remote(lambda: None), timeout=60)[1] for _ in range(3)}
    assert len(pids) == 1
    assert ray.get(ray.remote(Born).remote().said.remote(), timeout=60)[0] == 0


def test_a_child_that_goes_on_with_a_stream_ends(ray):
    @ray.remote(num_returns="streaming")
    def numbers():
        yield 1
        child = os.fork()
        if child != 0:
            os.waitpid(child, 0)
        yield os.getpid()
    assert len({ray.get(list(numbers.remote())[1]) for _ in range(3)}) <= 2  # number of workers


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
    """As in cells of a notebook: each cell runs in the namespace of __main__."""
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
        except OSError:  # the process has ended
            break
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, seen.decode()
    os.close(fd)
    assert b"first 41" in seen and b"second 42" in seen, seen.decode()
