"""util.multiprocessing.Pool: behaviour that programs written for multiprocessing.Pool or Ray's expect."""

import itertools
import os
import threading
import time

import pytest

from miniray.util.multiprocessing import Pool, TimeoutError


@pytest.fixture(scope="module")
def pool(ray):
    with Pool(processes=2) as pool:
        yield pool


def double(x):
    return 2 * x


def add(x, y, z=0):
    return x + y + z


def fail_at_three(x):
    if x == 3:
        raise ValueError("three")
    return x


def test_map_keeps_the_order(pool):
    assert pool.map(double, range(20)) == [2 * i for i in range(20)]
    assert pool.map(double, []) == []


@pytest.mark.parametrize("chunksize", [1, 3, 100])
def test_map_takes_a_chunksize(pool, chunksize):
    assert pool.map(double, range(10), chunksize=chunksize) == [2 * i for i in range(10)]


def test_a_lambda_and_a_closure_can_be_mapped(pool):
    n = 10
    assert pool.map(lambda x: x + n, [1, 2]) == [11, 12]


def test_starmap_unpacks(pool):
    assert pool.starmap(add, [(1, 2), (3, 4, 5)]) == [3, 12]
    assert pool.starmap_async(add, zip([1, 2], [3, 4])).get() == [4, 6]


def test_apply_takes_args_and_kwargs(pool):
    assert pool.apply(add, (1, 2)) == 3
    assert pool.apply(add, (1,), {"y": 2, "z": 3}) == 6
    assert pool.apply(os.getpid) != os.getpid()


def test_apply_async_gives_a_result_for_later(pool):
    result = pool.apply_async(add, (1, 2))
    result.wait()
    assert result.ready() and result.successful() and result.get(timeout=60) == 3


def test_map_async_gives_a_list_for_later(pool):
    assert pool.map_async(double, range(5)).get() == [0, 2, 4, 6, 8]


def test_get_raises_what_the_function_raised(pool):
    with pytest.raises(ValueError, match="three"):
        pool.map(fail_at_three, range(6))
    with pytest.raises(ValueError, match="three"):
        pool.apply(fail_at_three, (3,))
    result = pool.map_async(fail_at_three, range(6))
    result.wait()
    assert not result.successful()


def _wait_for_ever():
    threading.Event().wait()


def test_a_result_that_is_not_there_is_not_ready(ray):
    with Pool(1) as pool:
        result = pool.apply_async(_wait_for_ever)
        assert not result.ready()
        with pytest.raises(ValueError, match="not ready"):
            result.successful()
        with pytest.raises(TimeoutError):
            result.get(timeout=0.01)


def test_callbacks_are_called_with_the_result(pool):
    told, there = [], threading.Event()

    def tell(value):
        told.append(value)
        there.set()
    pool.apply_async(add, (1, 2), callback=tell)
    assert there.wait(60) and told == [3]
    there.clear()
    pool.map_async(double, [1, 2], callback=tell)
    assert there.wait(60) and told[1] == [2, 4]


def test_error_callbacks_are_called_with_the_exception(pool):
    told, there = [], threading.Event()
    pool.apply_async(fail_at_three, (3,), callback=told.append,
                     error_callback=lambda error: (told.append(error), there.set()))
    assert there.wait(60) and [type(each) for each in told] == [ValueError]


def test_imap_keeps_the_order(pool):
    assert list(pool.imap(double, range(30))) == [2 * i for i in range(30)]
    assert list(pool.imap(double, range(30), chunksize=7)) == [2 * i for i in range(30)]


def test_imap_of_an_iterable_without_end(pool):
    assert list(itertools.islice(pool.imap(double, itertools.count()), 5)) == [0, 2, 4, 6, 8]


def test_imap_unordered_gives_all(pool):
    assert sorted(pool.imap_unordered(double, range(30), chunksize=4)) == [2 * i for i in range(30)]


def test_imap_goes_on_after_an_error(pool):
    results = pool.imap(fail_at_three, range(6))
    got = []
    while len(got) < 6:
        try:
            got.append(next(results))
        except ValueError:
            got.append("error")
    assert got == [0, 1, 2, "error", 4, 5]
    with pytest.raises(StopIteration):
        next(results)


def test_a_process_that_dies_is_replaced(ray):
    def exit_at(value):
        if value == 2:
            os._exit(1)
        return value
    with Pool(1) as pool:
        with pytest.raises(ray.exceptions.RayActorError):
            pool.apply(exit_at, (2,))
        assert pool.map(exit_at, [5, 6]) == [5, 6]
        results = pool.imap(exit_at, [1, 2])
        assert next(results) == 1
        with pytest.raises(ray.exceptions.RayActorError):
            next(results)
        with pytest.raises(StopIteration):
            next(results)


