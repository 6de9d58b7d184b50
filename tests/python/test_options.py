"""Options of tasks and actors: those that Ray documents are accepted, wrong ones raise errors at the place of their
use."""

import pytest


@pytest.mark.parametrize("options, error", [
    ({"num_cpus": -1}, ValueError), ({"num_cpus": "1"}, TypeError), ({"num_gpus": -0.5}, ValueError),
    ({"num_gpus": 1.5}, ValueError), ({"resources": ["x"]}, TypeError), ({"resources": {"CPU": 1}}, ValueError),
    ({"resources": {"GPU": 1}}, ValueError), ({"resources": {"x": -1}}, ValueError),
    ({"num_returns": -1}, ValueError), ({"num_returns": "many"}, ValueError), ({"num_returns": 1.5}, TypeError),
    ({"max_retries": -2}, ValueError), ({"max_retries": "often"}, TypeError), ({"retry_exceptions": 3}, TypeError),
    ({"name": 3}, TypeError), ({"name": ""}, ValueError), ({"scheduling_strategy": "SOMEWHERE"}, ValueError),
    ({"max_restarts": 1}, ValueError), ({"lifetime": "detached"}, ValueError), ({"num_cpu": 1}, ValueError),
])
def test_wrong_options_of_a_function(ray, options, error):
    with pytest.raises(error):
        ray.remote(**options)(lambda: 1)
    with pytest.raises(error):
        ray.remote(lambda: 1).options(**options)


@pytest.mark.parametrize("options, error", [
    ({"num_cpus": -1}, ValueError), ({"num_gpus": 2.5}, ValueError), ({"resources": {"CPU": 1}}, ValueError),
    ({"max_restarts": -2}, ValueError), ({"max_task_retries": -2}, ValueError), ({"max_concurrency": 0}, ValueError),
    ({"max_concurrency": -1}, ValueError), ({"concurrency_groups": {"io": 0}}, ValueError),
    ({"concurrency_groups": ["io"]}, TypeError),
    ({"lifetime": "for ever"}, ValueError), ({"name": 3}, TypeError), ({"name": ""}, ValueError),
    ({"namespace": ""}, ValueError), ({"namespace": 3}, TypeError), ({"get_if_exists": True}, ValueError),
    ({"num_returns": 2}, ValueError), ({"max_retries": 2}, ValueError), ({"max_restart": 1}, ValueError),
])
def test_wrong_options_of_a_class(ray, options, error):
    class Some:
        pass
    with pytest.raises(error):
        ray.remote(**options)(Some)
    with pytest.raises(error):
        ray.remote(Some).options(**options)


def test_the_wrong_option_is_named_with_the_right_ones(ray):
    with pytest.raises(ValueError, match="num_cpu. of remote functions; did you mean num_cpus"):
        ray.remote(num_cpu=1)(lambda: 1)


@pytest.mark.parametrize("options", [
    {"memory": 1000}, {"object_store_memory": 1000}, {"accelerator_type": None}, {"max_calls": 1}, {"enable_task_events": False},
    {"scheduling_strategy": "SPREAD"}, {"scheduling_strategy": "DEFAULT"}, {"scheduling_strategy": None}, {"_metadata": {}},
    {"label_selector": {}}, {"num_gpus": 0}, {"num_cpus": None}, {"resources": {}}, {"max_retries": -1},
    {"retry_exceptions": [ValueError]}, {"runtime_env": {}}, {"runtime_env": None}, {"name": None},
])
def test_options_of_functions_that_ray_has(ray, options):
    @ray.remote(**options)
    def task():
        return 1
    assert ray.get([task.remote(), ray.remote(lambda: 2).options(**options).remote()]) == [1, 2]


@pytest.mark.parametrize("options", [
    {"memory": 1000}, {"max_pending_calls": 10}, {"scheduling_strategy": "SPREAD"}, {"lifetime": None},
    {"lifetime": "non_detached"}, {"max_restarts": -1}, {"max_task_retries": -1}, {"enable_task_events": True},
    {"max_concurrency": 2}, {"concurrency_groups": {"io": 2}}, {"num_cpus": 1}, {"name": None, "get_if_exists": False},
])
def test_options_of_classes_that_ray_has(ray, options):
    @ray.remote(**options)
    class Some:
        def get(self):
            return 1
    assert ray.get(Some.remote().get.remote()) == 1


