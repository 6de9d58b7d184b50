"""Readers: connections that pull and hold no rank."""

import threading

import numpy as np
import pytest

import miniray
from miniray import ps

KEYS = np.arange(64)


@pytest.fixture(params=[False, True], ids=["processes", "actors"])
def deployment(request):
    if request.param:
        miniray.init(num_cpus=2)
    with ps.start(num_servers=2, slots=5, consistency="bsp", readers=1, actors=request.param) as deployment:
        yield deployment
    if request.param:
        miniray.shutdown()


def test_a_reader_sees_whole_steps_while_a_rank_trains(deployment):
    begun, over = threading.Event(), threading.Event()
    done = [0]

    def train():
        with deployment.connect(0) as connection:
            table = connection.table("t", dim=3)
            weights = connection.table("w", arrays={"a": (200,)}, block=20)
            for step in connection.steps():
                done[0] = step  # the steps before have ended
                table.push(KEYS, np.ones((len(KEYS), 3), np.float32))
                weights.push({"a": np.ones(200, np.float32)})
                if step > 0:
                    begun.set()
                if over.is_set():
                    return

    thread = threading.Thread(target=train)
    thread.start()
    try:
        assert begun.wait(60)
        with deployment.connect(reader=True) as reader:
            assert reader.rank is None and reader.num_workers == 1 and "reader" in repr(reader)
            table, weights = reader.table("t"), reader.table("w")
            for _ in range(30):
                least = done[0]
                assert least <= np.unique(table.pull(KEYS)).item()
                assert least <= np.unique(weights.pull()["a"]).item()
            over.set()
            thread.join()
            assert np.unique(table.pull(KEYS)).item() == done[0]
            assert [each["role"] for each in deployment.processes()].count("reader") == 1
    finally:
        over.set()
        thread.join()


def test_a_reader_only_pulls(deployment):
    with deployment.connect(0) as connection:
        connection.table("t", dim=3)
    with deployment.connect(reader=True) as reader:
        table = reader.table("t")
        assert reader.tables() == ["t"] and not table.pull(KEYS).any()
        for call in (reader.begin, reader.end, reader.leave, lambda: reader.barrier("b"), lambda: reader.drop("t"),
                     lambda: reader.table("new", dim=3), lambda: reader.dataset([10]), lambda: next(reader.steps(3)),
                     lambda: table.push(KEYS, np.ones((len(KEYS), 3), np.float32))):
            with pytest.raises(ps.PsError, match="this connection is a reader"):
                call()
        reader.flush()
        reader.metric("queries", 3)
    with pytest.raises(ValueError, match="a reader has no rank"):
        deployment.connect(0, reader=True)


def test_the_number_of_readers_is_limited(deployment):
    with deployment.connect(reader=True):
        with pytest.raises(ps.PsTimeoutError, match="1 reader is connected .* --readers 1"):
            deployment.connect(reader=True, timeout=0.3)
    with ps.start(num_servers=1) as other, pytest.raises(ps.PsError, match="has no readers"):
        other.connect(reader=True)


def test_a_reader_sends_and_receives_messages(deployment):
    with deployment.connect(0) as connection, deployment.connect(reader=True) as reader:
        connection.handle(1, lambda request: (request.number, request.role.encode()))
        reader.handle(1, lambda request: request.body * 2)
        response = reader.send(("worker", 0), 1)
        assert (response.head, response.body) == (0, b"reader")
        assert connection.send(("reader", 0), 1, body=b"ab").body == b"abab"
        assert [each.role for each in connection.send("workers", 1)] == ["worker"]


def test_a_stopped_deployment_begins_with_another_number_of_readers(tmp_path):
    options = dict(num_servers=1, consistency="bsp", checkpoint_dir=tmp_path / "state")
    with ps.start(**options) as deployment, deployment.connect(0) as connection:
        table = connection.table("t", dim=3)
        for _ in connection.steps(2):
            table.push(KEYS, np.ones((len(KEYS), 3), np.float32))
    with ps.start(**options, readers=2) as deployment, deployment.connect(reader=True) as first, \
            deployment.connect(reader=True) as second:
        assert (first.table("t").pull(KEYS) == 2).all() and (second.table("t").pull(KEYS) == 2).all()
