"""Threads of one driver, while another thread puts or submits a large value."""

import sys
import threading

import pytest

import miniray

np = pytest.importorskip("numpy")


@pytest.fixture
def patient():
    """Threads switch only in calls that release the GIL."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(60)
    yield
    sys.setswitchinterval(before)


def _others_run_during(call):
    """Whether another thread has run during `call`."""
    go, ran = threading.Event(), []
    thread = threading.Thread(target=lambda: (go.wait(), ran.append(True)))
    thread.start()
    go.set()
    call()
    has_run = bool(ran)
    thread.join()
    return has_run


@miniray.remote
def size(value):
    return len(value)


@miniray.remote
class Sizes:
    def __init__(self, value=b""):
        self.size = len(value)

    def add(self, value):
        self.size += len(value)
        return self.size


@pytest.mark.parametrize("value", [np.zeros(1 << 25), b"x" * (1 << 28), [b"y" * (1 << 20)] * 200],
                         ids=["array", "bytes", "list"])
def test_others_run_while_something_large_is_put_or_submitted(ray, patient, value):
    refs, actor = [], Sizes.remote()
    calls = {"put": lambda: refs.append(ray.put(value)), "task": lambda: refs.append(size.remote(value)),
             "method": lambda: refs.append(actor.add.remote(value)),
             "actor": lambda: refs.append(Sizes.remote(value).add.remote(b""))}
    for name, call in calls.items():
        assert any(_others_run_during(call) for _ in range(5)), name
        expected = len(ray.get(refs[-1])) if name == "put" else ray.get(refs[-1])
        assert expected % len(value) == 0 and expected > 0
        refs.clear()


def test_what_is_in_a_list_stays_while_another_thread_empties_it(ray):
    """The values are those at the time of the call, even if another thread changes the containers."""
    for _ in range(20):
        texts, numbers = [f"{i}-" + "x" * 1000 for i in range(500)], {str(i): [float(i)] * 10 for i in range(1000)}
        value = [texts, numbers, np.arange(1 << 21)]

        def empty():
            while len(value[-1]) == 0:
                pass
            del texts[:]
            numbers.clear()

        thread = threading.Thread(target=empty)
        thread.start()
        ref = ray.put(value)
        thread.join()
        got = ray.get(ref)
        if got[0]:  # the put began first
            assert got[0] == [f"{i}-" + "x" * 1000 for i in range(500)]
        assert (got[2] == np.arange(1 << 21)).all()


@pytest.mark.parametrize("send", [miniray.put, lambda array: size.remote(array)], ids=["put", "submission"])
def test_it_waits_for_memory_that_another_thread_frees(stopped, monkeypatch, send):
    monkeypatch.setenv("MINIRAY_SPILL_DIR", "none")
    stopped.init(num_workers=1, object_store_memory=256 << 20)
    kept = [stopped.get(stopped.put(np.zeros(20 << 20, np.uint8))) for _ in range(10)]
    thread = threading.Timer(0.05, kept.clear)
    thread.start()
    ref = send(np.ones(80 << 20, np.uint8))  # there is no memory for the array before the other thread has run
    thread.join()
    got = stopped.get(ref)
    assert (got if isinstance(got, int) else got.sum()) == 80 << 20
