"""Errors: get() raises them again with their original types."""

import os
import pickle
import signal
import sys
import threading

import pytest


class OwnError(Exception):
    def __init__(self, message, code):
        super().__init__(message, code)
        self.code = code


@pytest.fixture
def fail(ray):
    @ray.remote
    def fail(error):
        raise error
    return fail


def test_the_exception_is_the_one_that_was_raised(ray, fail):
    with pytest.raises(ValueError) as caught:
        ray.get(fail.remote(ValueError("bad", 3)))
    assert isinstance(caught.value, ray.exceptions.RayTaskError)
    assert isinstance(caught.value, ray.exceptions.RayError)
    assert caught.value.args == ("bad", 3)
    assert type(caught.value.cause) is ValueError


def test_the_remote_traceback_is_shown(ray):
    @ray.remote
    def outer():
        def inner_function():
            return 1 / 0
        return inner_function()
    with pytest.raises(ZeroDivisionError) as caught:
        ray.get(outer.remote())
    text = str(caught.value)
    assert "inner_function" in text and "outer" in text and "division by zero" in text and "test_errors.py" in text


def test_exceptions_of_ones_own(ray, fail):
    with pytest.raises(OwnError) as caught:
        ray.get(fail.remote(OwnError("own", 17)))
    assert caught.value.code == 17


def test_exceptions_defined_in_the_program(ray):
    class Local(Exception):
        pass

    @ray.remote
    def f():
        raise Local("x")
    with pytest.raises(Local):
        ray.get(f.remote())


def test_exceptions_that_cannot_be_pickled(ray):
    class Strange(Exception):
        def __init__(self, a, b):
            self.lock = __import__("threading").Lock()

    @ray.remote
    def f():
        raise Strange(1, 2)
    with pytest.raises(ray.exceptions.RayTaskError, match="Strange"):
        ray.get(f.remote())


def test_an_error_passes_through_tasks_that_wait_for_it(ray, fail):
    @ray.remote
    def after(x):
        return x
    with pytest.raises(KeyError):
        ray.get(after.remote(after.remote(fail.remote(KeyError("k")))))


def test_an_error_passes_through_tasks_that_get_it(ray, fail):
    @ray.remote
    def middle():
        return ray.get(fail.remote(IndexError("i")))
    with pytest.raises(IndexError) as caught:
        ray.get(middle.remote())
    assert "fail" in str(caught.value)


def test_get_of_a_list_raises_the_first_error(ray, fail):
    fine = ray.put(1)
    with pytest.raises(KeyError):
        ray.get([fine, fail.remote(KeyError("first")), fine])


def test_an_error_may_be_asked_for_again(ray, fail):
    ref = fail.remote(ValueError("x"))
    for _ in range(3):
        with pytest.raises(ValueError):
            ray.get(ref)


def test_task_errors_can_be_pickled(ray, fail):
    with pytest.raises(ValueError) as caught:
        ray.get(fail.remote(ValueError("x")))
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, ValueError) and isinstance(again, ray.exceptions.RayTaskError)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_exceptions_that_end_programs_end_only_the_task(ray, error):
    @ray.remote(max_retries=0)
    def f():
        raise error
    with pytest.raises(BaseException, match=type(error).__name__):
        ray.get(f.remote())


def test_endless_recursion(ray):
    @ray.remote
    def down(n):
        return down_again(n)

    def down_again(n):
        return down_again(n + 1)
    with pytest.raises(RecursionError):
        ray.get(down.remote(0))


def test_a_result_that_cannot_be_sent(ray):
    @ray.remote
    def f():
        return __import__("threading").Lock()
    with pytest.raises(TypeError, match="lock"):
        ray.get(f.remote())


@pytest.mark.parametrize("how, told", [("os._exit(5)", "5"), ("os.kill(os.getpid(), 9)", "(?i)kill"),
                                       ("os.abort()", "SIGABRT")])
def test_a_worker_that_dies_says_of_what(ray, how, told):
    @ray.remote(max_retries=0)
    def die():
        exec(how, {"os": os})
    with pytest.raises(ray.exceptions.WorkerCrashedError, match=told):
        ray.get(die.remote())


