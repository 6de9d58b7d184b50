"""A node that several drivers join: Python and C call each other's actors with plain data."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import miniray

BUILD = os.environ["MINIRAY_TEST_BUILD"]
COMMAND = os.path.join(BUILD, "miniray")
PROGRAM = os.path.join(BUILD, "tests", "c-program")


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """The address of a standalone node."""
    address = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"python-{os.getpid()}")
    subprocess.run([COMMAND, "start", f"--address={address}", "--num-cpus=2"], check=True, stdout=subprocess.DEVNULL)
    yield address
    subprocess.run([COMMAND, "stop", f"--address={address}"], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def joined(node, stopped):
    stopped.init(address=node, namespace="shared")
    yield stopped
    stopped.shutdown()


def program(node, what, **options):
    return subprocess.Popen([PROGRAM, what], env={**os.environ, "MINIRAY_ADDRESS": node}, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_program_joins_a_node(joined):
    @joined.remote
    def double(x):
        return 2 * x
    assert joined.get([double.remote(i) for i in range(10)]) == [2 * i for i in range(10)]


def test_what_belongs_to_the_node_is_not_asked_for(node, stopped):
    with pytest.raises(ValueError, match="miniray start"):
        stopped.init(address=node, num_workers=3)


def test_a_node_that_is_not_there(stopped, tmp_path):
    with pytest.raises(ConnectionError, match="no node is running"):
        stopped.init(address=str(tmp_path / "nobody"))
    assert not stopped.is_initialized()


def test_the_environment_names_the_node(node, run_program):
    done = run_program("""
        import miniray, os
        @miniray.remote
        def parent():
            return os.getppid()
        print(miniray.get(parent.remote()) != os.getpid())
    """, environment={"MINIRAY_ADDRESS": node})
    assert done.stdout == "True\n"


def test_programs_call_each_others_actors(joined, node, run_program):
    @joined.remote
    class Shared:
        def add(self, a, b=1):
            return a + b
    kept = Shared.options(name="shared one").remote()
    assert joined.get(kept.add.remote(1)) == 2
    done = run_program(f"""
        import miniray
        miniray.init(address={node!r}, namespace="shared")
        other = miniray.get_actor("shared one")
        print(miniray.get(other.add.remote(40, b=2)))
    """)
    assert done.stdout == "42\n"
    joined.kill(kept)


def test_a_detached_actor_outlives_its_program(joined, node, run_program):
    run_program(f"""
        import miniray
        miniray.init(address={node!r}, namespace="shared")
        @miniray.remote
        class Counter:
            def __init__(self):
                self.value = 0
            def add(self):
                self.value += 1
                return self.value
        counter = Counter.options(name="lasting", lifetime="detached").remote()
        assert miniray.get(counter.add.remote()) == 1
    """)
    counter = joined.get_actor("lasting")
    assert joined.get(counter.add.remote()) == 2
    joined.kill(counter)


def test_a_detached_placement_group_outlives_its_program(joined, node, run_program):
    run_program(f"""
        import miniray
        miniray.init(address={node!r}, namespace="shared")
        for name, lifetime in (("lasting", "detached"), ("passing", None)):
            group = miniray.util.placement_group([{{"CPU": 0.1}}], name=name, lifetime=lifetime)
            assert group.wait(60)
    """)
    group = joined.util.get_placement_group("lasting")
    assert joined.util.placement_group_table(group)["state"] == "CREATED"
    while "passing" in [facts["name"] for facts in joined.util.placement_group_table().values()]:
        time.sleep(0.01)  # the driver of the actor has just ended
    inside = joined.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group)
    where = joined.remote(lambda: miniray.util.get_current_placement_group())
    assert joined.get(where.options(num_cpus=0.1, scheduling_strategy=inside).remote()) == group
    joined.util.remove_placement_group(group)


def test_c_calls_a_python_actor(joined, node):
    @joined.remote
    class Python:
        def add(self, a, b):
            return a + b

        def double(self, array):
            assert isinstance(array, np.ndarray)
            return array * 2

        def fail(self):
            raise ValueError("on purpose")
    kept = Python.options(name="python's").remote()
    assert joined.get(kept.add.remote(1, 1)) == 2
    out, errors = program(node, "call").communicate(timeout=60)
    assert out == "42\nfloat32 1 8\nTASK_FAILED\ntold\n", errors
    joined.kill(kept)


def test_python_calls_a_c_actor(joined, node):
    process = program(node, "serve")
    try:
        assert process.stdout.readline() == "ready\n"
        counter = joined.get_actor("c's")
        assert joined.get([counter.add.remote(1), counter.add.remote(2)]) == [101, 103]
        assert joined.get(counter.total.remote(np.ones((100, 100), dtype=np.float32))) == 10_000.0
        value = {"a": [1, 2.5, None, True], "b": (b"x", "y"), ("k", 1): np.arange(3)}
        got = joined.get(counter.echo.remote(value))
        assert got["a"] == value["a"] and got["b"] == value["b"] and (got["k", 1] == value["k", 1]).all()
        assert joined.get(counter.echo.remote({1, 2})) == {1, 2}  # C passes on values that it cannot read
        with pytest.raises(miniray.exceptions.RayError, match="float32 is wanted, not float64"):
            joined.get(counter.total.remote(np.ones(3)))
        with pytest.raises(Exception, match="no_such_method"):
            joined.get(counter.no_such_method.remote())
    finally:
        process.communicate("", timeout=60)
    assert process.returncode == 0
