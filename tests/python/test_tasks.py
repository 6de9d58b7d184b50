"""Tasks: functions that run in workers."""

import os
import sys
import time

import numpy as np
import pytest


def test_a_task_runs_in_another_process(ray):
    @ray.remote
    def pid():
        return os.getpid()
    assert ray.get(pid.remote()) != os.getpid()


def test_remote_gives_a_reference_at_once(ray):
    @ray.remote
    def slow():
        time.sleep(0.2)
        return 1
    start = time.monotonic()
    ref = slow.remote()
    assert time.monotonic() - start < 0.15
    assert isinstance(ref, ray.ObjectRef)
    assert ray.get(ref) == 1


def test_arguments_by_place_and_by_name(ray):
    @ray.remote
    def f(a, b=2, *rest, c=3, **more):
        return a, b, rest, c, more
    assert ray.get(f.remote(1)) == (1, 2, (), 3, {})
    assert ray.get(f.remote(1, 5, 6, 7, c=8, d=9)) == (1, 5, (6, 7), 8, {"d": 9})
    assert ray.get(f.remote(a=1, c=4)) == (1, 2, (), 4, {})


def test_many_arguments(ray):
    @ray.remote
    def total(*numbers):
        return sum(numbers)
    assert ray.get(total.remote(*range(500))) == sum(range(500))


def test_wrong_arguments_are_told_at_the_call(ray):
    @ray.remote
    def f(a, b=1):
        return a
    for call in (lambda: f.remote(), lambda: f.remote(1, 2, 3), lambda: f.remote(1, c=2), lambda: f.remote(1, a=2)):
        with pytest.raises(TypeError):
            call()


def test_keyword_only_arguments(ray):
    @ray.remote
    def f(*, key):
        return key
    assert ray.get(f.remote(key=3)) == 3
    with pytest.raises(TypeError):
        f.remote()
    with pytest.raises(TypeError):
        f.remote(3)


def test_a_remote_function_is_not_called_directly(ray):
    @ray.remote
    def f():
        pass
    with pytest.raises(TypeError, match="f.remote()"):
        f()


def test_name_and_doc_stay(ray):
    @ray.remote
    def documented():
        """What it does."""
    assert documented.__name__ == "documented" and documented.__doc__ == "What it does."


def test_futures_are_arguments(ray):
    @ray.remote
    def add(a, b):
        return a + b
    assert ray.get(add.remote(add.remote(1, 2), b=add.remote(3, 4))) == 10


def test_a_chain_of_tasks(ray):
    @ray.remote
    def more(x):
        return x + 1
    ref = more.remote(0)
    for _ in range(99):
        ref = more.remote(ref)
    assert ray.get(ref) == 100


def test_one_object_for_many_tasks(ray):
    data = ray.put(np.ones(100_000))

    @ray.remote
    def total(array, factor):
        return array.sum() * factor
    assert ray.get([total.remote(data, i) for i in range(5)]) == [100_000.0 * i for i in range(5)]


def test_tasks_start_tasks(ray):
    @ray.remote
    def fib(n):
        return n if n < 2 else sum(ray.get([fib.remote(n - 1), fib.remote(n - 2)]))
    assert ray.get(fib.remote(6)) == 8


def test_nested_tasks_do_not_wait_for_themselves(ray):
    @ray.remote
    def deep(n):
        return 0 if n == 0 else 1 + ray.get(deep.remote(n - 1))
    assert ray.get(deep.remote(6)) == 6


def test_lambdas_closures_and_globals_travel(ray):
    base = {"x": 10}
    assert ray.get(ray.remote(lambda y: base["x"] + y).remote(5)) == 15
    assert ray.get(_uses_global_remote(ray)) == 42


_GLOBAL = 42


def _uses_global_remote(ray):
    def f():
        return _GLOBAL
    return ray.remote(f).remote()


def test_a_function_with_a_large_closure(ray):
    table = np.arange(200_000)

    @ray.remote
    def at(i):
        return int(table[i])
    assert ray.get([at.remote(i) for i in (0, 7, 199_999)]) == [0, 7, 199_999]


def test_a_function_defined_again_takes_effect(ray):
    @ray.remote
    def f():
        return 1
    assert ray.get(f.remote()) == 1

    @ray.remote
    def f():
        return 2
    assert ray.get(f.remote()) == 2


