"""Half precision on the wire and in arrays: bits are those of a NumPy twin with float32 weights. Ranks that are left out of
steps. Skipped without NumPy."""

import threading

import pytest

np = pytest.importorskip("numpy")

from miniray import ps  # noqa: E402  what is not installed is noticed first

RANKS = 2


def to_bf16(values):
    """float32, rounded to bfloat16: to the nearest, ties to even."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


ROUND = {"fp32": lambda values: values, "bf16": to_bf16,
         "fp16": lambda values: values.astype(np.float16).astype(np.float32)}


def together(deployment, play, ranks=RANKS):
    """Runs play(connection, rank) for each rank at once; the results by rank."""
    found, threads = [None] * ranks, []

    def run(rank):
        try:
            with deployment.connect(rank) as connection:
                found[rank] = play(connection, rank)
                connection.flush()  # or the next connection of the rank would repeat the last step
        except BaseException as error:
            found[rank] = error

    for rank in range(ranks):
        threads.append(threading.Thread(target=run, args=(rank,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    for result in found:
        if isinstance(result, BaseException):
            raise result
    return found


@pytest.fixture(scope="module")
def rounds():
    with ps.start(num_servers=2, num_workers=RANKS, replicas=2, consistency="bsp") as deployment:
        yield deployment


@pytest.fixture(scope="module")
def connection():
    with ps.start(num_servers=1, num_workers=1) as deployment, deployment.connect() as connection:
        yield connection


def gradient(seed, rank, step, size):
    chance = np.random.default_rng([seed, rank, step])
    return (chance.standard_normal(size) * 10.0 ** chance.integers(-6, 4, size)).astype(np.float32)


@pytest.mark.parametrize("precision", ROUND)
def test_bits_are_those_of_a_twin(rounds, precision):
    """Over random gradients of many magnitudes: push in the precision, float32 weights, pull in the precision."""
    size, keys, steps, trainings = 30_000, np.array([7, 3, 900, 12]), 4, [(seed, dtype) for seed in range(3)
                                                                         for dtype in (np.float32, np.float16)]

    def play(connection, rank):
        begun = first = connection.begin()
        seen = {"first": first}
        for step in range(steps + 1):
            for seed, dtype in trainings:
                name = f"{precision} {seed} {dtype.__name__}"
                dense = connection.table(name, arrays={"w": (size,)}, optimizer="sgd", lr=0.5, precision=precision)
                rows = connection.table(f"{name} rows", dim=3, optimizer="sgd", lr=0.5, precision=precision)
                array, found = np.empty(size, dtype), np.empty((len(keys), 3), dtype)
                dense.pull(out={"w": array})
                rows.pull(keys, out=found)
                seen[seed, dtype, step] = array, found, dense.pull()["w"]
                if step < steps:
                    dense.push({"w": gradient(seed, rank, step, size).astype(dtype)})
                    rows.push(keys, gradient(seed, rank, step, 3 * len(keys)).astype(dtype).reshape(-1, 3))
            connection.end()
            begun = connection.begin()
        assert begun == first + steps + 1
        connection.end()
        return seen

    everything = together(rounds, play)
    narrow = ROUND[precision]
    assert everything[0]["first"] == everything[1]["first"]
    for seed, dtype in trainings:
        weights, rows = np.zeros(size, np.float32), np.zeros(3 * len(keys), np.float32)
        for step in range(steps + 1):
            for seen in everything:
                array, found, full = seen[seed, dtype, step]
                assert array.dtype == dtype and found.dtype == dtype and full.dtype == np.float32
                assert np.array_equal(array, narrow(weights).astype(dtype))
                assert np.array_equal(full, narrow(weights))
                assert np.array_equal(found.ravel(), narrow(rows).astype(dtype))
            for values, count in ((weights, size), (rows, 3 * len(keys))):
                pushed = [narrow(gradient(seed, rank, step, count).astype(dtype).astype(np.float32)) for rank in range(RANKS)]
                values -= np.float32(0.5) * (pushed[0] + pushed[1])


def test_a_checkpoint_keeps_the_precision(tmp_path):
    exact = np.array([1.001, -3.7], np.float32)
    for begun in range(2):
        with ps.start(num_servers=1, num_workers=1, checkpoint_dir=str(tmp_path)) as deployment, \
                deployment.connect() as connection:
            if begun == 0:
                table = connection.table("kept", arrays={"w": 2}, precision="bf16")
                table.set({"w": exact})  # not rounded
                connection.flush()
                deployment.checkpoint()
            table = connection.table("kept")
            assert table.options["precision"] == "bf16"
            assert np.array_equal(table.pull()["w"], to_bf16(exact))
            if begun == 1:  # the servers have float32
                table.push({"w": to_bf16(exact) * -1})
                assert np.array_equal(table.pull()["w"], to_bf16(exact - to_bf16(exact)))


def test_arrays_of_any_float_dtype(connection):
    table = connection.table("any", dim=2)
    half = np.array([[1, 2], [3, 4]], np.float16)
    table.push([5, 1], half)
    table.push([5], np.array([[0.5, 0.25]], np.float32))
    assert table.pull([5]).dtype == np.float32 and table.pull([5]).tolist() == [[1.5, 2.25]]
    pulled = table.push_pull([1, 5], half)
    assert pulled.dtype == np.float16 and pulled.tolist() == [[4, 6], [4.5, 6.25]]
    table.push([5, 5], half)  # repeated keys are added up
    assert table.pull([5]).tolist() == [[8.5, 12.25]]
    table.set([9], np.array([[70000, 1]], np.float32))
    out = np.empty((1, 2), np.float16)
    assert table.pull([9], out=out) is out and out.tolist() == [[np.inf, 1]]
    vectors = connection.table("any vectors", kind="vectors")
    vectors.push([3, 1], [np.ones(2, np.float16), np.ones(3, np.float16)])
    assert [vector.tolist() for vector in vectors.push_pull([1, 3], [np.ones(3, np.float16), np.ones(2, np.float16)])] == [
        [2, 2, 2], [2, 2]]
    assert vectors.pull([1])[0].dtype == np.float32
    ordered = connection.table("any ordered", dim=2, ordered=True, precision="bf16")
    ordered.push_range(10, half)
    assert ordered.push_pull_range(10, half).dtype == np.float16
    assert ordered.pull_range(0, 99)[1].tolist() == [[2, 4], [6, 8]]
    dense = connection.table("any arrays", arrays={"a": 2, "b": 2})
    dense.push({"a": half[0], "b": np.ones(2, np.float32)})
    pulled = dense.push_pull({"a": half[0], "b": np.ones(2, np.float32)})
    assert (pulled["a"].dtype, pulled["b"].dtype) == (np.float16, np.float32)
    assert pulled["a"].tolist() == [2, 4] and pulled["b"].tolist() == [2, 2]


def test_dtypes_that_do_not_fit(connection):
    table, counts = connection.table("floats", dim=1), connection.table("counts", dtype="int64")
    vectors = connection.table("mixed", kind="vectors")
    with pytest.raises(TypeError, match=r"values are float64, and the table has float32: convert with astype\('float32'\)"):
        table.push([1], np.ones(1))
    with pytest.raises(TypeError, match="values are float16, and the table has int64"):
        counts.push([1], np.ones(1, np.float16))
    with pytest.raises(TypeError, match="out is int64, and the table has float32"):
        table.pull([1], out=np.empty(1, np.int64))
    with pytest.raises(TypeError, match="vector 1 is float16, and those before it are float32"):
        vectors.push([1, 2], [np.ones(1, np.float32), np.ones(1, np.float16)])
    for options, text in (
            (dict(precision="bf61"), "unknown precision 'bf61'; expected fp32, bf16 or fp16; did you mean bf16"),
            (dict(precision="bf16", dtype="int64"), "precision 'bf16': a table of int64 cannot have it"),
            (dict(average=True), "only bsp tables can average over the ranks, and table 'wrong' is asp")):
        with pytest.raises(ValueError, match=text):
            connection.table("wrong", dim=1, **options)
    with pytest.raises(TypeError, match="skip_nonfinite must be True or False, not 'yes'"):
        table.push([1], [1], skip_nonfinite="yes")


def test_a_precision_halves_the_bytes(connection):
    values, sizes = np.ones((1000, 8), np.float32), {}
    for precision in ROUND:
        table = connection.table(f"bytes {precision}", dim=8, precision=precision)
        before = connection.traffic
        table.push(range(0, 2000, 2), values)
        after = connection.traffic
        sizes[precision] = after["push_bytes_sent"] - before["push_bytes_sent"]
        assert after["push_bytes"] - before["push_bytes"] >= values.nbytes
        assert table.options["precision"] == precision
    assert sizes["fp32"] - sizes["bf16"] == sizes["fp32"] - sizes["fp16"] == values.nbytes // 2
    assert connection.table("bytes fp16").options["precision"] == "fp16"
    assert connection.table("own", dim=1, dtype="float16").options["precision"] == "fp16"
    assert connection.table("whole", dtype="int64").options["precision"] is None


def test_a_rank_is_left_out(rounds):
    """The mean is that of the rank that takes part; a step without a push is a gradient of 0."""
    def play(connection, rank):
        mean = connection.table("mean", arrays={"w": 4}, optimizer="sgd", lr=1, average=True, precision="fp16")
        total = connection.table("total", dim=1)
        before, seen = connection.skipped, []
        for step in range(6):
            connection.begin()
            seen.append((mean.pull()["w"].tolist()[0], float(total.pull([1])[0])))
            total.push([1], [1])
            wrong = {1: np.nan, 2: np.inf, 3: 70000}.get(step, 1) if rank == 1 else 1
            if step == 4 and rank == 1:
                connection.skip()
            if step != 5 or rank == 0:
                mean.push({"w": np.array([2, 2, 2, wrong], np.float32)}, skip_nonfinite=True)
            connection.end()
        connection.begin()
        seen.append((mean.pull()["w"].tolist()[0], float(total.pull([1])[0])))
        connection.end()
        return seen, connection.skipped - before

    (seen, none), (other, left_out) = together(rounds, play)
    assert seen == other and (none, left_out) == (0, 4)
    assert seen == [(0, 0), (-2, 2), (-4, 3), (-6, 4), (-8, 5), (-10, 6), (-11, 8)]


def test_without_rounds_a_push_is_left_out(connection):
    table = connection.table("careful", dim=2)
    before = connection.skipped
    table.push([1], [[1, 2]], skip_nonfinite=True)
    table.push([1], [[1, float("nan")]], skip_nonfinite=True)
    assert table.push_pull([1], [[float("inf"), 1]], skip_nonfinite=True).tolist() == [[1, 2]]
    assert connection.skipped - before == 2
