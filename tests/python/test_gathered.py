"""Arguments of some kilobytes: they are sent directly from the caller's memory, if there is room for all of them."""

import threading

import numpy
import pytest

# Sizes around the limits of messages, of separate buffers, and of rings, small or grown.
EDGES = [1024, 8 * 1024 - 56, 8 * 1024, 16 * 1024 - 200, 16 * 1024, 64 * 1024]
SIZES = [0, 1, 10 * 1024] + [edge + by for edge in EDGES for by in (-8, -1, 0, 1, 8)]


class Seer:
    def __init__(self):
        self.kept = []

    def same(self, *values):
        return values

    def writes(self, array):
        array[0] = 7
        return array

    def keep(self, array):
        self.kept.append(array)

    def all(self):
        return self.kept


@pytest.fixture(scope="module")
def seer(ray):
    return ray.remote(Seer).remote()


def numbers(size, start=0):
    return (numpy.arange(size) + start).astype(numpy.uint8)


def alike(got, given):
    return type(got) is type(given) and (
        numpy.array_equal(got, given) and got.dtype == given.dtype and got.shape == given.shape
        if isinstance(given, numpy.ndarray) else got == given)


@pytest.mark.parametrize("size", SIZES)
def test_every_size_comes_back(ray, seer, size):
    data = numbers(size)
    for given in (data, data.tobytes(), "é" * (size // 2), (1, data, [data[: size // 2], "x"], {"a": data.tobytes()})):
        (got,) = ray.get(seer.same.remote(given))
        if isinstance(given, tuple):
            assert alike(got[1], data) and alike(got[2][0], data[: size // 2]) and got[3]["a"] == data.tobytes()
        else:
            assert alike(got, given)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "int64", "float64", ">i4", "complex128"])
def test_every_dtype_comes_back(ray, seer, dtype):
    given = numpy.arange(10 * 1024 // numpy.dtype(dtype).itemsize).astype(dtype).reshape(2, -1)
    (got,) = ray.get(seer.same.remote(given))
    assert alike(got, given)


def test_arrays_that_are_no_rows(ray, seer):
    whole = numpy.arange(60 * 80, dtype=numpy.float32).reshape(60, 80)
    for given in (whole[:, :43], whole.T, whole[::2], whole[:, 3:], numpy.broadcast_to(whole[0], (50, 80))):
        assert alike(ray.get(seer.same.remote(given))[0], given)
    read_only = numpy.arange(2560, dtype=numpy.float32)
    read_only.flags.writeable = False
    assert alike(ray.get(seer.same.remote(read_only))[0], read_only)


def test_many_in_one_call(ray, seer):
    for count in (2, 3, 7, 8, 9, 40):
        given = [numbers(10 * 1024 // count + 1024 + i, start=i) for i in range(count)]
        mixed = [value for i, array in enumerate(given) for value in (i, array, str(i))]
        for values in (given, mixed):
            got = ray.get(seer.same.remote(*values))
            assert len(got) == len(values) and all(map(alike, got, values))


def test_the_caller_may_write_at_once(ray, seer):
    data = numpy.zeros(10 * 1024, dtype=numpy.uint8)
    refs = []
    for i in range(300):  # more than a ring holds, so some calls wait
        data[:] = i % 251
        refs.append(seer.same.remote(data))
    data[:] = 255
    for i, ref in enumerate(refs):
        (got,) = ray.get(ref)
        assert (got == i % 251).all()


def test_the_actor_may_write_and_keep(ray, seer):
    given = numbers(10 * 1024)
    assert ray.get(seer.writes.remote(given))[0] == 7 and given[0] == 0
    for i in range(20):
        seer.keep.remote(numpy.full(10 * 1024, i, dtype=numpy.uint8))
    for i, array in enumerate(ray.get(seer.all.remote())):
        assert (array == i).all()


def test_in_order_among_others(ray, seer):
    given = [numbers(size, start=i) for i, size in enumerate([10 * 1024, 10, 12 * 1024, 200 * 1024, 9000, 0] * 20)]
    refs = [seer.same.remote(array, i) for i, array in enumerate(given)]
    for i, (array, number) in enumerate(ray.get(refs)):
        assert number == i and alike(array, given[i])


def test_from_several_threads(ray, seer):
    wrong = []

    def work(first):
        for i in range(60):
            given = numpy.full(10 * 1024 + i, (first + i) % 256, dtype=numpy.uint8)
            if not alike(ray.get(seer.same.remote(given))[0], given):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 60, 120)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_no_argument_is_refused(ray, seer):
    with pytest.raises(TypeError):
        seer.same.remote(numbers(10 * 1024), threading.Lock())
    assert alike(ray.get(seer.same.remote(numbers(10 * 1024)))[0], numbers(10 * 1024))
