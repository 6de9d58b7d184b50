"""Graphs that are bound first and executed later: Ray's DAG API."""

import pickle

import pytest

from miniray.dag import PARENT_CLASS_NODE_KEY, PREV_CLASS_METHOD_CALL_KEY, DAGNode, InputNode, MultiOutputNode


@pytest.fixture(scope="module")
def functions(ray):
    def add(x, y=0):
        return x + y

    def double(x):
        return 2 * x
    return ray.remote(add), ray.remote(double)


@pytest.fixture(scope="module")
def Counter(ray):
    @ray.remote
    class Counter:
        def __init__(self, value=0):
            self.value = value

        def increase(self, by):
            self.value += by
            return self.value

        def get(self):
            return self.value
    return Counter


def test_a_bound_function_runs_when_it_is_executed(ray, functions):
    add, _ = functions
    node = add.bind(1, y=2)
    assert [ray.get(node.execute()) for _ in range(2)] == [3, 3]


def test_nodes_are_arguments_of_nodes(ray, functions):
    add, double = functions
    assert ray.get(add.bind(double.bind(3), add.bind(1, 2)).execute()) == 9


def test_a_node_that_is_used_twice_runs_once(ray, functions, tmp_path):
    add, _ = functions

    @ray.remote
    def note(path):
        with open(path, "a") as file:
            file.write("x")
        return 1
    noted = note.bind(tmp_path / "noted")
    assert ray.get(add.bind(noted, noted).execute()) == 2
    assert (tmp_path / "noted").read_text() == "x"


def test_nodes_inside_of_values_become_references(ray, functions):
    _, double = functions

    @ray.remote
    def total(refs, named):
        return sum(ray.get(refs)) + ray.get(named["x"])
    assert ray.get(total.bind([double.bind(1), double.bind(2)], {"x": double.bind(3)}).execute()) == 12


def test_a_bound_class_is_an_actor_of_each_run(ray, Counter):
    counter = Counter.bind(10)
    first = counter.increase.bind(1)
    assert ray.get(first.execute()) == 11
    assert ray.get(first.execute()) == 11


def test_methods_run_in_the_order_in_which_they_were_bound(ray, functions, Counter):
    add, _ = functions
    one, two = Counter.bind(10), Counter.bind(10)
    one.increase.bind(2)
    one.increase.bind(4)
    two.increase.bind(6)
    assert ray.get(add.bind(one.get.bind(), two.get.bind()).execute()) == 32


def test_a_bound_class_is_a_handle_where_it_is_an_argument(ray, Counter):
    @ray.remote
    def ask(handle):
        assert isinstance(handle, ray.actor.ActorHandle)
        return ray.get(handle.get.remote())

    @ray.remote
    class Outer:
        def __init__(self, inner):
            self.inner = inner

        def get(self):
            return ray.get(self.inner.get.remote())
    assert ray.get(ask.bind(Counter.bind(7)).execute()) == 7
    assert ray.get(Outer.bind(Counter.bind(8)).get.bind().execute()) == 8


def test_methods_of_an_actor_that_is_there_can_be_bound(ray, functions, Counter):
    _, double = functions
    counter = Counter.remote(1)
    node = double.bind(counter.increase.bind(1))
    assert [ray.get(node.execute()) for _ in range(2)] == [4, 6]
    assert isinstance(ray.get(Counter.bind(3).execute().get.remote()), int)


def test_the_input_is_what_execute_is_given(ray, functions):
    add, double = functions
    with InputNode() as given:
        node = add.bind(double.bind(given), given)
    assert [ray.get(node.execute(x)) for x in (1, 5)] == [3, 15]


def test_parts_of_the_input(ray, functions):
    add, _ = functions
    with InputNode() as given:
        by_place, by_name = add.bind(given[0], given[1]), add.bind(given[0], given.y)
        by_key = add.bind(given["a"], given["b"])
    assert ray.get(by_place.execute(1, 2)) == 3
    assert ray.get(by_name.execute(1, y=2)) == 3
    assert ray.get(by_place.execute([3, 4])) == 7
    assert ray.get(by_key.execute({"a": 5, "b": 6})) == 11

    class Point:
        x, y = 7, 8
    with InputNode() as given:
        node = add.bind(given.x, given.y)
    assert ray.get(node.execute(Point())) == 15
    with pytest.raises(AssertionError, match="only use int index or str"):
        with InputNode() as given:
            given[(1, 2)]


def test_several_ends(ray, functions):
    add, double = functions
    with InputNode() as given:
        node = MultiOutputNode([add.bind(given, 1), double.bind(given)])
    assert ray.get(node.execute(5)) == [6, 10]
    with pytest.raises(ValueError):
        MultiOutputNode(add.bind(1))


def test_wrong_uses_of_the_input_are_told(ray, functions, Counter):
    add, _ = functions
    with pytest.raises(ValueError, match="InputNode should not take any args or kwargs"):
        InputNode(0)
    with pytest.raises(ValueError, match="cannot be used as args, kwargs"):
        with InputNode() as given:
            Counter.bind(given)
    with pytest.raises(AssertionError, match="should be only used in context manager"):
        add.bind(InputNode()).execute(1)
    with InputNode() as one, InputNode() as other:
        node = add.bind(one, other)
    with pytest.raises(AssertionError, match="only have one unique InputNode"):
        node.execute(1)


def test_options_travel_with_the_nodes(ray, Counter):
    counter = Counter.options(max_restarts=1).bind(10)
    before = counter.increase.options(name="v1").bind(2)
    node = counter.get.bind()
    assert ray.get(node.execute()) == 12
    assert counter.get_options()["max_restarts"] == 1 and node.get_options() == {}
    assert node.get_other_args_to_resolve()[PARENT_CLASS_NODE_KEY] is counter
    assert node.get_other_args_to_resolve()[PREV_CLASS_METHOD_CALL_KEY] is before
    assert before.get_options() == {"name": "v1"} and before.get_args() == (2,)


def test_remote_and_bind_of_nodes_are_refused(ray, functions, Counter):
    add, _ = functions
    with pytest.raises(AttributeError, match=r"\.bind\(\) cannot be used again on"):
        Counter.bind().bind()
    with pytest.raises(AttributeError, match=r"\.remote\(\) cannot be used on ClassMethodNodes"):
        Counter.bind().get.remote()
    with pytest.raises(AttributeError, match="'Counter' has no attribute 'remote'"):
        Counter.bind().remote()
    with pytest.raises(AttributeError, match=r"\.remote\(\) cannot be used on"):
        add.bind(1).remote()
    with pytest.raises(ValueError, match="cannot be serialized"):
        pickle.dumps(DAGNode([], {}, {}, {}))


def test_errors_pass_through_the_graph(ray, functions):
    add, _ = functions

    @ray.remote
    def fail():
        raise KeyError("lost")
    with pytest.raises(KeyError):
        ray.get(add.bind(fail.bind(), 1).execute())


def test_a_compiled_graph_runs_as_it_is(ray, Counter):
    counter = Counter.remote(0)
    with InputNode() as given:
        compiled = counter.increase.bind(given).experimental_compile()
    assert [ray.get(compiled.execute(1)) for _ in range(3)] == [1, 2, 3]
    compiled.teardown()
