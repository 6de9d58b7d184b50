"""Tables of the key-value parameter server, from one worker."""

import time

import numpy as np
import pytest

from miniray import _core, ps


@pytest.fixture(scope="module")
def connection():
    with ps.start(num_servers=2, num_workers=1) as deployment, deployment.connect() as connection:
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
        table.push([1], np.ones((1, 3), np.float32), wait=False)  # the array is dropped immediately
    connection.flush()
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
    big = np.asfortranarray(rows(300, 2000))  # several blocks, and not contiguous
    table = connection.table("large", arrays={"w": big.shape})
    table.push({"w": big}, wait=False).wait()
    assert np.array_equal(table.pull()["w"], big)


def test_vectors_of_any_length(connection):
    table = connection.table("vectors", kind="vectors")
    table.push([8, 2], [[1, 2, 3], [4]])
    assert [vector.tolist() for vector in table.pull([2, 8, 5], [2, 3, 1])] == [[4, 0], [1, 2, 3], [0]]
    with pytest.raises(ValueError, match="1 of 2 keys are repeated"):
        table.push([1, 1], [[1], [2]])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_vectors_of_unknown_lengths(connection, dtype):
    table = connection.table(f"unknown {dtype}", kind="vectors", dtype=dtype)
    vectors = {key: (np.arange(key % 9 + 1) + key).astype(dtype) for key in range(1, 400, 3)}
    table.push(list(vectors), list(vectors.values()))
    table.push([1], [np.ones(20, dtype)])  # the vector grows
    vectors[1] = np.concatenate([[1, 2], np.zeros(18)]).astype(dtype) + np.ones(20, dtype)
    for keys in ([], [1], [4, 1, 1, 2, 4], np.arange(400)[::-1], range(400)):
        ticket, seen = table.pull(keys, wait=False), []
        for found in (table.pull(keys), ticket.wait(), ticket.wait()):
            assert len(found) == len(keys)
            for key, vector in zip(keys, found):
                wanted = vectors.get(int(key), np.empty(0, dtype))
                assert vector.dtype == wanted.dtype and np.array_equal(vector, wanted)
        table.pull(keys, done=lambda ticket: seen.append(ticket.wait())).wait()
        while not seen:
            time.sleep(0.001)
        assert [vector.tolist() for vector in seen[0]] == [vector.tolist() for vector in found]
    assert [len(vector) for vector in table.pull([1, 2], [3, 1])] == [3, 1]
    with pytest.raises(TypeError):
        table.pull(["a"])


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
    (dict(kind="flat"), "unknown kind of table 'flat'"), (dict(dtype="float8"), "unknown dtype 'float8'"), (dict(dim=-1), "dim is -1"),
    (dict(optimizer="best"), "unknown optimizer 'best'; expected one of add, sgd"), (dict(lr=-0.1), "lr is -0.1"), (dict(kind="dense"), "arrays"),
    (dict(schedule="later"), "later"), (dict(initializer="random"), "random"), (dict(arrays={"w": (0, 2)}), r"\(0, 2\)"),
    (dict(arrays={"w": (2,)}, kind="sparse"), "arrays are for the kind .dense."), (dict(dim=2**32), "dim is 4294967296"), (dict(dim=0), "dim is 0"),
    (dict(optimizer="sgd", lr=0), "lr is 0: it must be above 0"), (dict(optimizer="sgd", lr=1e-300), "lr is 1e-300"),
    (dict(optimizer="sgd", lr=1e300), "lr is 1e\\+300"), (dict(optimizer="sgd", lr=float("nan")), "lr is nan"),
    (dict(lr=0.1), "'add' has no rate; these have: sgd"), (dict(optimizer="sgd", momentum=0.9), "these have: momentum, nesterov"),
    (dict(compression="gzip"), "unknown codec 'gzip'; expected none, fp16, .* lz4 and zstd"), (dict(dtype=float), "unknown dtype 'float'"),
    (dict(compression="int8+gzip"), "unknown codec 'int8.gzip'; expected none, fp16"), (dict(optimizer="own:"), "unknown optimizer"),
])
def test_options_that_cannot_be(connection, options, told):
    with pytest.raises(ValueError, match=told):
        connection.table("wrong", **options)


@pytest.mark.parametrize("options, told", [
    (dict(learning_rate=0.1), "a table takes no learning_rate: it is called lr"), (dict(weight_decay=0.1), "it is called decay"),
    (dict(optimiser="sgd"), "takes no optimiser; did you mean optimizer"), (dict(zzz=1), "takes no zzz; it takes kind, dim, dtype"), (dict(lr="0.1"), "not .0.1."),
    (dict(lr=True), "lr must be a number, not True"), (dict(lr=[0.1]), "not .0.1."), (dict(refuse_nan="no"), "True or False, not 'no'"),
    (dict(average=0.5), "True or False"), (dict(arrays=[3]), "a dict such as .* not .3."), (dict(arrays={"w": (2.5,)}), "whole number"),
    (dict(arrays={"w": "ab"}), "whole number"), (dict(compression=8), "compression must be a str"), (dict(optimizer=3), "a str, not 3"),
])
def test_options_that_are_none(connection, options, told):
    with pytest.raises(TypeError, match=told):
        connection.table("wrong", **options)


