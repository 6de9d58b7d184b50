"""End of a worker: of an actor whose last handle is dropped, and of a worker after max_calls tasks."""

import atexit
import os
import time

import pytest


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def await_end(pid, seconds=20):
    end = time.monotonic() + seconds
    while not gone(pid):
        assert time.monotonic() < end, f"process {pid} goes on"
        time.sleep(0.005)


class Leaver:
    """Writes the names of its exit handlers to a folder, in the order of their calls."""

    def __init__(self, folder):
        self.folder = folder
        atexit.register(self._note, folder, "atexit")

    @staticmethod
    def _note(folder, what):
        with open(folder / "notes", "a") as file:
            file.write(f"{what}\n")

    def pid(self):
        return os.getpid()

    def __del__(self):
        self._note(self.folder, "__del__")


class Coroutine(Leaver):
    async def pid(self):
        return os.getpid()


@pytest.mark.parametrize("cls, options", [(Leaver, {}), (Leaver, {"max_concurrency": 3}), (Coroutine, {})])
def test_functions_for_the_exit_run_when_the_last_handle_goes(ray, tmp_path, cls, options):
    actor = ray.remote(cls).options(**options).remote(tmp_path)
    pid = ray.get(actor.pid.remote())
    del actor
    await_end(pid)
    assert (tmp_path / "notes").read_text().split() in (["__del__", "atexit"], ["atexit"])


def test_del_runs_when_nothing_else_has_the_instance(ray, tmp_path):
    class Plain(Leaver):
        def __init__(self, folder):
            self.folder = folder

    for options in ({}, {"max_concurrency": 2}):
        (tmp_path / "notes").unlink(missing_ok=True)
        actor = ray.remote(Plain).options(**options).remote(tmp_path)
        pid = ray.get(actor.pid.remote())
        del actor
        await_end(pid)
        assert (tmp_path / "notes").read_text() == "__del__\n"


def test_a_class_may_say_what_to_do_at_the_end(ray, tmp_path):
    class Closer(Coroutine):
        def __ray_shutdown__(self):
            self._note(self.folder, "shutdown")

    actor = ray.remote(Closer).remote(tmp_path)
    pid = ray.get(actor.pid.remote())
    del actor
    await_end(pid)
    assert (tmp_path / "notes").read_text().split()[0] == "shutdown"


def test_an_error_at_the_end_is_no_hindrance(ray, tmp_path):
    class Fails(Leaver):
        def __ray_shutdown__(self):
            raise RuntimeError("never mind")

    actor = ray.remote(Fails).remote(tmp_path)
    pid = ray.get(actor.pid.remote())
    del actor
    await_end(pid)
    assert "atexit" in (tmp_path / "notes").read_text()


def test_an_actor_that_is_killed_has_no_time_for_that(ray, tmp_path):
    actor = ray.remote(Leaver).remote(tmp_path)
    pid = ray.get(actor.pid.remote())
    ray.kill(actor)
    await_end(pid)
    assert not (tmp_path / "notes").exists()


def test_calls_run_before_the_end(ray, tmp_path):
    actor = ray.remote(Leaver).remote(tmp_path)
    refs = [actor.pid.remote() for _ in range(20)]
    del actor
    pids = set(ray.get(refs))
    assert len(pids) == 1
    await_end(pids.pop())
    assert "atexit" in (tmp_path / "notes").read_text()


# ---- max_calls


def test_a_worker_runs_no_more_than_max_calls(ray):
    @ray.remote(max_calls=1)
    def once():
        return os.getpid()

    @ray.remote(max_calls=3)
    def thrice():
        return os.getpid()

    pids = ray.get([once.remote() for _ in range(5)])
    assert len(set(pids)) == 5
    for pid in pids:
        await_end(pid)
    pids = ray.get([thrice.remote() for _ in range(12)])
    assert max(pids.count(pid) for pid in pids) <= 3


def test_a_task_with_gpus_has_a_worker_to_itself(run_program):
    done = run_program("""
        import os, miniray
        miniray.init(num_workers=2, num_gpus=1)
        def pid():
            return os.getpid()
        alone = miniray.remote(num_gpus=1)(pid)
        shared = miniray.remote(num_gpus=1, max_calls=0)(pid)
        print(len({miniray.get(alone.remote()) for _ in range(4)}))
        print(len({miniray.get(shared.remote()) for _ in range(4)}))
    """)
    assert done.stdout == "4\n1\n"


def test_max_calls_of_one_function_is_nothing_to_another(ray):
    @ray.remote(max_calls=2)
    def bounded():
        return os.getpid()

    @ray.remote
    def free():
        return os.getpid()

    for _ in range(3):
        refs = [bounded.remote(), free.remote(), bounded.remote(), free.remote()]
        assert all(ray.get(refs))


def test_a_task_with_max_calls_may_fail_and_have_children(ray):
    @ray.remote(max_calls=1)
    def parent(depth):
        if depth == 0:
            raise KeyError("the end")
        return ray.get(parent.remote(depth - 1))

    with pytest.raises(KeyError):
        ray.get(parent.remote(3))


def test_max_calls_is_checked(ray):
    for wrong in (-1, "two", 1.5):
        with pytest.raises((TypeError, ValueError)):
            ray.remote(max_calls=wrong)(len)


def test_a_worker_leaves_when_what_it_has_started_is_done(ray):
    @ray.remote(num_cpus=0)
    def slow(number):
        time.sleep(0.2)
        return number

    @ray.remote(max_calls=1, max_retries=0)
    def starts(number):
        return os.getpid(), [slow.remote(number)]

    found = ray.get([starts.remote(number) for number in range(4)])
    assert ray.get([ref for _, refs in found for ref in refs]) == list(range(4))
    pids = [pid for pid, _ in found]
    del found  # a worker stays while a process has a reference to one of the worker's objects
    for pid in pids:
        await_end(pid)


def test_a_reference_is_given_back_while_the_program_does_nothing(ray):
    @ray.remote(num_cpus=0)
    def slow():
        time.sleep(0.2)
        return "owned"

    @ray.remote(max_calls=1, max_retries=0)
    def owner():
        return os.getpid(), slow.remote()

    pid, ref = ray.get(owner.remote())
    assert ray.get(ref) == "owned"
    time.sleep(1)  # no call is in flight, and no thread waits
    assert not gone(pid)
    del ref
    await_end(pid)
