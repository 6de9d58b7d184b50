"""Serialization of functions and classes: simple ones without cloudpickle, all others with it, with the same
results."""

import gc
import marshal
import math
import os.path
import sys
import xml.dom.minidom

import cloudpickle
import pytest

from miniray._serialize import code as _code, pickle as _pickle

FACTOR, TABLE = 3, {"a": 1}


def simple(function):
    """The function as a worker loads it; asserts that it is serialized without cloudpickle."""
    data, inside = _pickle.dump_function(function)
    assert data[16:17] == _code.MARK and inside == ()
    return _pickle.load_function(data[16:], inside)


def local(x, y=2, *rest, z=3, **more):
    return x + y + sum(rest) + z + sum(more.values())


local.__qualname__ = "f.<locals>.local"  # looks like a local function, which cannot be found by its name


def test_a_lambda_travels_as_code():
    assert simple(lambda x: x * 2)(21) == 42


def test_defaults_and_keywords_stay():
    loaded = simple(local)
    assert loaded(1) == local(1) == 6
    assert loaded(1, 1, 1, z=1, other=1) == 5
    assert (loaded.__name__, loaded.__qualname__, loaded.__module__) == ("local", "f.<locals>.local", __name__)


def test_documentation_stays():
    def f():
        """What it does."""
    assert simple(f).__doc__ == "What it does."


def test_constants_of_the_program_are_those_of_the_call():
    assert simple(lambda: FACTOR * 2)() == 6


def test_modules_of_the_program_are_imported():
    assert simple(lambda: math.sqrt(16))() == 4
    assert simple(lambda: os.path.join("a", "b"))() == "a/b"


def test_modules_inside_of_packages_are_imported():
    data, _ = _pickle.dump_function(lambda: xml.dom.minidom.parseString("<a/>").documentElement.tagName)
    assert data[16:17] == _code.MARK
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith("xml.dom")}
    try:
        assert _pickle.load_function(data[16:], ())() == "a"
    finally:
        sys.modules.update(kept)


def test_functions_inside_of_functions_travel_with_it():
    def outer(n):
        def inner(k):
            return k * FACTOR
        return [inner(i) for i in range(n)]
    assert simple(outer)(3) == [0, 3, 6]


def test_generators_travel():
    def count(n):
        yield from range(n)
    assert list(simple(count)(3)) == [0, 1, 2]


def test_variables_that_a_function_sets_are_its_own():
    def note():
        global FACTOR
        FACTOR += 1
        return FACTOR
    loaded = simple(note)
    assert [loaded(), loaded()] == [4, 5] and FACTOR == 3


@pytest.mark.parametrize("function", [
    lambda: TABLE["a"], (lambda n: lambda: n)(1), lambda x=[1]: x[0], lambda: local(1, 0, z=0), test_a_lambda_travels_as_code,
])
def test_other_functions_are_left_to_cloudpickle(function):
    assert _code.dump(function) is None
    data, inside = _pickle.dump_function(function)
    loaded = _pickle.load_function(data[16:], inside)
    assert loaded() == function() if function is not test_a_lambda_travels_as_code else loaded is function


def test_annotations_and_attributes_are_kept():
    def f(x: int) -> int:
        return x
    f.note = "kept"
    data, inside = _pickle.dump_function(f)
    loaded = _pickle.load_function(data[16:], inside)
    assert loaded.__annotations__ == {"x": int, "return": int} and loaded.note == "kept"


def test_modules_registered_by_value_travel_by_value():
    assert _code.dump(lambda: 1) is not None
    cloudpickle.register_pickle_by_value(os.path)
    try:
        assert _code.dump(lambda: 1) is None
    finally:
        cloudpickle.unregister_pickle_by_value(os.path)


def test_a_program_of_simple_tasks_never_imports_cloudpickle(run_program):
    done = run_program("""
        import sys, miniray
        miniray.init(num_workers=1)

        @miniray.remote
        def double(x, y=2):
            return x * y

        print(miniray.get([double.remote(i) for i in range(3)]), "cloudpickle" in sys.modules)
    """)
    assert done.stdout.split("\n")[0] == "[0, 2, 4] False"


# ---- Classes.


def simple_class(cls):
    """The class as loaded by a worker that has not received it before."""
    data, inside = _pickle.dump_function(cls)
    assert data[16:17] == _code.CLASS_MARK and inside == ()
    _forgotten(cls)
    return _pickle.load_function(data[16:], inside)


def _forgotten(cls):
    for weak, name in list(_code._names_of_classes.items()):
        if weak() is cls:
            del _code._names_of_classes[weak], _code._classes[name]


