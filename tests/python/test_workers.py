"""Processes of workers: their shared and private state, and their ends."""

import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest

import miniray

pytest.importorskip("numpy")


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


@pytest.mark.parametrize("imports", ["", "import numpy, threading"], ids=["bare", "numpy"])
def test_a_process_that_a_task_forks_forgets_the_tasks_threads(run_program, imports):
    """Processes forked from the zygote skip threading's own fork handling; processes that a task forks do not."""
    run_program(f"""
        import miniray
        {imports}
        miniray.init(num_workers=1)

        @miniray.remote
        class Forking:
            def fork(self):
                import os, threading
                own = threading.current_thread()
                assert own is threading.main_thread() and own.ident == threading.get_ident()
                stop = threading.Event()
                other = threading.Thread(target=stop.wait)
                other.start()
                assert threading.active_count() == 2
                pid = os.fork()
                if pid == 0:
                    alone = threading.enumerate() == [own] and not other.is_alive()
                    os._exit(0 if alone else 1)
                _, status = os.waitpid(pid, 0)
                stop.set()
                other.join()
                return os.waitstatus_to_exitcode(status)

        for actor in [Forking.remote() for _ in range(3)]:  # the first copies, and later ones
            assert miniray.get(actor.fork.remote()) == 0
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


# ---- Random generators.

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


def test_modules_that_a_worker_imports_later_are_seeded_too(run_program):
    late = DRAWS.replace("random, numpy", "random").replace("def draw(self):", "def draw(self):\n            import numpy")

    def draws(seed):
        return run_program(late, environment=[("MINIRAY_SEED", seed)]).stdout.splitlines()
    first = draws("17")
    for kind in range(2):
        assert len({line.split()[kind] for line in first}) == 3, first
    assert draws("17") == first


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


THREADS = """
    import miniray, os
    os.environ.pop("OMP_NUM_THREADS", None)
    os.environ.update(%r)
    miniray.init(num_workers=4)

    def threads():
        return int(os.environ["OMP_NUM_THREADS"])

    def yielded():
        yield threads()

    class Home:
        def __init__(self):
            self.at_start = threads()

        def look(self):
            return self.at_start, threads()
    many = [miniray.remote(num_cpus=cpus)(threads) for cpus in (1, 2, 0.5, 2.5)]
    many += [many[0].options(num_cpus=3), many[1].options(num_cpus=1)]
    generator = miniray.remote(num_cpus=2)(yielded).remote()
    print(miniray.get([each.remote() for each in many]), miniray.get(next(generator)),
          miniray.get(miniray.remote(num_cpus=3)(Home).remote().look.remote()))
"""


def test_tasks_and_actors_with_several_cpus_have_as_many_intra_op_threads(run_program):
    assert run_program(THREADS % {}).stdout == "[1, 2, 1, 2, 3, 1] 2 (3, 3)\n"


def test_the_programs_own_number_of_intra_op_threads_stays(run_program):
    assert run_program(THREADS % {"OMP_NUM_THREADS": "7"}).stdout == "[7, 7, 7, 7, 7, 7] 7 (7, 7)\n"


def test_workers_with_torch(run_program):
    """One program for all checks, because torch takes long to import."""
    pytest.importorskip("torch")
    run_program("""
        import miniray, os
        import torch
        miniray.init(num_workers=6)
        @miniray.remote(num_cpus=2)
        class Torch:
            def look(self):
                with open("/proc/self/smaps_rollup") as lines:
                    own = sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
                return own, len(os.listdir("/proc/self/task")), torch.get_num_threads(), float(torch.rand(1)[0])
        looks = [miniray.get(actor.look.remote()) for actor in [Torch.remote() for _ in range(3)]]
        for own, tasks, threads, _ in looks:
            assert own < 15 * 1024 and tasks <= 3 and threads == 2, looks  # one of them is torch's
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
    assert "Fatal Python error: Segmentation fault" in str(caught.value)
    assert "in read_nothing" in str(caught.value)  # the source line


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


def test_why_shows_where_a_worker_hangs(run_program):
    done = run_program("""
        import miniray, os, subprocess, sys, time
        miniray.init(num_workers=1)
        @miniray.remote
        def stuck(path):
            def in_here():
                open(path, "w").close()
                while True:
                    time.sleep(0.01)
            in_here()
        ref = stuck.remote("begun")
        while not os.path.exists("begun"):
            time.sleep(0.01)
        command = [os.path.join(os.path.dirname(miniray.__file__), "miniray-node")]
        where = ["--address", miniray.get_runtime_context().gcs_address]
        tasks = subprocess.run([*command, "list", "tasks", *where], stdout=subprocess.PIPE, text=True, check=True)
        name = tasks.stdout.splitlines()[-1].split()[0]
        subprocess.run([*command, "why", name, *where], check=True)
    """)
    assert "in stuck" in done.stdout and "in in_here" in done.stdout and "time.sleep(0.01)" in done.stdout


def test_what_was_printed_before_a_crash_is_in_the_error(ray):
    @ray.remote(max_retries=0)
    def last_words():
        print("these are", "my last words", end="")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(ray.exceptions.WorkerCrashedError, match="my last words"):
        ray.get(last_words.remote())


# ---- Output of workers.

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
    lines = done.stdout.decode().splitlines()
    pid = next(line for line in lines if line.isdecimal())  # the driver's own line, anywhere among the others
    said = [line.split(") ", 1) for line in lines if line != pid]
    assert all(prefix.endswith(f"pid={pid}") for prefix, _ in said), done.stdout
    words = [line for _, line in said]
    assert words == ["one line", "two", "lines", "binary \ufffd\ufffd", "straight", "no end"]
    assert done.stderr.decode() == f"(talk pid={pid}) to stderr\n"


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_an_actor_prints_with_what_its_class_shows_of_it(run_program, kind):
    done = run_program(f"""
        import miniray, os

        @miniray.remote
        class Counter:
            def __init__(self, value):
                self.value = value
                print("begins", value)
            def __repr__(self):
                return f"Counter(value={{self.value}},\\n x)"
            {kind} say(self):
                print("hello", self.value)
                return os.getpid()

        counters = [Counter.remote(value) for value in (1, 2)]
        print(miniray.get([counter.say.remote() for counter in counters]))
    """)
    pids = re.search(r"\[(\d+), (\d+)\]", done.stdout).groups()  # a worker's line may follow before print()'s newline
    for value, pid in zip((1, 2), pids):
        assert f"(Counter pid={pid}) begins {value}\n" in done.stdout, done.stdout
        assert f"(Counter(value={value},  x) pid={pid}) hello {value}\n" in done.stdout, done.stdout
    assert "name:" not in done.stdout and done.stderr == ""


def test_a_task_goes_on_when_its_log_cannot_grow(run_program):
    """The log's disk is full, as an EFBIG for a file of limited size: no output, but results, and one warning."""
    done = run_program("""
        import miniray, os, resource, sys
        miniray.init(num_workers=2)
        @miniray.remote
        def speak(number, is_limited):
            if is_limited:
                most = max(os.fstat(1).st_size, os.fstat(2).st_size) + 100
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            for i in range(100):
                print(f"line {i} of {number}, which is long enough to fill the rest of the file")
                print(f"error {i} of {number}", file=sys.stderr)
            sys.stdout.flush()
            resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
            return number
        assert miniray.get([speak.remote(number, True) for number in range(6)], timeout=60) == list(range(6))
        assert miniray.get(speak.remote("last", False), timeout=60) == "last"
    """)
    assert done.stderr.count("cannot write its output") == 1, done.stderr
    assert "File too large" in done.stderr
    assert "line 99 of last" in done.stdout and "line 99 of 0" not in done.stdout


def test_an_actor_goes_on_when_its_log_disk_is_full(run_program):
    done = run_program("""
        import miniray, os, sys
        miniray.init(num_workers=1)
        @miniray.remote
        class Speaker:
            def __init__(self):
                full = os.open("/dev/full", os.O_WRONLY)
                os.dup2(full, 1), os.dup2(full, 2)
            def speak(self, words):
                print(words)
                print(words, file=sys.stderr)
                sys.stdout.write(words), sys.stdout.flush()
                return words
        speaker = Speaker.remote()
        assert miniray.get([speaker.speak.remote(f"word {i}") for i in range(5)]) == [f"word {i}" for i in range(5)]
    """)
    assert done.stderr.count("cannot write its output") == 1, done.stderr
    assert "No space left on device" in done.stderr and "word" not in done.stdout
