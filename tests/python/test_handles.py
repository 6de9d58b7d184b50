"""Handles know the methods of their class, whatever process they come from."""

import pytest


@pytest.fixture(scope="module")
def Pair(ray):
    @ray.remote
    class Pair:
        def __init__(self, left=1, right=2):
            self.values = left, right

        @ray.method(num_returns=2)
        def both(self):
            return self.values

        def add(self, more, *, twice=False):
            return sum(self.values) + more * (2 if twice else 1)

        @staticmethod
        def fixed(a):
            return a

        @classmethod
        def named(cls, a):
            return cls.__name__ + a

        def myself(self):
            return ray.get_runtime_context().current_actor

    return Pair


def wrong_ways(handle):
    """The errors of wrong uses of a handle."""
    def told(way):
        try:
            way()
        except Exception as error:
            return type(error).__name__, str(error).split(".")[-1]
    return [told(lambda: handle.add.remote()), told(lambda: handle.add.remote(1, 2)),
            told(lambda: handle.add.remote(1, thrice=True)), told(lambda: handle.subtract),
            told(lambda: handle.fixed.remote())]


TOLD = [
    ("TypeError", "add() missing 1 required positional argument: 'more'"),
    ("TypeError", "add() takes 2 positional arguments but 3 were given"),
    ("TypeError", "add() got an unexpected keyword argument 'thrice'; did you mean twice?"),
    ("AttributeError", "'Pair' object has no attribute 'subtract'; the actor's methods are add, both, fixed, myself, named"),
    ("TypeError", "fixed() missing 1 required positional argument: 'a'"),
]


def test_the_creators_handle(ray, Pair):
    assert wrong_ways(Pair.remote()) == TOLD


def test_a_handle_found_by_name(ray, Pair):
    made = Pair.options(name="found pair").remote()
    found = ray.get_actor("found pair")
    assert found == made and wrong_ways(found) == TOLD
    left, right = found.both.remote()
    assert ray.get([left, right]) == [1, 2]


def test_a_handle_that_is_an_argument(ray, Pair):
    @ray.remote
    def use(handle):
        return wrong_ways(handle), ray.get(handle.both.remote()), ray.get(handle.add.remote(1, twice=True)), repr(handle)

    pair = Pair.remote(3, 4)
    assert ray.get(use.remote(pair)) == (TOLD, [3, 4], 9, repr(pair))


def test_a_handle_inside_of_values_and_results(ray, Pair):
    @ray.remote
    def use(box):
        return ray.get(box["pairs"][0].both.remote())

    pair = Pair.remote(5, 6)
    assert ray.get(use.remote({"pairs": [pair]})) == [5, 6]
    mine = ray.get(pair.myself.remote())
    assert mine == pair and ray.get(mine.both.remote()) == [5, 6]


def test_a_handle_of_an_actor_that_a_task_made(ray, Pair):
    @ray.remote
    def make():
        return Pair.remote(7, 8)

    pair = ray.get(make.remote())
    assert wrong_ways(pair) == TOLD and ray.get(pair.both.remote()) == [7, 8]


def test_static_and_class_methods(ray, Pair):
    pair = Pair.remote()
    assert ray.get([pair.fixed.remote(1), pair.named.remote("!")]) == [1, "Pair!"]


def test_dir_and_hasattr_of_a_handle_from_elsewhere(ray, Pair):
    pair = Pair.options(name="dir pair").remote()
    found = ray.get_actor("dir pair")
    assert {"both", "add", "fixed"} <= set(dir(found)) and hasattr(found, "add") and not hasattr(found, "subtract")
    del pair


def test_a_class_with_more_methods_than_can_be_told(ray):
    methods = {f"a_method_with_a_long_name_{number:03}": (lambda self, a, b=1: a + b) for number in range(400)}
    Wide = ray.remote(type("Wide", (), methods))
    made = Wide.options(name="wide").remote()
    found = ray.get_actor("wide")
    assert ray.get(found.a_method_with_a_long_name_399.remote(1)) == 2
    del made


def test_what_every_actor_can_do(ray, Pair):
    pair = Pair.remote()
    assert ray.get(pair.__ray_ready__.remote()) is True
    assert ray.get(pair.__ray_call__.remote(lambda self, more: sum(self.values) + more, 4)) == 7
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(pair.__ray_terminate__.remote())


def test_options_of_a_method_at_the_call(ray, Pair):
    pair = Pair.remote()
    assert ray.get(pair.both.options(num_returns=1).remote()) == (1, 2)
    assert ray.get(pair.add._remote(args=[1], kwargs={"twice": True})) == 5
    with pytest.raises(ValueError):
        pair.both.options(num_cpus=1)