def test_a_class_travels_as_code():
    class Counter:
        """Counts."""

        step, nothing, names = 2, None, "ab"

        def __init__(self, start=5, *, times=1):
            self.value = start * times

        def add(self):
            """One step more."""
            self.value += self.step * FACTOR
            return math.floor(self.value)

        def __eq__(self, other):
            return self.value == other.value

    loaded = simple_class(Counter)
    assert loaded is not Counter and loaded.__dict__.keys() == Counter.__dict__.keys()
    assert loaded(times=2).add() == Counter(times=2).add() == 16
    assert loaded(1) == loaded(1) and loaded.__hash__ is None
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "step", "nothing", "names"):
        assert getattr(loaded, name) == getattr(Counter, name), name
    assert (loaded.add.__qualname__, loaded.add.__doc__) == (Counter.add.__qualname__, "One step more.")


def test_methods_of_a_class_share_their_variables():
    class Noting:
        def note(self):
            global FACTOR
            FACTOR += 1

        def read(self):
            return FACTOR
    noting = simple_class(Noting)()
    noting.note()
    assert (noting.read(), FACTOR) == (4, 3)


def _odd_classes():
    class WithProperty:
        @property
        def one(self):
            return 1

    class WithStatic:
        @staticmethod
        def one():
            return 1

    class WithList:
        items = [1]

    class WithSlots:
        __slots__ = ("a",)

    class WithAnnotations:
        a: int = 1

    class Derived(WithList):
        pass

    class WithSuper:
        def __init__(self):
            super().__init__()

    class WithMeta(metaclass=type("Meta", (type,), {})):
        pass

    class WithAttributes:
        def one(self):
            return 1
        one.note = "kept"

    class Borrowing:
        one = local

    class WithTable:
        def one(self):
            return TABLE["a"]
    return [WithProperty, WithStatic, WithList, WithSlots, WithAnnotations, Derived, WithSuper, WithMeta, WithAttributes,
            Borrowing, WithTable]


@pytest.mark.parametrize("cls", [*_odd_classes(), pytest.Item, int, object], ids=lambda cls: cls.__name__)
def test_other_classes_are_left_to_cloudpickle(cls):
    assert _code.dump(cls) is None
    data, inside = _pickle.dump_function(cls)
    assert _pickle.load_function(data[16:], inside).__name__ == cls.__name__


def test_classes_are_left_to_cloudpickle_where_modules_are_registered_by_value():
    class Plain:
        pass
    cloudpickle.register_pickle_by_value(os.path)
    try:
        assert _code.dump(Plain) is None
    finally:
        cloudpickle.unregister_pickle_by_value(os.path)


def test_a_class_that_comes_again_is_the_same_with_what_it_has_now():
    class Changing:
        value = 1
    first = simple_class(Changing)
    data, _ = _pickle.dump_function(first)
    assert _pickle.load_function(data[16:], ()) is first
    changed = {**marshalled(data), 3: {"value": 2, "__doc__": None}}
    assert _code._load_class(*changed.values()) is first and first.value == 2


def marshalled(data):
    return dict(enumerate(marshal.loads(data[17:])))


def test_cloudpickle_knows_a_class_that_travelled_without_it():
    class Known:
        pass
    data, _ = _pickle.dump_function(Known)
    pickle, buffers, inside = _pickle.dumps(Known())
    assert type(_pickle.loads(pickle, buffers, tuple(inside))) is Known
    assert _pickle.load_function(data[16:], ()) is Known


def test_a_class_that_nobody_has_is_forgotten():
    class Gone:
        pass
    _pickle.dump_function(Gone)
    name = _code._name_of(Gone)
    _code.tell_cloudpickle()
    assert name in _code._classes
    del Gone
    gc.collect()
    assert name not in _code._classes and name not in _code._names_of_classes.values()


def test_an_actor_of_a_simple_class_never_imports_cloudpickle_and_gives_itself_back(run_program):
    done = run_program("""
        import sys, miniray
        miniray.init(num_workers=1)

        class Plain:
            def __init__(self, value):
                self.value = value

            def get(self):
                return self.value

            def whole(self):
                return self

            def is_mine(self, other):
                return type(other) is type(self)

        actor = miniray.remote(Plain).remote(7)
        print(miniray.get(actor.get.remote()), "cloudpickle" in sys.modules)
        whole = miniray.get(actor.whole.remote())
        print(type(whole) is Plain, whole.value, miniray.get(actor.is_mine.remote(Plain(1))))
    """)
    assert done.stdout.split("\n")[:2] == ["7 False", "True 7 True"]