def test_hyperparameters_are_options_and_are_documented(connection):
    names = [name for name, _ in _core.ps_hyperparameters]
    assert len(set(names)) == len(names) and {"momentum", "epsilon", "l2"} <= set(names)
    table = connection.table("hyper", dim=1, optimizer="adam", beta1=0.5, epsilon=0.25)
    assert {name: table.options[name] for name in names} == {**dict.fromkeys(names, 0.0), "beta1": 0.5,
                                                             "beta2": float(np.float32(0.999)), "epsilon": 0.25}
    for name, text in _core.ps_hyperparameters:
        assert f"{name:<10}{text}\n" in ps.Connection.table.__doc__
    with pytest.raises(ValueError, match="adam: beta1 is 2; expected at least 0 and below 1"):
        connection.table("wrong", dim=1, optimizer="adam", beta1=2)


def test_options_as_numpy_has_them(connection):
    table = connection.table("numpy's", arrays={"w": np.int64(3), "b": np.ones((2, 2))}, dtype=np.float16,
                             optimizer="sgd", lr=np.float32(0.5), average=np.bool_(False))
    assert table.shapes == {"w": (3,), "b": (2, 2)} and table.dtype == "float16" and table.options["lr"] == 0.5
    rows = connection.table("numpy's rows", dim=np.int32(3), optimizer="adam", seed=np.uint64(7))
    for made in (table, rows):  # the repr of a table creates an equal one
        assert connection.table(made.name, **made.options).options == made.options


@pytest.mark.parametrize("keys, values, error, told", [
    ([1, 2], np.ones((2, 3), np.float32), ValueError, r"of shape \[2, 3\]; expected \[2, 2\]"),
    ([1, 2], np.ones((2, 2)), TypeError, "float64, and the table has float32"),
    ([1, -2], np.ones((2, 2), np.float32), ValueError, "from 0 to"),
    (np.array([1, -2]), np.ones((2, 2), np.float32), ValueError, "one is -2"),
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
    with ps.start(num_servers=1) as deployment:
        connection = deployment.connect()
        table = connection.table("closed", dim=1)
        connection.close()
        connection.close()
        for ask in (connection.begin, connection.flush, connection.tables, lambda: table.pull([1])):
            with pytest.raises((RuntimeError, ps.PsError), match="closed"):
                ask()


def test_a_program_without_numpy(run_program):
    done = run_program("""
        import sys
        from miniray import ps
        with ps.start(num_servers=1) as deployment, deployment.connect() as connection:
            table = connection.table("plain", dim=2)
            table.push([7, 3, 7], [[1, 2], [3, 4], [5, 6]])
            print(table.pull([3, 7]).tolist(), connection.table("n", arrays={"w": 2}).pull()["w"].tolist())
        print("torch" in sys.modules)
    """)
    assert done.stdout == "[[3.0, 4.0], [6.0, 8.0]] [0.0, 0.0]\nFalse\n"


def test_an_optimizer_that_only_servers_know_is_asked_for_there(connection):
    """Server programs in C may have such optimizers (tests/ps_server_test.c); the servers here have none."""
    with pytest.raises(ps.PsError, match="server 0 has no optimizer 'mine': every server program must list it"):
        connection.table("wrong", dim=2, optimizer="own:mine", lr=0.1)
    assert "wrong" not in connection.tables()


def test_results_are_numpy_arrays_without_an_import(run_program):
    done = run_program("""
        import sys
        from miniray import ps
        with ps.start(num_servers=1, actors=False) as deployment, deployment.connect() as connection:
            assert "numpy" not in sys.modules
            rows, dense = connection.table("rows", dim=2, ordered=True), connection.table("dense", arrays={"w": (2, 2)})
            rows.push([7], [[1, 2]])
            keys, values = rows.pull_range()
            print(rows.pull([7]).tolist(), *{type(each).__module__ for each in
                  (rows.pull([7]), dense.pull()["w"], keys, values, connection.empty(3))})
    """)
    assert done.stdout.split("\n")[0] == "[[1.0, 2.0]] numpy"


def test_results_without_numpy(run_program):
    done = run_program("""
        import sys
        sys.modules["numpy"] = None  # not installed
        from miniray import ps
        with ps.start(num_servers=1, actors=False) as deployment, deployment.connect() as connection:
            rows = connection.table("rows", dim=2)
            rows.push([7], [[1, 2]])
            print(rows.pull([7]).tolist(), type(rows.pull([7])).__name__)
    """)
    assert done.stdout.split("\n")[0] == "[[1.0, 2.0]] memoryview"