def test_a_task_whose_worker_died_is_tried_again(ray, tmp_path):
    @ray.remote(max_retries=2)
    def once(path):
        if not os.path.exists(path):
            open(path, "w").close()
            os._exit(1)
        return "second time"
    assert ray.get(once.remote(str(tmp_path / "tried"))) == "second time"


def test_an_error_nobody_asked_for_is_printed_once(run_program):
    done = run_program("""
        import miniray, time
        @miniray.remote
        def fail():
            raise ValueError("nobody looks")
        miniray.init(num_workers=1)
        ref = fail.remote()
        miniray.wait([ref])
        del ref
        @miniray.remote
        def fine():
            return 1
        miniray.get(fine.remote())
    """)
    assert done.stderr.count("ValueError: nobody looks") >= 1
    assert done.stderr.count("its result was released without a get") == 1


def test_an_error_that_was_caught_is_not_printed(run_program):
    done = run_program("""
        import miniray
        @miniray.remote
        def fail():
            raise ValueError("looked at")
        try:
            miniray.get(fail.remote())
        except ValueError:
            pass
    """)
    assert done.stderr == ""


def test_errors_say_first_what_has_happened(ray):
    @ray.remote
    class Actor:
        def method(self):
            pass

    actor = Actor.remote()
    ray.kill(actor)
    with pytest.raises(ray.exceptions.RayActorError, match="actor died"):
        ray.get(actor.method.remote())

    @ray.remote(num_cpus=1000)
    def never():
        pass

    ref = never.remote()
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError, match="was cancelled"):
        ray.get(ref)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="there are no groups of exceptions")
def test_a_group_of_exceptions_stays_one(ray):
    @ray.remote
    def fails():
        raise ExceptionGroup("two", [ValueError("first"), TypeError("second")])  # noqa: F821

    with pytest.raises(ray.exceptions.RayTaskError, match="two") as caught:
        ray.get(fails.remote())
    found = caught.value
    assert isinstance(found, ExceptionGroup) and found.message == "two"  # noqa: F821
    assert [type(each) for each in found.exceptions] == [ValueError, TypeError]
    only, rest = found.split(ValueError)
    assert str(only.exceptions[0]) == "first" and str(rest.exceptions[0]) == "second"


def test_an_error_has_the_fields_of_its_cause(ray):
    @ray.remote
    def fail(kind):
        if kind == "os":
            raise FileNotFoundError(2, "not here", "a.txt")
        raise UnicodeDecodeError("utf-8", b"abc", 1, 2, "a reason")
    with pytest.raises(FileNotFoundError) as raised:
        ray.get(fail.remote("os"))
    assert (raised.value.errno, raised.value.strerror, raised.value.filename) == (2, "not here", "a.txt")
    with pytest.raises(UnicodeDecodeError) as raised:
        ray.get(fail.remote("text"))
    assert (raised.value.object, raised.value.start, raised.value.reason) == (b"abc", 1, "a reason")


# ---- Exceptions whose constructor arguments differ from their args.

class Refused(Exception):
    def __init__(self, code, where):
        super().__init__(f"{where} refused with {code}")
        self.code = code


def test_an_exception_is_not_made_anew(ray):
    class Local(Exception):
        def __init__(self, code, *, where):
            super().__init__(f"{where}: {code}")
            self.code = code

    @ray.remote
    def refuse(kind):
        if kind == 0:
            raise Refused(7, "the door")
        raise Local(8, where="here")
    for kind, expected, code, text in ((0, Refused, 7, "the door refused with 7"), (1, Local, 8, "here: 8")):
        with pytest.raises(Exception, match=text) as caught:
            ray.get(refuse.remote(kind))
        error = caught.value
        assert isinstance(error, ray.exceptions.RayTaskError) and error.code == code and error.args == (text,)
        assert type(error.cause).__name__ == expected.__name__ and error.cause.code == code


