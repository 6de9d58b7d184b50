"""Serialization of user classes, and the errors about classes that cannot be sent."""

import threading

import pytest

from miniray.util import deregister_serializer, inspect_serializability, register_serializer


class Connection:
    """Cannot be sent by itself."""

    def __init__(self, where):
        self.where, self.lock = where, threading.Lock()


@pytest.fixture
def registered():
    register_serializer(Connection, serializer=lambda made: made.where, deserializer=lambda where: Connection(where))
    yield
    deregister_serializer(Connection)


def test_a_registered_class_is_sent_as_its_serializer_says(ray, registered):
    assert ray.get(ray.put(Connection("here"))).where == "here"

    @ray.remote
    def where(connection, more):
        return connection.where + more["other"].where
    assert ray.get(where.remote(Connection("a"), {"other": Connection("b")})) == "ab"


def test_a_worker_registers_for_what_it_sends(ray):
    @ray.remote
    def make():
        register_serializer(Connection, serializer=lambda made: made.where, deserializer=lambda where: where.upper())
        return [Connection("there")]
    assert ray.get(make.remote()) == ["THERE"]


def test_a_class_that_is_not_registered_any_more_is_not_sent(ray, registered):
    deregister_serializer(Connection)
    with pytest.raises(TypeError, match="lock"):
        ray.put(Connection("here"))
    deregister_serializer(Connection)  # no effect


def test_inspect_finds_what_cannot_be_sent(capsys):
    good, failures = inspect_serializability([1, "x", lambda: 2], name="good")
    assert good and failures == set()
    lock = threading.Lock()

    def use():
        return lock
    good, failures = inspect_serializability(use, name="use")
    assert not good and [failure.obj for failure in failures] == [lock]
    assert "lock" in capsys.readouterr().out
