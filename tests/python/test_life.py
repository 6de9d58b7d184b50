"""Starting and ending a program, in every way."""

import os
import signal
import subprocess
import sys
import time

import pytest


def test_init_shutdown_and_again(stopped):
    ray = stopped
    assert not ray.is_initialized()
    for _ in range(2):
        ray.init(num_workers=1)
        assert ray.is_initialized()
        assert ray.get(ray.remote(lambda: 1).remote()) == 1
        ray.shutdown()
        assert not ray.is_initialized()
    ray.shutdown()


def test_a_second_init_is_an_accident(stopped):
    ray = stopped
    ray.init(num_workers=1)
    with pytest.raises(RuntimeError, match="twice"):
        ray.init()
    ray.init(ignore_reinit_error=True)


def test_init_checks_its_arguments(stopped):
    ray = stopped
    for wrong in ({"num_workers": 0}, {"num_workers": -1}, {"num_workers": "x"}, {"num_cpus": 1.5}, {"no_such": 1},
                  {"num_gpus": -1}, {"resources": {"CPU": 1}}, {"resources": 3}, {"num_workers": 1, "num_cpus": 2}):
        with pytest.raises((TypeError, ValueError)):
            ray.init(**wrong)
        assert not ray.is_initialized()


def test_underscored_arguments_are_for_others(stopped):
    stopped.init(num_cpus=1, _temp_dir="/nowhere")
    assert stopped.is_initialized()


def test_a_first_call_starts_everything(stopped):
    assert stopped.get(stopped.remote(lambda: 2).remote()) == 2
    assert stopped.is_initialized()


def test_first_calls_of_several_threads_start_one_runtime(run_program):
    done = run_program("""
        import miniray, os, threading
        @miniray.remote
        def parent():
            return os.getppid()
        seen, gate = [], threading.Barrier(8)
        def call():
            gate.wait()
            seen.extend(miniray.get([parent.remote() for _ in range(3)]))
        threads = [threading.Thread(target=call) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(len(seen), len(set(seen)))
        """)
    assert done.stdout == "24 1\n" and done.stderr == ""


def test_several_threads_that_call_init_get_one_runtime(run_program):
    done = run_program("""
        import miniray, threading
        gate, told = threading.Barrier(4), []
        def start(fine):
            gate.wait()
            try:
                told.append(miniray.init(num_workers=1, ignore_reinit_error=fine).address_info["address"])
            except RuntimeError as error:
                told.append("twice" in str(error))
        for fine in (True, False):
            threads = [threading.Thread(target=start, args=(fine,)) for _ in range(4)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            miniray.shutdown()
        print(len(set(told[:4])), sorted(told[4:], key=str)[1:])
        """)
    assert done.stdout == "1 [True, True, True]\n" and done.stderr == ""


def test_references_of_a_runtime_that_is_gone(stopped):
    ray = stopped
    ray.init(num_workers=1)
    ref = ray.put(1)
    ray.shutdown()
    ray.init(num_workers=1)
    with pytest.raises(RuntimeError, match="shut down"):
        ray.get(ref)


