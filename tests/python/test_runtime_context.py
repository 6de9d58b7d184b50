"""get_runtime_context(), nodes(), cluster_resources() and the like."""

import asyncio
import json
import threading

import pytest

import miniray


@pytest.fixture(scope="module")
def ray():
    miniray.shutdown()
    miniray.init(num_workers=2, resources={"slot": 3}, namespace="contexts")
    yield miniray
    miniray.shutdown()


@pytest.fixture(scope="module")
def Asker(ray):
    @ray.remote
    class Asker:
        def ask(self, name, *args):
            found = getattr(ray.get_runtime_context(), name)
            return found(*args) if callable(found) else found
    return Asker


@pytest.fixture(scope="module")
def ask(ray):
    @ray.remote
    def ask(name):
        found = getattr(ray.get_runtime_context(), name)
        return found() if callable(found) else found
    return ask


def test_the_program_itself(ray):
    context = ray.get_runtime_context()
    assert context.get_actor_id() is None and context.get_task_id() is None and context.get_actor_name() is None
    assert context.namespace == "contexts" and context.get_assigned_resources() == {}
    with pytest.raises(RuntimeError):
        context.current_actor
    with pytest.raises(RuntimeError):
        context.was_current_actor_reconstructed


@pytest.mark.parametrize("name", ["get_job_id", "get_node_id", "namespace", "gcs_address"])
def test_everybody_agrees(ray, ask, Asker, name):
    here = getattr(ray.get_runtime_context(), name)
    here = here() if callable(here) else here
    assert here and isinstance(here, str)
    assert ray.get([ask.remote(name), Asker.remote().ask.remote(name)]) == [here, here]


def test_each_task_has_an_id(ray, ask):
    ids = ray.get([ask.remote("get_task_id") for _ in range(20)])
    assert len(set(ids)) == 20 and all(isinstance(each, str) for each in ids)


def test_each_worker_has_an_id(ray, Asker):
    first, second = Asker.remote(), Asker.remote()
    ids = ray.get([first.ask.remote("get_worker_id"), first.ask.remote("get_worker_id"),
                   second.ask.remote("get_worker_id")])
    assert ids[0] == ids[1] != ids[2]


def test_names(ray, ask, Asker):
    assert ray.get(ask.options(name="some name").remote("get_task_name")) == "some name"
    actor = Asker.options(name="asker").remote()
    assert ray.get(actor.ask.remote("get_actor_name")) == "asker"
    assert ray.get(Asker.remote().ask.remote("get_actor_name")) == ""


def test_an_actor_knows_its_id(ray, Asker):
    actor = Asker.remote()
    assert ray.get(actor.ask.remote("get_actor_id")) == actor.__actor_id__
    assert ray.get(actor.ask.remote("current_actor")) == actor
    assert ray.get(actor.ask.remote("was_current_actor_reconstructed")) is False


def test_assigned_resources(ray, ask, Asker):
    assert ray.get(ask.remote("get_assigned_resources")) == {"CPU": 1.0}
    assert ray.get(ask.options(num_cpus=0.5, resources={"slot": 2}).remote("get_assigned_resources")) == {
        "CPU": 0.5, "slot": 2.0}
    assert ray.get(Asker.options(resources={"slot": 1}).remote().ask.remote("get_assigned_resources")) == {"slot": 1.0}


def test_all_of_it_as_a_dict(ray, Asker):
    found = ray.get(Asker.remote().ask.remote("get"))
    assert {"job_id", "node_id", "namespace", "task_id", "actor_id"} == set(found)


# ---- The machine


def test_nodes(ray):
    node, = ray.nodes()
    assert node["Alive"] and node["Resources"]["CPU"] == 2 and node["Resources"]["slot"] == 3
    assert node["NodeID"] == ray.get_runtime_context().get_node_id()


def test_cluster_resources(ray):
    found = ray.cluster_resources()
    assert found["CPU"] == 2.0 and found["slot"] == 3.0
    with open("/proc/meminfo") as lines:
        machine = 1024 * int(next(line for line in lines if line.startswith("MemTotal:")).split()[1])
    assert 0 < found["object_store_memory"] < machine and 0 < found["memory"] <= machine - found["object_store_memory"]


def test_what_lies_in_the_store_is_not_available(ray):
    import numpy
    before = ray.available_resources()["object_store_memory"]
    ref = ray.put(numpy.zeros(10_000_000, numpy.uint8))
    after = ray.available_resources()["object_store_memory"]
    assert after <= before - 10_000_000 < ray.cluster_resources()["object_store_memory"]
    del ref


def test_available_resources_are_what_nobody_has(ray, Asker):
    actor = Asker.options(resources={"slot": 2}).remote()
    ray.get(actor.ask.remote("get_task_id"))
    assert ray.available_resources()["slot"] == 1.0
    another = Asker.options(resources={"slot": 1}).remote()
    ray.get(another.ask.remote("get_task_id"))
    assert "slot" not in ray.available_resources()


def test_tasks_may_ask_as_well(ray):
    @ray.remote
    def ask():
        return ray.cluster_resources()["slot"], len(ray.nodes())
    assert ray.get(ask.remote()) == (3.0, 1)


def test_the_timeline_has_what_ran(ray, ask, tmp_path):
    ray.get(ask.options(name="on the line").remote("get_task_id"))
    assert any("on the line" in str(event.get("name")) for event in ray.timeline())
    ray.timeline(str(tmp_path / "line.json"))
    written = json.loads((tmp_path / "line.json").read_text())
    assert "on the line" in json.dumps(written)