def test_imap_next_times_out(ray):
    with Pool(1) as pool:
        for results in (pool.imap(lambda _: _wait_for_ever(), [1]), pool.imap_unordered(lambda _: _wait_for_ever(), [1])):
            with pytest.raises(TimeoutError):
                results.next(timeout=0.01)


def test_the_initializer_runs_in_every_process(ray, tmp_path):
    def begin(name, value):
        os.environ[name] = value

    def meet(_):  # returns when both processes have an item
        (tmp_path / str(os.getpid())).touch()
        until = time.monotonic() + 30
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
            time.sleep(0.001)
        return os.getpid(), os.environ.get("POOL_TEST")

    with Pool(2, begin, ("POOL_TEST", "begun")) as pool:
        seen = pool.map(meet, range(8), chunksize=1)
    assert {value for _, value in seen} == {"begun"} and len({pid for pid, _ in seen}) == 2
    with pytest.raises(TypeError):
        Pool(1, initializer="no function")


def test_maxtasksperchild_makes_processes_anew(ray):
    with Pool(1, maxtasksperchild=2) as pool:
        pids = [pool.apply(os.getpid) for _ in range(6)]
    assert [len(set(pids[at:at + 2])) for at in (0, 2, 4)] == [1, 1, 1] and len(set(pids)) == 3


def test_a_closed_pool_takes_nothing_more(ray):
    pool = Pool(1)
    result = pool.map_async(double, range(3))
    with pytest.raises(ValueError, match="still running"):
        pool.join()
    pool.close()
    for call in (pool.apply, pool.map, pool.imap, pool.imap_unordered, pool.starmap, pool.map_async):
        with pytest.raises(ValueError, match="not running"):
            call(double, [1])
    pool.join()
    assert result.get() == [0, 2, 4]


def test_terminate_ends_what_runs(ray):
    pool = Pool(1)
    result = pool.apply_async(_wait_for_ever)
    pool.terminate()
    pool.join()
    with pytest.raises(ray.exceptions.RayActorError):
        result.get()


def test_wrong_numbers_of_processes_are_refused(ray):
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="must be at least 1"):
            Pool(processes=wrong)
    with pytest.raises(ValueError, match="only 2 CPUs"):
        Pool(processes=3)


def test_a_pool_starts_the_runtime(run_program):
    done = run_program("""
        from miniray.util.multiprocessing import Pool
        def square(x):
            return x * x
        pool = Pool(processes=2)
        print(pool.map(square, range(4)))
    """)
    assert done.stdout == "[0, 1, 4, 9]\n"


def test_a_pool_that_ends_its_own_work_says_nothing(run_program):
    done = run_program("""
        import time, miniray
        from miniray.util.multiprocessing import Pool
        with Pool(2) as pool:
            for _ in range(4):
                pool.apply_async(time.sleep, (600,))
            pool.map_async(time.sleep, [600] * 8, callback=print)
            time.sleep(0.3)
        del pool

        @miniray.remote
        class Sleeper:
            def sleep(self):
                time.sleep(600)
        sleeper = Sleeper.remote()
        refs = [sleeper.sleep.remote() for _ in range(3)]
        miniray.wait(refs, timeout=0.3)
        miniray.kill(sleeper)
        miniray.wait(refs, num_returns=3)
        del refs

        @miniray.remote
        class Leaver:
            def leave(self):
                miniray.actor.exit_actor()
        leavers = [Leaver.remote(), Leaver.remote()]
        leavers[0].leave.remote()
        leavers[1].__ray_terminate__.remote()
        from miniray._private.test_utils import wait_for_condition
        wait_for_condition(lambda: {row.state for row in miniray.util.state.list_actors()} <= {"DEAD"}, timeout=30)
        print("over")
    """)
    assert done.stdout == "over\n" and done.stderr == ""


def test_joblib_runs_on_a_pool(run_program):
    pytest.importorskip("joblib")
    done = run_program("""
        import os, joblib, miniray
        from miniray.util.joblib import register_ray
        register_ray()
        miniray.init(num_cpus=2)
        def work(x):
            return x * x, os.getpid()
        with joblib.parallel_backend("ray"):
            found = joblib.Parallel(n_jobs=8)(joblib.delayed(work)(x) for x in range(20))
        print([square for square, _ in found] == [x * x for x in range(20)], os.getpid() in dict(found).values())
    """)
    assert done.stdout == "True False\n"


def test_joblib_that_is_not_installed_is_told(run_program):
    done = run_program("""
        import sys
        sys.modules["joblib"] = None
        try:
            from miniray.util.joblib import register_ray
        except ImportError as error:
            print(error)
    """)
    assert "needs joblib" in done.stdout and "miniray.util.multiprocessing.Pool" in done.stdout