def test_built_in_functions_are_tasks(ray):
    assert ray.get(ray.remote(len).remote([1, 2, 3])) == 3
    assert ray.get(ray.remote(np.sum).remote([1, 2, 3])) == 6


def test_options_are_checked(ray):
    @ray.remote
    def f():
        pass
    with pytest.raises(ValueError, match="num_cpu"):
        f.options(num_cpu=1)
    with pytest.raises(ValueError):
        f.options(num_cpus=-1)
    with pytest.raises(TypeError):
        f.options(num_cpus="two")
    with pytest.raises(ValueError, match="num_gpus"):
        f.options(resources={"GPU": 1})
    with pytest.raises(TypeError):
        ray.remote()
    with pytest.raises(TypeError):
        ray.remote(1)
    with pytest.raises(ValueError):
        ray.remote(no_such_option=1)(lambda: 1)


def test_options_make_another_function(ray):
    @ray.remote(num_cpus=1)
    def f(x):
        return x
    g = f.options(num_cpus=2, max_retries=0)
    assert ray.get([f.remote(1), g.remote(2)]) == [1, 2]


def test_remote_functions_travel(ray):
    @ray.remote
    def inner(x):
        return x * 2

    @ray.remote
    def outer(f, x):
        return ray.get(f.remote(x)) + ray.get(inner.remote(x))
    assert ray.get(outer.remote(inner, 5)) == 20


def test_a_dropped_future_still_runs(ray, tmp_path):
    @ray.remote
    def touch(path):
        open(path, "w").close()
    touch.remote(str(tmp_path / "x"))
    until = time.monotonic() + 20
    while not (tmp_path / "x").exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_thousands_of_tasks(ray):
    @ray.remote
    def same(x):
        return x
    assert ray.get([same.remote(i) for i in range(3000)]) == list(range(3000))


def test_workers_find_the_drivers_modules(run_program, tmp_path):
    (tmp_path / "side").mkdir()
    (tmp_path / "side" / "helper_module.py").write_text("def answer():\n    return 42\n")
    run_program("""
        import sys
        sys.path.insert(0, "side")
        import helper_module, miniray, os
        @miniray.remote
        def f():
            return helper_module.answer(), os.getcwd()
        assert miniray.get(f.remote()) == (42, os.getcwd())
        assert miniray.get(miniray.remote(helper_module.answer).remote()) == 42
    """)


def test_workers_have_the_drivers_environment(run_program):
    run_program("""
        import os, miniray
        os.environ["GIVEN_TO_WORKERS"] = "yes"
        @miniray.remote
        def f():
            return os.environ["GIVEN_TO_WORKERS"], "MINIRAY_BOOT" in os.environ
        assert miniray.get(f.remote()) == ("yes", False)
    """)


def test_several_returns(ray):
    @ray.remote(num_returns=3)
    def three():
        return 1, "two", [3]
    refs = three.remote()
    assert len(refs) == 3 and ray.get(refs) == [1, "two", [3]]
    a, b = three.options(num_returns=2).remote()
    with pytest.raises(ValueError, match="3 objects, but num_returns=2"):
        ray.get(a)
    with pytest.raises(ValueError):
        ray.get(b)


def test_many_returns(ray):
    @ray.remote(num_returns=500)
    def many():
        return list(range(500))
    assert ray.get(many.remote()) == list(range(500))


def test_no_returns(ray, tmp_path):
    @ray.remote(num_returns=0)
    def touch(path):
        open(path, "w").close()
    assert touch.remote(str(tmp_path / "x")) is None
    until = time.monotonic() + 20
    while not (tmp_path / "x").exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_one_of_several_returns_is_an_argument(ray):
    @ray.remote(num_returns=2)
    def two(x):
        return x, x + 1

    @ray.remote
    def add(a, b):
        return a + b
    assert ray.get(add.remote(*two.remote(5))) == 11


def test_a_worker_does_not_run_what_it_left_behind_itself(run_program):
    run_program("""
        import miniray
        miniray.init(num_workers=1)
        @miniray.remote
        def inner(x):
            return x * 2
        @miniray.remote
        def outer():
            return [inner.remote(i) for i in range(3)]
        for _ in range(100):
            assert miniray.get(miniray.get(outer.remote())) == [0, 2, 4]
    """)
