"""Ranges of keys, and conditional pulls, from Python."""

import numpy as np
import pytest

from miniray import ps


@pytest.fixture(scope="module")
def connection():
    with ps.start(num_servers=2, num_workers=1, slots=4) as deployment, deployment.connect() as connection:
        yield connection


def test_ranges_of_an_ordered_table(connection):
    table = connection.table("ordered", dim=3, ordered=True, first_key=0, last_key=99_999)
    rows = np.arange(60_000, dtype=np.float32).reshape(20_000, 3)
    before = connection.traffic
    table.push_range(40_000, rows)
    table.push_range(40_000, rows[:2], wait=False).wait()
    after = connection.traffic
    assert after["push_bytes"] - before["push_bytes"] > rows.nbytes + 8 * len(rows)
    assert after["push_bytes_sent"] - before["push_bytes_sent"] < rows.nbytes + 1000  # no keys were sent
    rows[:2] *= 2
    keys, found = table.pull_range(39_000, 70_000)  # more than the first request returns
    assert np.array_equal(keys, np.arange(40_000, 60_000)) and np.array_equal(found, rows)
    assert np.array_equal(table.pull(np.arange(40_000, 60_000)), rows)  # these keys are not sent either
    keys, found = table.pull_range(last=40_001)
    assert keys.tolist() == [40_000, 40_001] and np.array_equal(found, rows[:2])
    assert len(table.pull_range(0, 39_999)[0]) == 0
    table.set_range(99_999, np.ones((1, 3), np.float32))
    assert table.pull_range(99_999)[1].tolist() == [[1, 1, 1]]
    with pytest.raises(ValueError, match="^keys 0 to 99999 have more rows than limit=100$"):
        table.pull_range(limit=100)
    with pytest.raises(ValueError, match="outside the table's range"):
        table.push_range(99_999, np.ones((2, 3), np.float32))
    with pytest.raises(ValueError, match="shape"):
        table.push_range(0, np.ones((2, 2), np.float32))


def test_tables_without_an_order_have_none(connection):
    table = connection.table("hashed", dim=1)
    for ask in (lambda: table.push_range(0, [1.0]), lambda: table.pull_range(0, 9)):
        with pytest.raises(ValueError, match="has no ranges"):
            ask()


def test_conditional_pulls_of_rows(connection):
    table = connection.table("marked", dim=2)
    keys, rows, version = np.arange(0, 400, 2), np.full((200, 2), 7, np.float32), table.version()
    table.push(keys, np.ones((200, 2), np.float32))
    assert table.pull(keys, out=rows, version=version) is rows and version.changed and (rows == 1).all()
    rows[:] = 5
    table.pull(keys, out=rows, version=version)
    assert not version.changed and (rows == 5).all()  # no row was sent
    table.push([4], np.ones((1, 2), np.float32))
    table.pull(keys, out=rows, version=version)
    assert version.changed and rows[2].tolist() == [2, 2] and (rows == 5).any()  # only rows of the changed slot
    for wrong, told in ((dict(keys=[3, 1], out=np.zeros((2, 2), np.float32)), "ascend"), (dict(keys=[1]), "out")):
        with pytest.raises(ValueError, match=told):
            table.pull(**wrong, version=table.version())
    with pytest.raises(TypeError, match="version"):
        table.pull(keys, out=rows, version=3)


def test_conditional_pulls_of_arrays(connection):
    table = connection.table("marked arrays", arrays={"a": (50,), "b": (3, 3)}, block=10)
    out, version = {name: np.full(shape, 7, np.float32) for name, shape in table.shapes.items()}, table.version()
    table.push({name: np.ones(shape, np.float32) for name, shape in table.shapes.items()})
    table.pull(out=out, version=version)
    assert version.changed and (out["a"] == 1).all() and (out["b"] == 1).all()
    out["b"][:] = 5
    table.pull(out=out, version=version)
    assert not version.changed and (out["b"] == 5).all()
    table.push({"b": np.ones((3, 3), np.float32)})
    table.pull(out=out, version=version)
    assert version.changed and (out["b"] == 2).all()
    with pytest.raises(ValueError, match="out"):
        connection.table("marked").pull([1], version=connection.table("marked").version())
