"""cancel(): waiting tasks never run, running tasks are interrupted, and their children are cancelled too."""

import asyncio
import os
import pickle
import signal
import time

import pytest


@pytest.fixture
def note(tmp_path):
    """A file that tasks write to."""
    return tmp_path / "note"


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.002)


@pytest.fixture(scope="module")
def sleeper(ray):
    @ray.remote(max_retries=0)
    def sleeper(note, seconds=60):
        try:
            note.write_text("begun")
            time.sleep(seconds)
        except KeyboardInterrupt:
            note.write_text("interrupted")
            raise
        note.write_text("slept")
    return sleeper


def test_a_sleeping_task_is_interrupted(ray, sleeper, note):
    ref = sleeper.remote(note)
    until(note.exists)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    until(lambda: note.read_text() == "interrupted")


def test_a_task_that_misses_its_interrupt_is_interrupted_again(ray, note):
    """The interrupt arrives just before the task begins to sleep."""
    @ray.remote(max_retries=0)
    def misses(note):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        note.write_text("begun")
        signal.sigwait([signal.SIGINT])
        note.write_text("missed")
        try:  # the next interrupt may arrive during the write
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            time.sleep(60)
        except KeyboardInterrupt:
            note.write_text("interrupted")
            raise
    ref = misses.remote(note)
    until(note.exists)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    until(lambda: note.read_text() == "interrupted")


def test_a_task_is_interrupted_once(ray, note):
    @ray.remote(max_retries=0)
    def closes(note):
        try:
            note.write_text("begun")
            time.sleep(60)
        except KeyboardInterrupt:
            time.sleep(0.2)
            note.write_text("closed")
            raise
    ref = closes.remote(note)
    until(note.exists)
    ray.cancel(ref)
    until(lambda: note.read_text() == "closed")


def test_a_computing_task_is_interrupted(ray, note):
    @ray.remote
    def compute(note):
        note.write_text("begun")
        while True:
            pass
    ref = compute.remote(note)
    until(note.exists)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)

    @ray.remote
    def after():
        return 1
    assert ray.get([after.remote() for _ in range(20)], timeout=30) == [1] * 20  # the worker runs tasks again


def test_a_task_that_waits_for_another_is_interrupted(ray, sleeper, note, tmp_path):
    @ray.remote
    def parent(note, other):
        try:
            ray.get(sleeper.remote(other))
        except BaseException as error:  # the peer's end, or the interrupt, which may arrive during the report
            try:
                note.write_text(type(error).__name__)
            except KeyboardInterrupt:
                note.write_text("KeyboardInterrupt")
            raise
    ref = parent.remote(note, tmp_path / "other")
    until((tmp_path / "other").exists)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    until(note.exists)
    until(lambda: (tmp_path / "other").read_text() == "interrupted")


def test_the_interrupt_does_not_hit_the_next_task(ray, note):
    @ray.remote
    def short(number):
        time.sleep(0.001)
        return number
    for _ in range(30):
        refs = [short.remote(i) for i in range(6)]
        time.sleep(0.001)
        ray.cancel(refs[0])
        assert ray.get(refs[1:]) == [1, 2, 3, 4, 5]


def test_force_ends_the_worker(ray, note):
    @ray.remote
    def stubborn(note):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        note.write_text(str(os.getpid()))
        time.sleep(60)
    ref = stubborn.remote(note)
    until(lambda: note.exists() and note.read_text())
    pid = int(note.read_text())
    ray.cancel(ref, force=True)
    with pytest.raises((ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError)):
        ray.get(ref)
    until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_waiting_task_never_runs(ray, sleeper, note, tmp_path):
    busy = [sleeper.remote(tmp_path / str(i), 0.3) for i in range(4)]
    ref = sleeper.remote(note)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    ray.get(busy)
    assert not note.exists()


def test_a_task_whose_arguments_are_to_come_never_runs(ray, sleeper, note, tmp_path):
    @ray.remote
    def use(value, note):
        note.write_text("ran")
    ref = use.remote(sleeper.remote(tmp_path / "other", 0.2), note)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    assert not note.exists()


def test_what_depends_on_it_fails_as_well(ray, sleeper, note):
    @ray.remote
    def use(value):
        return value
    first = sleeper.remote(note)
    second = use.remote(first)
    until(note.exists)
    ray.cancel(first)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(second)


def test_cancel_of_what_is_done_does_nothing(ray):
    @ray.remote
    def one():
        return 1
    ref = one.remote()
    assert ray.get(ref) == 1
    ray.cancel(ref)
    ray.cancel(ref, force=True)
    assert ray.get(ref) == 1


def test_cancel_twice(ray, sleeper, note):
    ref = sleeper.remote(note)
    until(note.exists)
    ray.cancel(ref)
    ray.cancel(ref, recursive=False)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)


def test_cancel_takes_references_only(ray):
    class Some:
        pass
    for wrong in (1, None, [ray.put(1)], ray.remote(Some).remote()):
        with pytest.raises(TypeError, match="cancel.. takes an ObjectRef, not"):
            ray.cancel(wrong)


def test_a_coroutine_of_an_actor_is_cancelled(ray):
    @ray.remote
    class Sleeper:
        def __init__(self):
            self.ends = []

        async def sleep(self):
            try:
                self.ends.append("begun")
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.ends.append("cancelled")
                raise

        async def seen(self):
            return self.ends
    sleeper = Sleeper.remote()
    ref = sleeper.sleep.remote()
    until(lambda: ray.get(sleeper.seen.remote()) == ["begun"])
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    until(lambda: ray.get(sleeper.seen.remote()) == ["begun", "cancelled"])


