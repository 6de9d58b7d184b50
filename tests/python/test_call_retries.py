"""max_task_retries and retry_exceptions of a method (@method) and of a single call (.options)."""

import os

import pytest


class Tally:
    """Counts its calls in a file, so that the count survives restarts."""

    def __init__(self, path):
        self.path = path

    def _count(self):
        with open(self.path, "a") as file:
            file.write("x")
        return os.path.getsize(self.path)

    def die_before(self, wanted):
        count = self._count()
        if count < wanted:
            os._exit(1)
        return count

    def patient_die_before(self, wanted):
        return self.die_before(wanted)

    def impatient_die_before(self, wanted):
        return self.die_before(wanted)

    def fail_before(self, wanted, error=KeyError):
        count = self._count()
        if count < wanted:
            raise error(count)
        return count

    def stubborn(self, wanted, error=KeyError):
        return self.fail_before(wanted, error)

    def steps(self, wanted):
        for number in range(3):
            if number == 2 and self._count() < wanted:
                raise KeyError(number)
            yield number


class AsyncTally(Tally):
    async def fail_before(self, wanted, error=KeyError):
        return Tally.fail_before(self, wanted, error)


@pytest.fixture
def make(ray, tmp_path):
    made = []

    def make(cls=Tally, **options):
        cls = type(cls.__name__, (cls,), {"__module__": cls.__module__})
        cls.patient_die_before = ray.method(max_task_retries=4)(lambda self, wanted: self.die_before(wanted))
        cls.impatient_die_before = ray.method(max_task_retries=0)(lambda self, wanted: self.die_before(wanted))
        cls.stubborn = ray.method(max_task_retries=2, retry_exceptions=[KeyError])(
            lambda self, wanted, error=KeyError: Tally.fail_before(self, wanted, error))
        made.append(ray.remote(max_restarts=-1, **options)(cls).remote(str(tmp_path / str(len(made)))))
        return made[-1]
    yield make
    for actor in made:
        ray.kill(actor)


def test_a_call_is_sent_again_as_often_as_it_says(ray, make):
    assert ray.get(make().die_before.options(max_task_retries=3).remote(3)) == 3


def test_a_call_that_says_nothing_is_lost_with_its_process(ray, make):
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(make().die_before.remote(2))


def test_a_call_says_otherwise_than_its_actor(ray, make):
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(make(max_task_retries=5).die_before.options(max_task_retries=0).remote(3))


def test_a_method_says_how_often_it_is_sent_again(ray, make):
    assert ray.get(make().patient_die_before.remote(3)) == 3
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(make(max_task_retries=5).impatient_die_before.remote(3))


def test_the_calls_of_others_are_sent_again_too(ray, make):
    @ray.remote
    def call(actor):
        return ray.get(actor.die_before.remote(3)), ray.get(actor.patient_die_before.remote(5))
    assert ray.get(call.remote(make(max_task_retries=5))) == (3, 5)


@pytest.mark.parametrize("options", [{}, {"max_concurrency": 2}])
@pytest.mark.parametrize("cls", [Tally, AsyncTally])
def test_a_call_says_which_exceptions_it_is_run_again_for(ray, make, cls, options):
    assert ray.get(make(cls, **options).fail_before.options(max_task_retries=4, retry_exceptions=True).remote(4)) == 4
    assert ray.get(make(cls, **options).fail_before.options(max_task_retries=-1, retry_exceptions=[KeyError, OSError])
                   .remote(4, error=OSError)) == 4
    with pytest.raises(ValueError) as caught:
        ray.get(make(cls, **options).fail_before.options(max_task_retries=4, retry_exceptions=[KeyError])
                .remote(4, ValueError))
    assert caught.value.args == (1,)


def test_a_call_that_names_exceptions_is_run_again_as_often_as_its_actor_says(ray, make):
    assert ray.get(make(max_task_retries=3).fail_before.options(retry_exceptions=True).remote(4)) == 4
    with pytest.raises(KeyError) as caught:
        ray.get(make().fail_before.options(retry_exceptions=True).remote(4))
    assert caught.value.args == (1,)


def test_a_call_says_otherwise_than_its_method(ray, make):
    assert ray.get(make().stubborn.remote(3)) == 3
    assert ray.get(make().stubborn.options(max_task_retries=5).remote(6)) == 6
    for options, wanted in (({"max_task_retries": 0}, 1), ({"retry_exceptions": False}, 1), ({}, 3),
                            ({"retry_exceptions": [OSError]}, 1)):
        with pytest.raises(KeyError) as caught:
            ray.get(make().stubborn.options(**options).remote(9))
        assert caught.value.args == (wanted,)
    assert ray.get(make().stubborn.options(retry_exceptions=[OSError]).remote(3, OSError)) == 3


def test_a_generator_that_is_run_again_goes_on_where_it_was(ray, make):
    called = make().steps.options(max_task_retries=3, retry_exceptions=True)
    assert [ray.get(ref) for ref in called.remote(3)] == [0, 1, 2]


def test_a_call_with_a_concurrency_group_is_run_again(ray, make):
    actor = make(concurrency_groups={"io": 1})
    called = actor.fail_before.options(max_task_retries=3, retry_exceptions=True, concurrency_group="io")
    assert ray.get(called.remote(3)) == 3


def test_arguments_are_checked_as_ever(ray, make):
    called = make().fail_before.options(max_task_retries=3, retry_exceptions=True)
    with pytest.raises(TypeError):
        called.remote()
    with pytest.raises(TypeError, match="retry_exceptions"):
        make().fail_before.options(retry_exceptions=3)
    with pytest.raises(ValueError, match="max_task_retries"):
        make().fail_before.options(max_task_retries=-2)


def test_calls_are_run_again_in_local_mode(run_program):
    run_program("""
        import miniray as ray
        ray.init(local_mode=True)

        @ray.remote
        class Flaky:
            count = 0

            def third_time(self):
                self.count += 1
                if self.count < 3:
                    raise ValueError
                return self.count
        flaky = Flaky.remote()
        assert ray.get(flaky.third_time.options(max_task_retries=2, retry_exceptions=True).remote()) == 3
    """)