def children_of(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], stdout=subprocess.PIPE, text=True)
    return [int(line) for line in found.stdout.split()]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pids, seconds=10):
    until = time.monotonic() + seconds
    while any(map(alive, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


LONG = """
import miniray, os, sys, time
miniray.init(num_workers=2)
@miniray.remote
def pid():
    return os.getpid(), os.getppid()
@miniray.remote
def hang():
    time.sleep(1000)
print(*miniray.get(pid.remote()), flush=True)
hang.remote()
%s
"""


@pytest.mark.parametrize("end, code", [("", 0), ("raise SystemExit(3)", 3), ("1 / 0", 1), ("os._exit(4)", 4),
                                       ("os.kill(os.getpid(), 9)", -9), ("os.kill(os.getpid(), 15)", -15)])
def test_nothing_is_left_after_every_kind_of_end(run_program, end, code):
    done = run_program(LONG % end, code=code)
    assert gone(map(int, done.stdout.split()))


def test_control_c_interrupts_get(tmp_path):
    program = LONG % "miniray.get(hang.remote())"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, cwd=tmp_path)
    pids = [int(word) for word in process.stdout.readline().split()]
    time.sleep(0.1)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert time.monotonic() - start < 10
    assert "KeyboardInterrupt" in errors and process.returncode == -signal.SIGINT
    assert gone(pids)


def test_programs_of_every_kind(run_program, tmp_path):
    text = "import miniray\n@miniray.remote\ndef f(x):\n    return helper(x)\ndef helper(x):\n    return x + 1\n"
    text += "print(miniray.get(f.remote(1)))\n"
    assert run_program(text).stdout == "2\n"
    assert run_program("", arguments=["-c", text]).stdout == "2\n"
    assert run_program("", arguments=["-"], stdin=text).stdout == "2\n"
    (tmp_path / "as_module.py").write_text(text)
    assert run_program("", arguments=["-m", "as_module"]).stdout == "2\n"


def test_output_of_workers_is_seen(run_program):
    done = run_program("""
        import miniray, sys
        @miniray.remote
        def talk():
            print("hello from a task")
            print("and a complaint", file=sys.stderr)
        print("first")
        miniray.get(talk.remote())
        import time
        time.sleep(0.2)
    """)
    first, said = done.stdout.splitlines()
    assert first == "first" and said.startswith("(talk pid=") and said.endswith(") hello from a task")
    assert done.stderr.startswith("(talk pid=") and done.stderr.endswith(") and a complaint\n")


def test_output_of_workers_goes_where_the_program_prints(run_program):
    """As in Ray, also if sys.stdout is not the process's stdout, as in a notebook."""
    done = run_program("""
        import contextlib, io, miniray, sys
        @miniray.remote
        def talk():
            print("hello", "wörld")
            print("and a complaint", file=sys.stderr)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            miniray.init(num_workers=1)
            miniray.get(talk.remote())
            miniray.shutdown()  # what was printed before is shown
        print(out.getvalue().split(") ")[1:], err.getvalue().split(") ")[1:])
    """)
    assert done.stdout == "['hello wörld\\n'] ['and a complaint\\n']\n" and done.stderr == ""


def test_output_of_workers_is_not_lost_with_the_streams_of_the_program(run_program):
    done = run_program("""
        import miniray, sys
        @miniray.remote
        def talk():
            print("hello from a task")
            print("and a complaint", file=sys.stderr)
        miniray.init(num_workers=1)
        sys.stdout, sys.stderr = None, open("/dev/null", "w")
        sys.stderr.close()
        miniray.get(talk.remote())
        miniray.shutdown()
    """)
    assert ") hello from a task\n" in done.stdout and ") and a complaint\n" in done.stderr


def test_a_program_that_holds_the_gil_is_told_later(run_program):
    """Output lines wait until the GIL is free, in their order, and delay nothing else."""
    done = run_program("""
        import ctypes, miniray, time
        @miniray.remote
        def talk(n):
            for i in range(n):
                print("line", i)
            return n
        miniray.init(num_workers=1)
        first = talk.remote(100)
        second = talk.remote(first)  # starts while the program has the lock of Python
        ctypes.PyDLL(None).usleep(900 * 1000)
        print(miniray.get(second, timeout=60))
        miniray.shutdown()
    """)
    lines = [line.split(") ")[1] for line in done.stdout.splitlines() if line.startswith("(")]
    assert lines == 2 * [f"line {i}" for i in range(100)]


def test_output_of_workers_may_be_kept_away(run_program):
    done = run_program("""
        import miniray
        miniray.init(log_to_driver=False)
        @miniray.remote
        def talk():
            print("hello from a task")
        miniray.get(talk.remote())
    """)
    assert "hello" not in done.stdout + done.stderr


def test_a_child_made_by_fork_does_not_disturb(run_program):
    done = run_program("""
        import miniray, os
        miniray.init(num_workers=1)
        @miniray.remote
        def f(x):
            return x
        ref = miniray.put(1)
        child = os.fork()
        if child == 0:
            assert not miniray.is_initialized()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert miniray.get([f.remote(2), ref]) == [2, 1]
    """)
    assert done.stderr == ""


def test_multiprocessing_beside_it(run_program):
    run_program("""
        import miniray, multiprocessing
        def double(x):
            return 2 * x
        if __name__ == "__main__":
            miniray.init(num_workers=1)
            with multiprocessing.Pool(2) as pool:
                assert pool.map(double, [1, 2, 3]) == [2, 4, 6]
            assert miniray.get(miniray.remote(double).remote(4)) == 8
    """)