def test_a_waiting_call_of_an_actor_never_runs(ray):
    @ray.remote
    class Counter:
        def __init__(self):
            self.count = 0

        def slow(self):
            time.sleep(0.3)

        def add(self):
            self.count += 1
            return self.count
    counter = Counter.remote()
    slow = counter.slow.remote()
    dropped, kept = counter.add.remote(), counter.add.remote()
    ray.cancel(dropped)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(dropped)
    assert ray.get(kept) == 1 and ray.get(slow) is None


def test_force_is_not_for_actors(ray):
    @ray.remote
    class Slow:
        def slow(self):
            time.sleep(0.2)
            return 1
    actor = Slow.remote()
    ref = actor.slow.remote()
    with pytest.raises(ValueError, match="actor"):
        ray.cancel(ref, force=True)
    assert ray.get(ref) == 1


def test_control_c_in_the_terminal_is_the_drivers_affair(ray, note):
    @ray.remote
    def task(note):
        note.write_text(str(os.getpid()))
        time.sleep(0.3)
        return "done"
    ref = task.remote(note)
    until(lambda: note.exists() and note.read_text())
    os.kill(int(note.read_text()), signal.SIGINT)
    assert ray.get(ref) == "done"


@pytest.mark.parametrize("recursive", [True, False])
def test_what_it_has_started_goes_with_it_or_not(ray, tmp_path, recursive):
    begun, go, ended = (tmp_path / name for name in ("begun", "go", "ended"))

    @ray.remote(num_cpus=0, max_retries=0)
    def child():
        try:
            begun.touch()
            while not go.exists():
                time.sleep(0.002)
            ended.write_text("by itself")
        except KeyboardInterrupt:
            ended.write_text("interrupted")
            raise

    @ray.remote(num_cpus=0, max_retries=0)
    def parent():
        ref = child.remote()
        time.sleep(60)
        return ref

    ref = parent.remote()
    until(begun.exists)
    ray.cancel(ref, recursive=recursive)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    if not recursive:
        go.touch()
    until(lambda: ended.exists() and ended.read_text())
    assert ended.read_text() == ("interrupted" if recursive else "by itself")


def test_a_coroutine_sees_its_cancellation_before_the_next_call(ray):
    @ray.remote
    class Sees:
        seen = 0

        async def wait(self):
            try:
                await asyncio.sleep(60)
            finally:
                self.seen += 1

        async def count(self):
            return self.seen

    actor = Sees.remote()
    for number in range(1, 51):
        ref = actor.wait.remote()
        assert ray.get(actor.count.remote()) == number - 1
        ray.cancel(ref)
        assert ray.get(actor.count.remote()) == number


@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("kind", ["coroutine", "thread"])
def test_what_one_of_several_calls_has_started_goes_with_it_or_not(ray, tmp_path, kind, recursive):
    go = tmp_path / "go"

    @ray.remote(num_cpus=0, max_retries=0)
    def child(number):
        (tmp_path / f"begun{number}").touch()
        while not go.exists():
            time.sleep(0.002)
        return number

    class Several:
        def __init__(self):
            self.children = {}

        def start(self, number):
            self.children[number] = child.remote(number)
            return self.children[number]

        def started(self):
            return [self.children[number] for number in sorted(self.children)]

    class Coroutines(Several):
        async def run(self, number):
            return await self.start(number)

    class Threads(Several):
        def run(self, number):
            return ray.get(self.start(number))

    actor = ray.remote(Coroutines if kind == "coroutine" else Threads).options(max_concurrency=3).remote()
    refs = [actor.run.remote(number) for number in range(2)]
    until(lambda: all((tmp_path / f"begun{number}").exists() for number in range(2)))
    until(lambda: len(ray.get(actor.started.remote())) == 2)
    children = ray.get(actor.started.remote())
    ray.cancel(refs[0], recursive=recursive)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(refs[0])
    if recursive:
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(children[0])
    go.touch()
    assert ray.get(children[1]) == ray.get(refs[1]) == 1
    if not recursive:
        assert ray.get(children[0]) == 0


def test_a_cancelled_coroutine_may_start_something_to_clean_up(ray):
    @ray.remote(num_cpus=0)
    def clean_up():
        return "clean"

    @ray.remote
    class Careful:
        state = None

        async def wait(self):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.state = await clean_up.remote()
                raise

        async def is_clean(self):
            return self.state == "clean"

    actor = Careful.remote()
    ref = actor.wait.remote()
    assert not ray.get(actor.is_clean.remote())
    ray.cancel(ref)
    until(lambda: ray.get(actor.is_clean.remote()))


def test_a_cancelled_task_is_a_failed_one_too(ray, sleeper, note):
    ref = sleeper.remote(note)
    until(note.exists)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.RayTaskError, match="was cancelled") as caught:
        ray.get(ref)
    assert isinstance(caught.value, ray.exceptions.TaskCancelledError)
    assert isinstance(caught.value.cause, ray.exceptions.TaskCancelledError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)


@pytest.mark.parametrize("options", [{}, {"max_concurrency": 2}])
def test_a_method_may_ask_whether_it_was_cancelled(ray, note, options):
    class Asking:
        def run(self, note):
            assert not ray.get_runtime_context().is_canceled()
            note.write_text("begun")
            until(ray.get_runtime_context().is_canceled, 60)
            note.write_text("asked")

        def now(self):
            return ray.get_runtime_context().is_canceled()
    actor = ray.remote(Asking).options(**options).remote()
    ref = actor.run.remote(note)
    until(note.exists)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref)
    assert ray.get(actor.now.remote()) is False
    until(lambda: note.read_text() == "asked", 60)
    assert ray.get_runtime_context().is_canceled() is False