def test_remote_needs_options_by_name(ray):
    with pytest.raises(TypeError):
        ray.remote()
    with pytest.raises(TypeError):
        ray.remote(1)
    with pytest.raises(TypeError):
        ray.remote(lambda: 1, 2)


def test_coroutines_are_no_tasks(ray):
    async def task():
        return 1
    with pytest.raises(ValueError, match="async def"):
        ray.remote(task)


def test_a_name_for_tasks(ray):
    @ray.remote
    def fail():
        raise ValueError("no")
    with pytest.raises(ValueError, match="called otherwise"):
        ray.get(fail.options(name="called otherwise").remote())


def test_the_old_way_to_give_options(ray):
    @ray.remote
    def add(a, b=1):
        return a + b

    @ray.remote
    class Box:
        def __init__(self, value):
            self.value = value

        def get(self):
            return self.value
    assert ray.get(add._remote(args=[1], kwargs={"b": 2}, num_cpus=1)) == 3
    assert ray.get(Box._remote(args=[5], name="old box").get.remote()) == 5


# ---- Arguments, in Python's own words


def the_same(ray, function, *args, **kwargs):
    """Whether `.remote` and a call raise the same error."""
    with pytest.raises(TypeError) as here:
        function(*args, **kwargs)
    with pytest.raises(TypeError) as there:
        ray.remote(function).remote(*args, **kwargs)
    return str(here.value) == str(there.value)


def two(a, b):
    pass


def some(a, /, b, *, c, d=1):
    pass


def only_names(*, a):
    pass


@pytest.mark.parametrize("args, kwargs", [((), {}), ((1,), {}), ((1, 2, 3), {}), ((1, 2), {"b": 3}), ((1,), {"c": 1})])
def test_a_wrong_call_is_told_as_python_tells_it(ray, args, kwargs):
    assert the_same(ray, two, *args, **kwargs)


@pytest.mark.parametrize("args, kwargs", [((1, 2), {}), ((), {"a": 1, "b": 2, "c": 3}), ((1, 2, 3), {"c": 1}), ((1,), {"c": 1})])
def test_a_wrong_call_with_special_parameters(ray, args, kwargs):
    assert the_same(ray, some, *args, **kwargs)


@pytest.mark.parametrize("args, kwargs", [((), {}), ((1,), {}), ((), {"b": 1})])
def test_a_wrong_call_with_names_only(ray, args, kwargs):
    assert the_same(ray, only_names, *args, **kwargs)


def test_a_wrong_call_of_a_constructor(ray):
    class Box:
        def __init__(self, value):
            pass

    class Empty:
        pass
    for args in ((), (1, 2)):
        with pytest.raises(TypeError) as here:
            Box(*args)
        with pytest.raises(TypeError) as there:
            ray.remote(Box).remote(*args)
        assert str(here.value) == str(there.value)
    with pytest.raises(TypeError, match="Empty"):
        ray.remote(Empty).remote(1)


def test_decorated_functions_are_checked_by_what_they_wrap(ray):
    import functools

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)
        return wrapper
    task = ray.remote(decorate(two))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        task.remote(1)
    assert ray.get(task.remote(1, 2)) is None


def test_options_that_were_given_can_be_read(ray):
    @ray.remote(num_cpus=2)
    def function():
        pass

    @ray.remote(num_cpus=2)
    class Class:
        pass
    for each in (function, Class):
        assert each._default_options == {"num_cpus": 2}
        assert each.options(name="x")._default_options == {"num_cpus": 2, "name": "x"}


def test_amounts_are_thousandths(ray):
    @ray.remote(num_cpus=1 / 3)
    def third():
        return ray.get_runtime_context().get_assigned_resources()["CPU"]

    assert ray.get(third.remote()) == 0.333
    assert ray.get(third.options(num_cpus=0.29).remote()) == 0.29  # slightly less than 0.29 as a float
    with pytest.raises(ValueError, match="0.001"):
        third.options(num_cpus=0.0001)


def test_a_task_may_ask_for_this_machine_by_its_address(ray):
    @ray.remote(num_cpus=0)
    def run():
        return 1
    here = f"node:{ray.util.get_node_ip_address()}"
    assert ray.cluster_resources()[here] == ray.available_resources()[here] == 1.0
    assert ray.get(run.options(resources={here: 0.01}).remote(), timeout=60) == 1
    assert ray.get(run.options(resources={"node:__internal_head__": 0.01}).remote(), timeout=60) == 1
