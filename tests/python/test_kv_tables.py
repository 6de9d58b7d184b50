"""Tables of the key-value parameter server, from one worker."""

import numpy as np
import pytest

from miniray import ps


@pytest.fixture(scope="module")
def connection():
    with ps.start(servers=2, workers=1) as deployment, deployment.connect() as connection:
        yield connection


def rows(count, dim, start=0):
    return np.arange(start, start + count * dim, dtype=np.float32).reshape(count, dim)


def test_rows_by_key_in_any_order(connection):
    table = connection.table("any order", dim=2)
    keys = np.array([9, 3, 7, 2**63], np.uint64)
    table.push(keys, rows(4, 2))
    assert np.array_equal(table.pull(keys), rows(4, 2))
    assert np.array_equal(table.pull([3, 7, 9]), rows(4, 2)[[1, 2, 0]])
    assert np.array_equal(table.pull(np.array([[3, 3], [7, 1]])), [[[2, 3], [2, 3]], [[4, 5], [0, 0]]])


def test_what_is_pushed_to_a_key_twice_is_added_up(connection):
    for dtype in ("float32", "float16", "int64"):
        table = connection.table(f"twice {dtype}", dim=2, dtype=dtype)
        values = np.array([[1, 2], [10, 20], [100, 200]], dtype)
        table.push([5, 1, 5], values)
        assert np.array_equal(table.pull([1, 5]), np.array([[10, 20], [101, 202]], dtype)), dtype
        table.set([5, 1, 5], values)
        assert np.array_equal(table.pull([1, 5]), np.array([[10, 20], [100, 200]], dtype)), dtype


def test_many_keys_are_sorted_and_scattered_back(connection):
    chance = np.random.default_rng(1)
    keys, values = chance.integers(0, 2**62, 5000) % 3000 * 7919, chance.integers(0, 50, 5000)
    table = connection.table("counts", kind="sparse", dtype="int64")
    table.push(keys, values)
    sums = {}
    for key, value in zip(keys.tolist(), values.tolist()):
        sums[key] = sums.get(key, 0) + value
    assert table.pull(keys).tolist() == [sums[key] for key in keys.tolist()]


def test_tables_of_one_number_have_no_rows(connection):
    table = connection.table("numbers", dim=1)
    table.push([4, 2], [1.5, 2.5])
    assert table.pull([2, 4]).tolist() == [2.5, 1.5]
    assert table.pull(4).tolist() == 1.5


def test_requests_with_tickets(connection):
    table = connection.table("tickets", dim=3)
    pushes = [table.push([number, 1], np.ones((2, 3), np.float32), wait=False, priority=3) for number in range(2, 40)]
    assert pushes[0].wait() is None and all(push.wait(30) is None and push.done for push in pushes)
    pull = table.pull([39, 1], wait=False)
    assert pull.wait().tolist() == [[1, 1, 1], [38, 38, 38]] and pull.done and pull.wait() is not None
    for _ in range(100):
        table.push([1], np.ones((1, 3), np.float32), wait=False)  # dropped at once
    connection.settle()
    assert table.pull([1])[0, 0] == 138
    assert table.push_pull([1, 50], np.ones((2, 3), np.float32))[:, 0].tolist() == [139, 1]
    out = np.zeros((1, 3), np.float32)
    assert table.pull([50], out=out) is out and out.tolist() == [[1, 1, 1]]


def test_dense_arrays_by_name(connection):
    table = connection.table("dense", arrays={"w": (2, 3), "b": np.zeros(4)}, optimizer="sgd", lr=0.5)
    assert table.shapes == {"w": (2, 3), "b": (4,)}
    table.set({"w": rows(2, 3), "b": [1, 2, 3, 4]})
    table.push({"w": np.ones((2, 3), np.float32)})
    pulled = table.pull()
    assert np.array_equal(pulled["w"], rows(2, 3) - 0.5) and pulled["b"].tolist() == [1, 2, 3, 4]
    assert list(table.pull(["b"])) == ["b"]
    into = {"b": np.zeros(4, np.float32)}
    assert table.pull(out=into) is into and into["b"].tolist() == [1, 2, 3, 4]
    big = np.asfortranarray(rows(300, 2000))  # several blocks, and not in a row
    table = connection.table("large", arrays={"w": big.shape})
    table.push({"w": big}, wait=False).wait()
    assert np.array_equal(table.pull()["w"], big)


def test_vectors_of_any_length(connection):
    table = connection.table("vectors", kind="vectors")
    table.push([8, 2], [[1, 2, 3], [4]])
    assert [vector.tolist() for vector in table.pull([2, 8, 5], [2, 3, 1])] == [[4, 0], [1, 2, 3], [0]]
    with pytest.raises(ValueError, match="twice"):
        table.push([1, 1], [[1], [2]])