def test_options_of_a_call_are_not_those_of_the_next(ray, Pair):
    handle = Pair.remote()
    for _ in range(3):
        assert ray.get(handle.both.remote()) == [1, 2]
        assert ray.get(handle.both.options(num_returns=1).remote()) == (1, 2)
        assert ray.get(handle.both.options(max_task_retries=1).remote()) == [1, 2]
        assert ray.get(handle.both.options().remote()) == [1, 2]
        assert ray.get(handle.add.remote(3)) == 6


def test_a_method_outlives_the_name_of_its_handle(ray, Pair):
    handle = Pair.remote()
    first, second = handle.add, handle.add
    assert ray.get(first.remote(1)) == ray.get(handle.add.remote(1)) == 4
    del first
    assert ray.get(handle.fixed.remote(7)) == 7
    del handle
    assert ray.get(second.remote(2)) == 5


def test_a_method_is_looked_for_at_each_call(ray):
    @ray.remote
    class Plain:
        def value(self):
            return 1

    @ray.remote
    class Async:
        async def value(self):
            return 1

    for handle in Plain.remote(), Async.remote():
        assert ray.get([handle.value.remote(), handle.value.remote()]) == [1, 1]
        ray.get(handle.__ray_call__.remote(lambda self: setattr(type(self), "value", lambda self: 2)))
        assert ray.get(handle.value.remote()) == 2


def test_methods_decorated_with_nothing_to_say(ray):
    @ray.remote
    class Plain:
        @ray.method()
        def one(self):
            return 1
    assert ray.get(Plain.remote().one.remote()) == 1


def test_kill_without_the_right_to_a_restart(ray, Pair):
    pair = Pair.options(max_restarts=-1).remote()
    assert ray.get(pair.add.remote(0)) == 3
    ray.kill(pair)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(pair.add.remote(0))


def test_kill_with_a_restart(ray):
    @ray.remote(max_restarts=1, max_task_retries=-1)
    class Phoenix:
        def process(self):
            import os
            return os.getpid(), ray.get_runtime_context().was_current_actor_reconstructed

    phoenix = Phoenix.remote()
    first, again = ray.get(phoenix.process.remote())
    assert not again
    ray.kill(phoenix, no_restart=False)
    for _ in range(1000):
        second, again = ray.get(phoenix.process.remote())
        if second != first:
            break
    assert second != first and again


def test_kill_takes_actors_only(ray):
    with pytest.raises(ValueError, match="kill.. takes an actor, not"):
        ray.kill(ray.put(1))


def test_exit_actor(ray, tmp_path):
    @ray.remote(max_restarts=-1)
    class Leaver:
        def __init__(self, path):
            import atexit
            atexit.register(lambda: path.write_text("left"))

        def leave(self):
            ray.actor.exit_actor()

        def stay(self):
            return 1

    leaver = Leaver.remote(tmp_path / "note")
    assert ray.get(leaver.stay.remote()) == 1
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(leaver.leave.remote())
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(leaver.stay.remote())
    assert (tmp_path / "note").read_text() == "left"
    with pytest.raises(TypeError, match="non-actor"):
        ray.actor.exit_actor()


def test_shutdown_in_a_task_changes_nothing(ray):
    @ray.remote
    def end():
        ray.shutdown()
        return ray.is_initialized()
    assert ray.get([end.remote() for _ in range(4)]) == [True] * 4


def test_get_actor_checks_its_arguments(ray):
    for name in ("", None, 3):
        with pytest.raises(ValueError, match="takes the name of an actor, not"):
            ray.get_actor(name)
    with pytest.raises(ValueError, match="namespace"):
        ray.get_actor("x", namespace="")
    with pytest.raises(TypeError, match="namespace"):
        ray.get_actor("x", namespace=3)
    with pytest.raises(ValueError):
        ray.get_actor("nobody is called this")


def test_actors_in_name_spaces(ray, Pair):
    here = Pair.options(name="spaced").remote(1, 1)
    there = Pair.options(name="spaced", namespace="elsewhere").remote(2, 2)
    assert ray.get_actor("spaced") == here
    assert ray.get_actor("spaced", namespace="elsewhere") == there
    assert ray.get_actor("spaced", "elsewhere") == there
    with pytest.raises(ValueError):
        ray.get_actor("spaced", namespace="nowhere")


def test_get_if_exists_in_a_name_space(ray, Pair):
    options = {"name": "once", "namespace": "some", "get_if_exists": True}
    first, second = Pair.options(**options).remote(), Pair.options(**options).remote()
    assert first == second
