"""Values: the received value equals pickle's, including types."""

import collections
import enum
import math
import pickle
import threading

import cloudpickle
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as npst


def travel(ray, value):
    return ray.get(ray.put(value))


def same(a, b):
    """Whether two values are equal, with the same types at all levels; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return (a.dtype == b.dtype and a.shape == b.shape and
                (a.tobytes() == b.tobytes() if a.dtype != object else all(map(same, a.flat, b.flat))))
    if isinstance(a, (float, np.floating)):
        return math.isnan(a) and math.isnan(b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(map(same, a.keys(), b.keys())) and all(map(same, a.values(), b.values()))
    return a == b


class Colour(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    TWO = 2


class MyList(list):
    pass


class MyStr(str):
    pass


class MyDict(dict):
    pass


Point = collections.namedtuple("Point", "x y")

keys = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(),
                 st.tuples(st.integers(), st.text()))
numbers = st.one_of(st.integers(), st.integers(-2**63 - 2, 2**63 + 2), st.floats(), st.booleans())
texts = st.one_of(st.text(), st.text(st.characters(blacklist_categories=())), st.binary())
odd = st.one_of(st.just(Colour.RED), st.just(Number.TWO), st.floats().map(np.float64), st.integers(-100, 100).map(np.int32),
                st.text().map(MyStr), st.complex_numbers(allow_nan=False), st.sets(st.integers()), st.just(Ellipsis),
                st.lists(st.integers()).map(MyList), st.builds(Point, st.integers(), st.text()),
                st.binary().map(bytearray))
dtypes = st.one_of(npst.boolean_dtypes(), npst.integer_dtypes(), npst.unsigned_integer_dtypes(),
                   npst.floating_dtypes(sizes=(16, 32, 64)), npst.complex_number_dtypes(), npst.datetime64_dtypes())
arrays = npst.arrays(dtypes, npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))


def grow(children):
    return st.one_of(st.lists(children), st.lists(children).map(tuple), st.dictionaries(keys, children))


plain = st.recursive(st.one_of(st.none(), numbers, texts, arrays), grow, max_leaves=20)
anything = st.recursive(st.one_of(st.none(), numbers, texts, arrays, odd), grow, max_leaves=20)
quick = settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@quick
@given(value=plain)
def test_plain_values_come_out_as_pickle_gives_them(ray, value):
    assert same(travel(ray, value), pickle.loads(cloudpickle.dumps(value)))


@quick
@given(value=anything)
def test_any_values_come_out_as_pickle_gives_them(ray, value):
    assert same(travel(ray, value), pickle.loads(cloudpickle.dumps(value)))


@settings(max_examples=50, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(value=anything)
def test_values_come_back_from_a_worker(ray, value):
    assert same(ray.get(_echo(ray).remote(value)), pickle.loads(cloudpickle.dumps(value)))


def _echo(ray):
    if not hasattr(_echo, "made"):
        _echo.made = ray.remote(lambda value: value)
    return _echo.made


@pytest.mark.parametrize("value", [2**63 - 1, -2**63, 2**63, -2**63 - 1, 10**40, True, 0, -1], ids=repr)
def test_ints_of_every_size(ray, value):
    assert same(travel(ray, value), value)


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1e308], ids=repr)
def test_floats_keep_their_bits(ray, value):
    assert same(travel(ray, value), value)


@pytest.mark.parametrize("value", ["", "ä", "🦆", "\0", "\udc80", "x" * 100_000, b"", b"\0\xff" * 50_000], ids=lambda v: repr(v[:4]))
def test_texts_and_bytes(ray, value):
    assert same(travel(ray, value), value)


@pytest.mark.parametrize("kind", [MyList, MyDict, MyStr, Point])
def test_subclasses_stay_what_they_are(ray, kind):
    value = kind(1, "y") if kind is Point else kind()
    assert type(travel(ray, [value])[0]) is kind


def test_a_list_that_is_met_twice_is_one_list_at_the_other_end(ray):
    inner = [1]
    got = travel(ray, [inner, inner])
    assert got[0] is got[1]
    got = travel(ray, {"a": inner, "b": (inner,)})
    assert got["a"] is got["b"][0]


def test_an_array_that_is_met_twice_is_one_array(ray):
    array = np.arange(3)
    got = travel(ray, [array, array])
    assert got[0] is got[1]


def test_a_shared_tuple_keeps_the_list_in_it_one(ray):
    pair = ([],)
    got = travel(ray, [pair, pair])
    assert got[0][0] is got[1][0]


def test_a_list_that_holds_itself(ray):
    loop = [1]
    loop.append(loop)
    got = travel(ray, loop)
    assert got[1] is got


def test_many_containers_that_others_hold_too(ray):
    kept = [[i] for i in range(1000)]
    assert travel(ray, list(kept)) == kept
    assert travel(ray, {i: item for i, item in enumerate(kept)})[999] == [999]


def test_deep_nesting(ray):
    value = []
    for _ in range(200):
        value = [value]
    got, depth = travel(ray, value), 0
    while got:
        got, depth = got[0], depth + 1
    assert depth == 200


def test_nesting_too_deep_is_told(ray):
    value = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ValueError, match="nested too deeply"):
        ray.put(value)
    while value:
        value = value.pop()


def test_wide_values(ray):
    value = list(range(100_000))
    assert travel(ray, value) == value
    value = {str(i): i for i in range(20_000)}
    assert list(travel(ray, value).items()) == list(value.items())


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4), (1,) * 8, (1,) * 9])
@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ">f8", "c16", "M8[s]", "S3", "O"])
def test_arrays_of_every_kind(ray, shape, dtype):
    array = np.ones(shape).astype(dtype)
    assert same(travel(ray, array), array)


def test_arrays_that_are_not_in_one_piece(ray):
    array = np.arange(24).reshape(4, 6)
    for view in (array.T, array[::2], array[:, 1:3], np.asfortranarray(array), array[::-1]):
        assert same(travel(ray, view), pickle.loads(pickle.dumps(view)))


def test_arrays_whose_numbers_lie_in_another_way(ray):
    shifted = np.zeros(41, dtype=np.uint8)[1:].view(np.float64)  # at odd addresses
    shifted[:] = range(5)
    locked = np.arange(4)
    locked.flags.writeable = False
    for array in (np.arange(5, dtype=">i4"), np.arange(5, dtype="<f8"), shifted, locked, np.ones((1,) * 9), np.longlong([7]),
                  np.array(["a", None], dtype=object), np.array(["2026-01-01"], dtype="M8[D]"), np.float16([0.5, -2])):
        assert same(travel(ray, array), array)
        assert same(ray.get(ray.put([array, 1]))[0], array)


def test_a_small_array_has_memory_of_its_own(ray):
    array = ray.get(ray.put(np.arange(6).reshape(2, 3)))
    assert array.flags.owndata and array.flags.writeable and array.flags.c_contiguous
    array.resize((3, 3))
    assert array.tolist() == [[0, 1, 2], [3, 4, 5], [0, 0, 0]]


def test_structured_masked_and_matrix_arrays(ray):
    assert same(travel(ray, np.zeros(3, dtype=[("a", "i4"), ("b", "f8")])), np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]))
    masked = travel(ray, np.ma.array([1, 2], mask=[0, 1]))
    assert type(masked) is np.ma.MaskedArray and masked.mask.tolist() == [False, True]
    assert type(travel(ray, np.matrix([[1]]))) is np.matrix


def test_numpy_scalars_keep_their_type(ray):
    for value in (np.float64(1.5), np.float32(2), np.int8(3), np.bool_(True), np.str_("x")):
        assert type(travel(ray, value)) is type(value)


def test_a_large_array_is_not_copied_at_get(ray):
    ref = ray.put(np.zeros(1_000_000))
    first, second = ray.get(ref), ray.get(ref)
    assert first.__array_interface__["data"][0] == second.__array_interface__["data"][0]


def test_a_large_array_outlives_its_reference(ray):
    array = ray.get(ray.put(np.arange(1_000_000)))
    for _ in range(10):
        ray.get(ray.put(np.zeros(1_000_000, dtype=int)))
    assert (array == np.arange(1_000_000)).all()


def test_a_small_array_may_be_written(ray):
    ref = ray.put(np.zeros(10))
    array = ray.get(ref)
    array += 1
    assert ray.get(ref).sum() == 0


def test_a_put_value_is_a_snapshot(ray):
    array, items = np.zeros(100_000), [1]
    refs = ray.put(array), ray.put(items)
    array += 1
    items.append(2)
    assert ray.get(refs[0]).sum() == 0 and ray.get(refs[1]) == [1]


def test_pickles_have_their_arrays_apart(ray):
    class Box:
        def __init__(self, array):
            self.array = array
    array = np.arange(100_000)
    assert (ray.get(ray.put(Box(array))).array == array).all()


def test_functions_and_classes_are_values(ray):
    base = 10

    class Local:
        def add(self, x):
            return base + x
    assert travel(ray, lambda x: x + base)(1) == 11
    assert travel(ray, Local)().add(2) == 12


class Holder:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def test_what_cannot_be_pickled_is_named(ray):
    with pytest.raises(TypeError, match=r"Holder\.inner\.items\[1\]\['lock'\] is .*lock"):
        ray.put(Holder(fine=1, inner=Holder(items=[1, {"lock": threading.Lock()}])))


def test_a_function_that_cannot_be_sent_names_its_variable(ray):
    lock = threading.Lock()
    with pytest.raises(TypeError, match="its variable 'lock'"):
        ray.remote(lambda: lock).remote()

    @ray.remote
    class Keeper:
        fine = 1

        def hold(self):
            return lock
    with pytest.raises(TypeError, match=r"the class Keeper: Keeper.hold \(its variable 'lock'\) is a lock"):
        Keeper.remote()


def test_numpy_is_not_imported_for_others(run_program):
    run_program("""
        import sys, miniray
        miniray.init(num_workers=1)
        assert miniray.get(miniray.put([1, "x", {"a": (2.5, None)}])) == [1, "x", {"a": (2.5, None)}]
        @miniray.remote
        def loaded():
            import sys
            return "numpy" in sys.modules, "torch" in sys.modules
        assert miniray.get(loaded.remote()) == (False, False)
        assert "numpy" not in sys.modules and "torch" not in sys.modules
    """)