def test_tables_are_made_opened_listed_and_dropped(connection):
    table = connection.table("life", dim=2, optimizer="adagrad", lr=0.1, momentum=0)
    assert "life" in connection.tables()
    assert connection.table("life").dim == 2 and table.options["optimizer"] == "adagrad"
    assert connection.table("life", dim=2, optimizer="adagrad", lr=0.1, momentum=0).name == "life"
    with pytest.raises(ps.TableExistsError, match="dim"):
        connection.table("life", dim=3, optimizer="adagrad", lr=0.1, momentum=0)
    connection.drop("life")
    assert "life" not in connection.tables()
    for ask in (lambda: connection.table("life"), lambda: table.pull([1]), lambda: table.push([1], [[1, 2]])):
        with pytest.raises(ps.TableNotFoundError, match="life"):
            ask()


@pytest.mark.parametrize("options, told", [
    (dict(kind="flat"), "kind is 'flat'"), (dict(dtype="float8"), "dtype is 'float8'"), (dict(dim=-1), "dim is -1"),
    (dict(optimizer="best"), "optimizer is 'best'"), (dict(lr=-0.1), "lr is -0.1"), (dict(kind="dense"), "arrays"),
    (dict(schedule="later"), "later"), (dict(initializer="random"), "random"), (dict(arrays={"w": (0, 2)}), r"\(0, 2\)"),
    (dict(arrays={"w": (2,)}, kind="sparse"), "no arrays"), (dict(dim=2**32), "dim is 4294967296"),
])
def test_options_that_cannot_be(connection, options, told):
    with pytest.raises(ValueError, match=told):
        connection.table("wrong", **options)


@pytest.mark.parametrize("keys, values, error, told", [
    ([1, 2], np.ones((2, 3), np.float32), ValueError, r"\[2, 3\]: it should be \[2, 2\]"),
    ([1, 2], np.ones((2, 2)), TypeError, "float64, and the table has float32"),
    ([1, -2], np.ones((2, 2), np.float32), ValueError, "from 0 to"),
    (np.array([1, -2]), np.ones((2, 2), np.float32), ValueError, "-2 is negative"),
    ([1.5, 2], np.ones((2, 2), np.float32), TypeError, "whole numbers"),
    ([1, 2], [[1, 2], [3]], ValueError, "different lengths"),
    ([1, 2], [["a", "b"], ["c", "d"]], TypeError, "numbers"),
])
def test_wrong_values_are_refused(connection, keys, values, error, told):
    table = connection.table("refuses", dim=2)
    with pytest.raises(error, match=told):
        table.push(keys, values)
    assert np.array_equal(table.pull([1, 2]), np.zeros((2, 2)))


def test_other_wrong_requests(connection):
    table = connection.table("refuses", dim=2)
    for ask, error, told in (
            (lambda: table.pull([1], out=np.zeros((1, 3), np.float32)), ValueError, "shape"),
            (lambda: table.pull([1], priority=300), ValueError, "priority"),
            (lambda: connection.table("d", arrays={"w": 2}).push([1.0, 2.0]), TypeError, "name: array"),
            (lambda: connection.table("d", arrays={"w": 2}).pull(["v"]), KeyError, "no array 'v'"),
            (lambda: connection.table("nan", dim=1, refuse_nan=True).push([1], [float("nan")]), ValueError, "finite"),
            (lambda: __import__("pickle").dumps(connection), TypeError, "connect()"),
            (lambda: __import__("pickle").dumps(table), TypeError, "name")):
        with pytest.raises(error, match=told):
            ask()


def test_nothing_of_a_closed_connection_works():
    with ps.start(servers=1) as deployment:
        connection = deployment.connect()
        table = connection.table("closed", dim=1)
        connection.close()
        connection.close()
        for ask in (connection.begin, connection.settle, connection.tables, lambda: table.pull([1])):
            with pytest.raises((RuntimeError, ps.PsError), match="closed"):
                ask()


def test_without_numpy(run_program):
    done = run_program("""
        import sys
        from miniray import ps
        with ps.start(servers=1) as deployment, deployment.connect() as connection:
            table = connection.table("plain", dim=2)
            table.push([7, 3, 7], [[1, 2], [3, 4], [5, 6]])
            print(table.pull([3, 7]).tolist(), connection.table("n", arrays={"w": 2}).pull()["w"].tolist())
        print("numpy" in sys.modules, "torch" in sys.modules)
    """)
    assert done.stdout == "[[3.0, 4.0], [6.0, 8.0]] [0.0, 0.0]\nFalse False\n"