def test_what_failed_beside_what_get_raises_is_not_printed(run_program):
    done = run_program("""
        import miniray

        @miniray.remote
        def fail(number):
            raise ValueError(number)

        @miniray.remote(num_returns=3)
        def too_few():
            return 1, 2
        for make in (lambda: [fail.remote(number) for number in range(4)], too_few.remote):
            refs = make()
            miniray.wait(refs, num_returns=len(refs))
            try:
                miniray.get(refs)
            except ValueError:
                print("one of them")
            del refs
    """)
    assert done.stdout == "one of them\n" * 2 and done.stderr == ""


def test_an_exception_arrives_without_the_fields_that_cannot_be_sent(ray):
    @ray.remote
    def fail():
        error = KeyError("x")
        error.lock, error.number = threading.Lock(), 7
        raise error
    with pytest.raises(KeyError) as caught:
        ray.get(fail.remote())
    assert caught.value.number == 7 and not hasattr(caught.value, "lock")


@pytest.mark.parametrize("wrong, text", [
    (lambda ray, ref: ray.get(ref, timeout="1"), "timeout must be a number of seconds or None, not str"),
    (lambda ray, ref: ray.wait([ref], timeout=[]), "timeout must be a number of seconds or None, not list"),
    (lambda ray, ref: ray.wait([ref], num_returns="1"), "num_returns must be a whole number, not '1'"),
    (lambda ray, ref: ray.remote(max_retries=-2)(print), "max_retries is -2: it must be -1 \\(no limit\\), or at least 0"),
])
def test_wrong_arguments_are_named(ray, wrong, text):
    with pytest.raises((TypeError, ValueError), match=text):
        wrong(ray, ray.put(1))


def test_an_error_that_passes_through_tasks_says_through_which(ray):
    @ray.remote
    def inner(x):
        return 1 / x

    @ray.remote
    def middle(x):
        return ray.get(inner.remote(x))

    @ray.remote
    class Outer:
        async def call(self, x):
            return await middle.remote(x)
    with pytest.raises(ZeroDivisionError) as caught:
        ray.get(Outer.remote().call.remote(0))
    error, text = caught.value, str(caught.value)
    assert isinstance(error, ray.exceptions.RayTaskError) and error.function_name == "call"
    assert type(error.cause) is ZeroDivisionError and type(error).__name__ == "RayTaskError(ZeroDivisionError)"
    assert text.index("call()") < text.index("await middle.remote(x)") < text.index("middle()") < \
        text.index("ray.get(inner.remote(x))") < text.index("inner()") < text.index("return 1 / x")
    assert "raise_failure" not in text and "async_refs.py" not in text


def test_an_object_that_is_larger_than_the_store(run_program):
    done = run_program("""
        import miniray
        from miniray.exceptions import ObjectStoreFullError, RayTaskError
        miniray.init(num_workers=1, object_store_memory=64 << 20)
        @miniray.remote
        class Maker:
            def make(self, size):
                return bytes(size)
        maker = Maker.remote()
        for attempt in (lambda: miniray.put(bytes(80 << 20)), lambda: miniray.get(maker.make.remote(80 << 20))):
            try:
                attempt()
            except ObjectStoreFullError as error:
                print(isinstance(error, RayTaskError), isinstance(error, ValueError), "shared memory is" in str(error))
        print(len(miniray.get(maker.make.remote(3))))
        """)
    assert done.stdout == "False True True\nTrue True True\n3\n"


def test_the_first_cause_survives_any_depth(ray):
    """Each task of a nest waits for the next one; the text of the traceback is longer than what is kept of it."""
    class OutOfStock(LookupError):
        pass

    @ray.remote(max_retries=0)
    def nest(depth, how):
        if depth > 1:
            return ray.get(nest.remote(depth - 1, how))
        if how == "dies":
            os._exit(7)
        raise OutOfStock("the first cause: 4711", "x" * 50_000)

    with pytest.raises(OutOfStock, match="the first cause: 4711") as raised:
        ray.get(nest.remote(40, "raises"))
    assert isinstance(raised.value, ray.exceptions.RayTaskError) and type(raised.value.cause) is OutOfStock
    assert raised.value.cause.args[0] == "the first cause: 4711"
    with pytest.raises(ray.exceptions.WorkerCrashedError, match="exited with status 7"):
        ray.get(nest.remote(40, "dies"))
