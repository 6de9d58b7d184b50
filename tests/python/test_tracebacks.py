"""Tracebacks end at the program's line: they have no frames of the package, here and in workers."""

import importlib
import inspect
import os
import pickle
import pkgutil
import threading
import traceback

import pytest

import miniray
from miniray import ps
from miniray.ps import create_parameter_server
from miniray.train import DataParallelTrainer
from miniray.util import ActorPool

PACKAGE = os.path.dirname(miniray.__file__)


def assert_ends_here(call, kind):
    try:
        call()
    except kind as error:
        while error is not None:
            frames = traceback.extract_tb(error.__traceback__)
            assert not [frame for frame in frames if frame.filename.startswith(PACKAGE)], "".join(traceback.format_list(frames))
            last, error = error, error.__cause__ or error.__context__
        return
    pytest.fail(f"raised no {kind.__name__}")


def assert_is_clean(error):
    """Checks the text from a worker."""
    text = str(error)
    assert PACKAGE not in text and "test_tracebacks.py" in text and "ZeroDivisionError" in text, text


def divide(x):
    return 1 / x


class Worker:
    def divide(self, x):
        return divide(x)

    def steps(self):
        yield divide(0)

    def get_weights(self):
        return [divide(0)]

    def set_weights(self, weights):
        pass

    def train_epoch(self, epoch):
        return {"loss": divide(0)}


class Async:
    async def divide(self, x):
        return divide(x)


class Retried:
    @miniray.method(retry_exceptions=True)
    def divide(self, x):
        return divide(x)


class Fails:
    def __init__(self):
        divide(0)

    def divide(self, x):
        pass


def test_tasks(ray):
    f = ray.remote(divide)
    outer = ray.remote(lambda: ray.get(f.remote(0)))
    for ref in (f.remote(0), outer.remote(), f.options(max_retries=1, retry_exceptions=True).remote(0)):
        with pytest.raises(ZeroDivisionError) as caught:
            ray.get(ref)
        assert_is_clean(caught.value)
        assert_ends_here(lambda: ray.get(ref), ZeroDivisionError)


@pytest.mark.parametrize("cls, options", [(Worker, {}), (Worker, {"max_concurrency": 2}), (Async, {}), (Retried, {"max_task_retries": 1})])
def test_actors(ray, cls, options):
    actor = ray.remote(cls).options(**options).remote()
    with pytest.raises(ZeroDivisionError) as caught:
        ray.get(actor.divide.remote(0))
    assert_is_clean(caught.value)
    assert_ends_here(lambda: ray.get(actor.divide.remote(0)), ZeroDivisionError)


def test_generators_and_constructors(ray):
    with pytest.raises(ZeroDivisionError) as caught:
        ray.get(next(ray.remote(max_concurrency=2)(Worker).remote().steps.remote()))
    assert_is_clean(caught.value)
    with pytest.raises(ray.exceptions.ActorDiedError) as caught:
        ray.get(ray.remote(Fails).remote().divide.remote(1))
    assert_is_clean(caught.value)


def test_training(ray):
    trainer = DataParallelTrainer(num_workers=1, worker_class=Worker, display="quiet")
    with pytest.raises(ZeroDivisionError) as caught:
        trainer.train(1)
    assert_is_clean(caught.value)
    assert_ends_here(lambda: trainer.train(1), ZeroDivisionError)
    server = create_parameter_server()
    assert_ends_here(lambda: ray.get(server.sync_from_workers.remote(trainer.workers)), ZeroDivisionError)


def test_the_programs_own_lines_stay(ray):
    class Trainer(DataParallelTrainer):
        def on_train_start(self):
            divide(0)
    with pytest.raises(ZeroDivisionError) as caught:
        Trainer(num_workers=1, worker_class=Worker, display="quiet").train(1)
    assert [entry.name for entry in caught.traceback] == [
        "test_the_programs_own_lines_stay", "on_train_start", "divide"]


@pytest.mark.parametrize("call, kind", [
    (lambda ray: ray.get(3), ValueError),
    (lambda ray: ray.init(num_worker=2), TypeError),
    (lambda ray: ray.init(), RuntimeError),
    (lambda ray: ray.get_actor("nobody"), ValueError),
    (lambda ray: ray.kill(3), Exception),
    (lambda ray: ray.gett, AttributeError),
    (lambda ray: ray.remote(num_cpu=1)(divide), ValueError),
    (lambda ray: ray.remote(divide).remote(1, 2), TypeError),
    (lambda ray: ray.remote(divide).remote(threading.Lock()), TypeError),
    (lambda ray: ray.put(threading.Lock()), TypeError),
    (lambda ray: ray.remote(Worker).remote(1), TypeError),
    (lambda ray: ray.remote(Worker).options(max_restart=1), ValueError),
    (lambda ray: ray.remote(Worker).remote().divid, AttributeError),
    (lambda ray: ray.remote(Worker).remote().divide(1), TypeError),
    (lambda ray: create_parameter_server("avarage"), ValueError),
    (lambda ray: create_parameter_server().sync_from_workers.remote([]), ValueError),
    (lambda ray: DataParallelTrainer(num_worker=1), TypeError),
    (lambda ray: DataParallelTrainer().train(1), NotImplementedError),
    (lambda ray: list(ActorPool([ray.remote(Worker).remote()]).map(lambda a, v: a.divide.remote(v), [0])), ZeroDivisionError),
    (lambda ray: ps.start(num_server=1), TypeError),
    (lambda ray: ps.connect(3), TypeError),
])
def test_wrong_calls(ray, call, kind):
    assert_ends_here(lambda: call(ray), kind)