def test_gpu_ids_without_gpus(ray):
    @ray.remote
    def ask():
        return ray.get_gpu_ids(), ray.get_runtime_context().get_accelerator_ids()
    assert ray.get_gpu_ids() == [] and ray.get(ask.remote()) == ([], {"GPU": []})


def test_nothing_is_known_of_a_runtime_that_is_not_there(run_program):
    done = run_program("""
        import miniray
        for ask in (miniray.nodes, miniray.cluster_resources, miniray.available_resources, miniray.timeline):
            try:
                ask()
            except RuntimeError as error:
                print(error)
        """)
    assert done.stdout.count("miniray.init()") == 4


def test_gpu_ids(run_program):
    done = run_program("""
        import miniray, os
        miniray.init(num_workers=2, num_gpus=2)
        @miniray.remote(num_gpus=1)
        class Holder:
            def ids(self):
                return miniray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]
        holders = [Holder.remote() for _ in range(2)]
        told = miniray.get([holder.ids.remote() for holder in holders])
        assert sorted(ids for ids, _ in told) == [[0], [1]], told
        assert all(str(ids[0]) == seen for ids, seen in told), told
        print("fine")
        """)
    assert done.stdout == "fine\n"


def test_gpus_that_have_names(run_program):
    done = run_program("""
        import miniray
        miniray.init(num_workers=1, num_gpus=2)
        @miniray.remote(num_gpus=2)
        def ask():
            return miniray.get_gpu_ids(), miniray.get_runtime_context().get_accelerator_ids()
        print(*miniray.get(ask.remote()))
        """, environment={"CUDA_VISIBLE_DEVICES": "GPU-1a,GPU-2b"})
    assert done.stdout == "['GPU-1a', 'GPU-2b'] {'GPU': ['GPU-1a', 'GPU-2b']}\n"


def test_ids_by_their_old_names(ray):
    context = ray.get_runtime_context()
    assert context.job_id.hex() == context.get_job_id() and context.node_id.hex() == context.get_node_id()
    assert context.worker_id.hex() == context.get_worker_id()
    assert context.task_id is None and context.actor_id is None and context.current_placement_group_id is None
    assert context.get_node_labels() == {} and context.get_session_name()
    assert not context.should_capture_child_tasks_in_placement_group

    @ray.remote
    class Self:
        def ids(self):
            context = miniray.get_runtime_context()
            return context.actor_id, context.task_id.hex() == context.get_task_id()
    actor = Self.remote()
    assert ray.get(actor.ids.remote()) == (actor._actor_id, True)


def test_tasks_and_methods_know_what_they_are_called(ray):
    def names():
        context = ray.get_runtime_context()
        return context.get_task_name(), context.get_task_function_name()

    @ray.remote
    def task():
        return names()

    class Plain:
        def method(self):
            return names()

    class Async:
        async def method(self):
            return names()

    assert ray.get(task.options(name="other").remote()) == ("other", f"{__name__}.task")
    assert ray.get(task.options(num_cpus=2).remote()) == ("task", f"{__name__}.task")
    for cls, options in ((Plain, {}), (Plain, {"max_concurrency": 2}), (Async, {})):
        name = f"{cls.__name__}.method"
        assert ray.get(ray.remote(cls).options(**options).remote().method.remote()) == (name, f"{__name__}.{name}")
    assert ray.get_runtime_context().get_task_function_name() is None


def test_asking_starts_the_runtime(stopped):
    assert not stopped.is_initialized()
    assert stopped.get_runtime_context().get_dashboard_url() == ""
    assert stopped.is_initialized()


def test_everything_belongs_to_one_job(ray):
    @ray.remote
    class Actor:
        def method(self):
            pass

    @ray.remote
    def jobs():
        actor = Actor.remote()
        with pytest.deprecated_call():
            task = ray.get_runtime_context().task_id
        return [task.job_id(), ray.put(1).job_id(), actor._actor_id.job_id, actor.method.remote().job_id()]

    with pytest.deprecated_call(match="Use get_job_id"):
        own = ray.get_runtime_context().job_id
    assert ray.get(jobs.remote()) == [own] * 4


def test_ids_as_a_dict(ray, ask, Asker):
    context = ray.get_runtime_context()
    here = context.get()
    assert set(here) == {"job_id", "node_id", "namespace"} and here["namespace"] == context.namespace
    assert isinstance(here["job_id"], ray.JobID) and here["job_id"].hex() == context.get_job_id()
    task, actor = ray.get([ask.remote("get"), Asker.remote().ask.remote("get")])
    assert set(task) == {*here, "task_id"} and isinstance(task["task_id"], ray.TaskID)
    assert set(actor) == {*here, "task_id", "actor_id"} and isinstance(actor["actor_id"], ray.ActorID)
    assert task["node_id"] == actor["node_id"] == here["node_id"] == ray.NodeID.from_hex(context.get_node_id())


@pytest.mark.parametrize("options", [{}, {"max_concurrency": 4}])
def test_calls_that_run_at_once_have_ids_of_their_own(ray, options):
    class Calls:
        def __init__(self):
            self.all_here = threading.Barrier(4)

        def meet(self):
            self.all_here.wait()
            return ray.get_runtime_context().get_task_id()

    class Coroutines:
        def __init__(self):
            self.gate = asyncio.Event()

        async def meet(self):
            before = ray.get_runtime_context().get_task_id()
            await self.gate.wait()
            return before if before == ray.get_runtime_context().get_task_id() else None

        async def open(self):
            self.gate.set()
    actor = ray.remote(Calls if options else Coroutines).options(**options).remote()
    ids = [actor.meet.remote() for _ in range(4)]
    if not options:
        ray.get(actor.open.remote())
    ids = ray.get(ids, timeout=60)
    assert len(set(ids)) == 4 and None not in ids
