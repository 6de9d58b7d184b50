"""Barriers, metrics and app messages of a parameter server from Python."""

import threading
import time

import numpy as np
import pytest

from miniray import ps

APP = 3


@pytest.fixture(scope="module")
def deployment():
    with ps.start(num_servers=2, num_workers=2) as started:
        yield started


def pair(deployment):
    return deployment.connect(0), deployment.connect(1)


def test_a_barrier_waits_for_all(deployment):
    one, two = pair(deployment)
    with one, two:
        with pytest.raises(ps.PsTimeoutError, match="barrier 'start': rank 1 has not arrived"):
            one.barrier("start", timeout=0.3)
        came = []
        thread = threading.Thread(target=lambda: (one.barrier("start"), came.append(True)))
        thread.start()
        time.sleep(0.2)
        assert not came
        two.barrier("start")
        thread.join()
        assert came
        one.barrier("there", group="servers")
        with pytest.raises(ValueError, match="unknown group of a barrier .nobody."):
            one.barrier("x", group="nobody")
        with pytest.raises(ValueError, match="is NULL or empty"):
            one.barrier("")


def test_tables_and_checkpoints_are_in_the_overview(deployment):
    with deployment.connect(0) as connection:
        rows = connection.table("overview", dim=3, optimizer="adam")
        rows.push([1, 2, 3], np.ones((3, 3), np.float32))
        number = deployment.checkpoint()
        until = time.monotonic() + 60
        while True:
            overview = deployment.overview()
            found = next(table for table in overview["tables"] if table["name"] == "overview")
            if found["rows"] == 3 or time.monotonic() > until:
                break
            time.sleep(0.05)
        assert found["kind"] == "sparse" and found["dtype"] == "float32" and found["dim"] == 3
        assert found["optimizer"] == "adam" and found["compression"] == "none"
        assert found["rows"] == 3 and found["bytes"] >= 3 * 3 * 3 * 4
        checkpoints = overview["checkpoints"]
        assert checkpoints["newest"] >= number and abs(checkpoints["written"] - time.time()) < 600
        assert checkpoints["dir"] and not checkpoints["failed"] and checkpoints["error"] is None
        assert overview["stall"] is None and overview["stall_since"] is None and overview["stall_hint"] == []


def test_reports_are_on_the_board(deployment):
    one, two = pair(deployment)
    with one, two:
        one.metric("loss", 0.5)
        one.metric("loss", 0.25)
        two.metric("examples", 100)
        deadline = time.monotonic() + 60
        while True:
            board = {(row["role"], row["number"]): row for row in deployment.processes()}
            reports = board.get(("worker", 0), {}).get("metrics", {})
            if reports.get("loss", {}).get("value") == 0.25 or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        assert reports["loss"]["count"] == 2
        assert board["worker", 0]["here"] and board["server", 1]["memory"] > 0 and ("scheduler", 0) in board
        with pytest.raises(ValueError):
            one.metric("", 1)


def test_messages_are_answered(deployment):
    one, two = pair(deployment)
    with one, two:
        seen = []

        def handle(request):
            seen.append(request)
            if request.head == 13:
                raise KeyError("unlucky")
            return request.head + 1, request.body[::-1]

        two.handle(APP, handle)
        answer = one.send(("worker", 1), APP, 41, b"abc")
        assert answer == ps.Response("worker", 1, 42, b"cba", None)
        assert seen == [ps.Request("worker", 0, 41, b"abc")]
        failed = one.send(("worker", 1), APP, 13)
        assert failed.head == -1 and b"KeyError" in failed.body
        answers = one.send("workers", APP, 1, b"xy")
        assert [each.number for each in answers] == [0, 1]
        assert "nobody there handles" in answers[0].error and answers[1].body == b"yx"
        with pytest.raises(ps.PsError, match="server 0: nobody there handles"):
            one.send(("server", 0), APP)
        with pytest.raises(ValueError, match="unknown receiver"):
            one.send("everybody", APP)
        two.handle(APP, lambda request: bytes(65537))  # the sender gets an error, and the next request is handled
        for _ in range(2):
            with pytest.raises(ps.PsError, match="worker 1: no answer"):
                one.send(("worker", 1), APP)
        with pytest.raises(ValueError, match="65537 bytes"):
            one.send(("worker", 1), APP, 0, bytes(65537))
        with pytest.raises(ps.PsError, match="no rank 2"):
            one.send(("worker", 2), APP)


def test_messages_to_nobody_go_nowhere(deployment):
    one, two = pair(deployment)
    with one, two:
        seen = []
        two.handle(0, seen.append)
        for to in (("worker", 2**32 + 1), ("worker", -1), ("worker", 1.0), ("worker", True), "nobody",
                   ("worker", 1, 2)):
            with pytest.raises((TypeError, ValueError), match="number of the worker|unknown receiver"):
                one.send(to, 0)
        for wrong in (dict(app=2**32), dict(app=-1), dict(app="0"), dict(head=2**31), dict(head=1.5),
                      dict(body="text")):
            with pytest.raises((TypeError, ValueError)):
                one.send(("worker", 1), **{"app": 0, **wrong})
        for app, handler in ((2**32, print), (-1, print), ("0", print), (1, None)):
            with pytest.raises((TypeError, ValueError)):
                two.handle(app, handler)
        assert not seen and one.send(("worker", np.int64(1)), 0, -7).head == 0
        assert seen == [ps.Request("worker", 0, -7, b"")]


@pytest.mark.parametrize("answer, found", [
    (None, (0, b"")), (7, (7, b"")), (np.int32(-7), (-7, b"")), (b"abc", (0, b"abc")),
    ((3, bytearray(b"d")), (3, b"d")), (np.arange(2, dtype=np.uint8), (0, b"\0\1")), (2**40, None),
    ("text", None), ((1, 2, 3), None), ((0, 5), None),
    (("x", b""), None), (SystemExit(3), None)])
def test_answers(deployment, answer, found):
    one, two = pair(deployment)

    def handle(request):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    with one, two:
        two.handle(APP, handle)
        for _ in range(2):  # after any error the next request is handled
            response = one.send(("worker", 1), APP)
            assert response[2:4] == found if found is not None else response.head == -1 and b": " in response.body


def test_who_is_closed_answers_no_more(deployment):
    one, two = pair(deployment)
    with one:
        two.handle(APP, lambda request: b"here")
        assert one.send(("worker", 1), APP).body == b"here"
        two.close()
        with pytest.raises(ps.PsError):
            one.send(("worker", 1), APP, timeout=0.5)


def test_what_is_dropped_without_steps_is_told_to_servers_at_once(deployment):
    one, two = pair(deployment)
    with one, two:
        table = one.table("short-lived", dim=2)
        table.push([1], [[1, 2]])
        before = {row["number"]: row["step"] for row in deployment.processes() if row["role"] == "worker"}.get(0, 0)
        table.drop()
        deadline = time.monotonic() + 60
        step = before
        # The drop takes effect at the end of the step, which only this rank ends.
        while step <= before and time.monotonic() < deadline:
            time.sleep(0.05)
            step = next(row["step"] for row in deployment.processes() if (row["role"], row["number"]) == ("worker", 0))
        assert step > before
        again = one.table("short-lived", dim=2)
        assert again.pull([1]).tolist() == [[0, 0]]
