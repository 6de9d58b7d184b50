"""Functions on their way to workers: simple ones without cloudpickle, all others with it, and no difference to be seen."""

import math
import os.path
import sys
import xml.dom.minidom

import cloudpickle
import pytest

from miniray import _code, _pickle

FACTOR, TABLE = 3, {"a": 1}


def simple(function):
    """What a worker makes of it; it must be one that travels without cloudpickle."""
    data, inside = _pickle.dump_function(function)
    assert data[16:17] == _code.MARK and inside == ()
    return _pickle.load_function(data[16:], inside)


def local(x, y=2, *rest, z=3, **more):
    return x + y + sum(rest) + z + sum(more.values())


local.__qualname__ = "f.<locals>.local"  # as if it were one: not found by its name


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
