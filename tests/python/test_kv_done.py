"""Completion callbacks of requests: `done=` of tables."""

import threading
import time

import numpy as np
import pytest

from miniray import ps


@pytest.fixture(scope="module")
def deployment():
    with ps.start(num_servers=2, num_workers=1) as deployment:
        yield deployment


@pytest.fixture
def connection(deployment):
    with deployment.connect(0) as connection:
        yield connection


class Heard:
    """Tickets, in the order of their callbacks."""

    def __init__(self):
        self.tickets, self._semaphore = [], threading.Semaphore(0)

    def __call__(self, ticket):
        self.tickets.append(ticket)
        self._semaphore.release()

    def wait(self, count=1):
        for _ in range(count):
            assert self._semaphore.acquire(timeout=60)
        return self.tickets[-1]


def test_of_every_request(connection):
    heard = Heard()
    rows = connection.table("done rows", dim=2, ordered=True)
    vectors = connection.table("done vectors", kind="vectors")
    arrays = connection.table("done arrays", arrays={"a": (3,), "b": (2, 2)})
    ones = np.ones((2, 2), np.float32)
    ticket = rows.push([3, 1], ones, done=heard)
    assert isinstance(ticket, ps.Ticket) and heard.wait() is ticket and ticket.done
    for ask, result in (
            (lambda: rows.pull([1, 3], done=heard), ones), (lambda: rows.set([1, 3], 4 * ones, done=heard), None),
            (lambda: rows.push_pull([3, 1], ones, done=heard), 5 * ones),
            (lambda: rows.push_range(1, ones, done=heard), None),
            (lambda: rows.push_pull_range(3, ones[:1], done=heard), [[6, 6]]),
            (lambda: rows.set_range(8, ones, done=heard), None),
            (lambda: vectors.push([7, 2], [[1, 2], [3]], done=heard), None),
            (lambda: vectors.push_pull([7], [[1, 1]], done=heard), [[2, 3]]),
            (lambda: vectors.pull([2], [1], done=heard), [[3]])):
        assert ask() is heard.wait()
        found = heard.tickets[-1].wait()
        assert found is None if result is None else np.array_equal(found, result)
    pushed = {"a": np.ones(3, np.float32), "b": np.ones((2, 2), np.float32)}
    assert arrays.push(pushed, done=heard) is heard.wait()
    assert arrays.push_pull(pushed, done=heard) is heard.wait()  # one callback, though there are two requests
    assert all(np.array_equal(heard.tickets[-1].wait()[name], 2 * pushed[name]) for name in pushed)
    assert arrays.pull(done=heard) is heard.wait() and arrays.push({}, done=heard) is heard.wait()
    time.sleep(0.1)
    assert len(heard.tickets) == 14


def test_it_may_ask_for_more_and_wait(connection):
    table, heard = connection.table("done chain", dim=1), Heard()

    def again(ticket):
        if table.push_pull([1], [1.0]) < 20:
            table.push([1], [0.0], done=again)
        else:
            heard(ticket)

    table.push([1], [0.0], done=again)
    heard.wait()
    assert table.pull([1]) == 20


def test_all_of_many_are_told_of(connection):
    table, heard = connection.table("done many", dim=1), Heard()
    tickets = [table.push([number % 10], [1.0], done=heard) for number in range(3000)]
    heard.wait(3000)
    assert set(map(id, heard.tickets)) == set(map(id, tickets)) and all(ticket.done for ticket in tickets)
    assert table.pull(np.arange(10)).tolist() == [300] * 10


def test_what_it_raises_is_printed_and_the_next_one_is_called(connection, monkeypatch):
    printed, heard = [], Heard()
    monkeypatch.setattr(threading, "excepthook", lambda told: printed.append(told.exc_value))
    table = connection.table("done raises", dim=1)
    table.push([1], [1.0], done=lambda ticket: 1 / 0)
    table.push([1], [1.0], done=heard)
    heard.wait()
    assert isinstance(printed[0], ZeroDivisionError) and len(printed) == 1


def test_what_is_refused_is_not_told_of(connection):
    table, heard = connection.table("done refuses", dim=1, refuse_nan=True), Heard()
    with pytest.raises(ValueError, match="finite"):
        table.push([1], [float("nan")], done=heard)
    with pytest.raises(TypeError, match="done must be a function"):
        table.push([1], [1.0], done=3)
    table.push([1], [1.0], done=heard)
    heard.wait()
    time.sleep(0.1)
    assert len(heard.tickets) == 1


def test_a_connection_that_is_closed_tells_all(deployment):
    for _ in range(5):
        heard, connection = Heard(), deployment.connect(0)
        table = connection.table("done closed", dim=256)
        tickets = [table.pull(np.arange(2000), done=heard) for _ in range(20)]
        connection.close()
        assert len(heard.tickets) == len(tickets)
        failed = 0
        for ticket in heard.tickets:
            try:
                ticket.wait()
            except ps.PsError as error:
                assert "closed" in str(error)
                failed += 1
        assert failed < len(tickets) or failed > 0
    closes = threading.Event()
    connection = deployment.connect(0)
    connection.table("done closed").push([1], np.ones((1, 256), np.float32),
                                         done=lambda ticket: (connection.close(), closes.set()))
    assert closes.wait(60)


def test_in_bsp_it_is_told_when_the_step_is_over():
    with ps.start(num_servers=1, num_workers=1, consistency="bsp") as deployment, deployment.connect() as connection:
        table, heard = connection.table("rows", dim=1), Heard()
        for step in connection.steps(2):
            table.push([1], [1.0], done=heard)
            found = table.push_pull([2], [1.0], done=heard)
            if step > 0:
                heard.wait(2)
            assert len(heard.tickets) == 2 * step
        heard.wait(2)
        assert found.wait() == 2 and table.pull([1]) == 2