def test_tables():
    with ps.start(num_servers=1, actors=False) as deployment, deployment.connect() as connection:
        table = connection.table("t", dim=2)
        for call, kind in ((lambda: connection.table("u"), LookupError), (lambda: connection.table("u", dim=0), ValueError),
                           (lambda: table.push([1], "no"), TypeError), (lambda: table.pull(["a"]), TypeError),
                           (lambda: table.pull([1], version=3), TypeError), (lambda: connection.end(), ps.StaleError)):
            assert_ends_here(call, kind)


def test_all_frames_on_request(run_program):
    program = """
        import sys, miniray
        @miniray.remote
        class Worker:
            async def divide(self, x):
                return 1 / x
        worker = Worker.remote()
        try:
            miniray.get(worker.divide.remote(0))
        except ZeroDivisionError as error:
            print(error)
        miniray.get_actor("nobody")
    """
    for value, shown in (("1", True), ("0", False)):
        done = run_program(program, code=1, environment={"MINIRAY_FULL_TRACEBACKS": value})
        assert (PACKAGE in done.stdout) == shown and "ZeroDivisionError" in done.stdout
        assert (PACKAGE in done.stderr) == shown and "Failed to look up" in done.stderr and "WARN" not in done.stderr


def public_functions():
    """(name, function) of everything that programs call: functions and methods without '_' of public modules."""
    modules = ["miniray", *(module.name for module in pkgutil.walk_packages(miniray.__path__, "miniray."))]
    for module in modules:
        if any(part.startswith("_") for part in module.split(".")):
            continue
        try:
            names = vars(importlib.import_module(module))
        except ImportError:  # needs torch or joblib
            continue
        for name in names.get("__all__", ()):
            value = names.get(name)
            if not isinstance(value, type):
                yield f"{module}.{name}", value
            elif value.__module__.startswith("miniray") and not issubclass(value, BaseException):
                yield from ((f"{module}.{name}.{each}", of) for each, of in vars(value).items() if each[0] != "_")


def test_every_public_function_is_decorated():
    plain = [name for name, value in public_functions() if type(value) is type(lambda: None)]
    assert plain == []


@pytest.mark.parametrize("call, text", [
    (lambda: miniray.train.EarlyStopping("loss", patience="three"), "EarlyStopping('loss', patience='three'): '<' not supported"),
    (lambda: miniray.train.load_weights(3), "load_weights(3): expected str, bytes or os.PathLike object"),
    (lambda: create_parameter_server("momentum", momentum="x"), "MomentumStrategy(momentum='x'): '<=' not supported"),
    (lambda: ps.start(checkpoint_dir=b"x" * 99 + b"y", num_servers=0.5), "num_servers is 0.5"),  # a text of ours
])
def test_an_argument_that_is_not_checked_is_named(call, text):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert str(caught.value).startswith(text)


def test_errors_of_the_program_keep_their_text(ray):
    class Broken(ps.SyncStrategy):
        def __init__(self):
            len(3)
    with pytest.raises(TypeError) as caught:
        create_parameter_server(Broken)
    assert str(caught.value) == "object of type 'int' has no len()"


def test_generators(ray):
    def late():
        yield from miniray.util.as_completed([ray.remote(divide).remote(0)])
    assert_ends_here(lambda: list(late()), ZeroDivisionError)
    numbers = miniray.util.as_completed([ray.put(1), ray.put(2)])
    assert next(numbers) in (1, 2) and numbers.close() is None and list(numbers) == []


def test_public_functions_look_like_functions():
    assert miniray.init.__name__ == "init" and "Starts the runtime" in miniray.init.__doc__
    assert list(inspect.signature(miniray.kill).parameters) == ["actor", "no_restart"]
    assert list(inspect.signature(DataParallelTrainer.set_worker_weight).parameters) == ["self", "worker_id", "weight"]
    assert pickle.loads(pickle.dumps(miniray.init)) is miniray.init
    assert inspect.isroutine(miniray.init) and callable(miniray.init)
