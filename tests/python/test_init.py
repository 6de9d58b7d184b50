"""init(): its arguments, its result, and the environment of workers."""

import contextlib
import os
import re

import pytest

import miniray


def test_init_gives_back_the_facts(stopped):
    context = stopped.init(num_workers=1)
    assert context.address_info["address"] == context["address"] and os.path.exists(context["address"])
    assert context["node_id"] == miniray.get_runtime_context().get_node_id()
    assert os.path.isdir(context.address_info["session_dir"]) and context.dashboard_url is None
    assert context.python_version.startswith("3.") and context.ray_version == stopped.__version__


def test_init_in_a_with_statement(stopped):
    with stopped.init(num_workers=1):
        assert stopped.is_initialized()
    assert not stopped.is_initialized()


def test_a_context_disconnects(stopped):
    stopped.init(num_workers=1).disconnect()
    assert not stopped.is_initialized()


def test_init_again_gives_the_context_if_asked_for(stopped):
    first = stopped.init(num_workers=1)
    assert stopped.init(ignore_reinit_error=True)["address"] == first["address"]
    with pytest.raises(RuntimeError, match="twice"):
        stopped.init()


def test_init_takes_what_ray_takes(stopped):
    stopped.init(num_cpus=1, include_dashboard=False, dashboard_host="x", dashboard_port=1, logging_level="error",
                 configure_logging=False, logging_format="", job_config=None, _system_config={}, _temp_dir="/tmp")
    assert stopped.is_initialized()


def test_init_refuses_others_by_name(stopped):
    with pytest.raises(TypeError, match="'num_cpu'"):
        stopped.init(num_cpu=1)
    assert not stopped.is_initialized()


@pytest.mark.parametrize("wrong", ["", 3, b"x"])
def test_init_checks_the_name_space(stopped, wrong):
    with pytest.raises(ValueError if wrong == "" else TypeError, match="namespace"):
        stopped.init(namespace=wrong)


def test_a_program_without_a_name_space_has_one_of_its_own(stopped):
    stopped.init(num_workers=1)
    first = stopped.get_runtime_context().namespace
    stopped.shutdown()
    stopped.init(num_workers=1)
    assert first and stopped.get_runtime_context().namespace != first


# ---- The working folder


def test_a_working_folder_that_the_user_may_not_enter(run_program):
    inside = """if True:
        import os, miniray
        miniray.init(num_workers=1)
        print(miniray.get(miniray.remote(os.getpid).remote()) != os.getpid())
    """
    done = run_program(f"""
        import os, sys, miniray
        os.mkdir("shut")
        os.chdir("shut")
        os.chmod(".", 0)
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)  # nobody; root may enter every folder
        if os.access(miniray.__file__, os.R_OK):
            os.execv(sys.executable, [sys.executable, "-c", {inside!r}])
        print("skipped")
    """)
    if done.stdout == "skipped\n":
        pytest.skip("another user cannot read the package")
    assert done.stdout == "True\n"


def test_a_removed_working_folder_is_none(run_program):
    done = run_program("""
        import os, sys
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")
        sys.path.insert(0, "")
        import miniray
        miniray.init(num_workers=1)

        @miniray.remote
        def add(a, b):
            return a + b
        print(miniray.get(add.remote(2, 3)))
    """)
    assert done.stdout == "5\n"


# ---- Resources


def test_many_kinds_of_resources(run_program):
    done = run_program("""
        import miniray
        from miniray.util.placement_group import placement_group
        from miniray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
        kinds = {f"kind_number_{i}_of_a_machine": i + 1234567.125 for i in range(90)}
        miniray.init(num_workers=2, resources=kinds)
        assert kinds.items() <= miniray.cluster_resources().items()

        @miniray.remote(resources=kinds)
        def task():
            return miniray.get_runtime_context().get_assigned_resources()

        @miniray.remote(num_cpus=0, resources=kinds)
        class Actor:
            def ask(self):
                return miniray.get_runtime_context().get_assigned_resources()
        assert miniray.get(task.remote()) == {"CPU": 1.0, **kinds}
        actor = Actor.remote()
        assert miniray.get(actor.ask.remote()) == kinds
        assert not kinds.keys() & miniray.available_resources().keys()
        del actor
        group = placement_group([kinds, {"CPU": 1}])
        miniray.get(group.ready(), timeout=60)
        assert group.bundle_specs[0] == kinds
        inside = task.options(num_cpus=0, scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0))
        assert miniray.get(inside.remote()).items() >= kinds.items()
        try:
            miniray.get(task.options(resources={str(i): 1 for i in range(101)}).remote())
        except ValueError as error:
            print(error)
    """)
    assert done.stdout.endswith(": resource '99' is one too many: at most 100 kinds\n") and done.stderr == ""


# ---- runtime_env


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A running driver with a runtime_env, in a folder with a module."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "goods_of_the_shop.py").write_text("price = 7\n")
    miniray.shutdown()
    miniray.init(num_workers=2, runtime_env={"env_vars": {"SHOP": "open"}, "working_dir": str(folder)})
    yield folder
    miniray.shutdown()


def test_variables_for_the_whole_program(shop):
    @miniray.remote
    def read():
        return os.environ["SHOP"]

    @miniray.remote
    class Reader:
        def read(self):
            return miniray.get(task.remote())
    task = read
    assert miniray.get([read.remote(), Reader.remote().read.remote()]) == ["open"] * 2
    assert "SHOP" not in os.environ


def test_a_folder_for_the_whole_program(shop):
    @miniray.remote
    def look():
        import goods_of_the_shop
        return os.getcwd(), goods_of_the_shop.price
    before = os.getcwd()
    assert miniray.get(look.remote()) == (str(shop), 7) and os.getcwd() == before


def test_the_environment_is_known(shop):
    @miniray.remote
    def ask():
        return miniray.get_runtime_context().runtime_env
    assert miniray.get(ask.remote())["env_vars"] == {"SHOP": "open"} == miniray.get_runtime_context().runtime_env["env_vars"]


def test_variables_of_a_task_end_with_it(shop):
    @miniray.remote
    def read():
        return os.environ.get("SHOP"), os.environ.get("DOOR")
    there = read.options(runtime_env={"env_vars": {"SHOP": "closed", "DOOR": "shut"}})
    assert miniray.get(there.remote()) == ("closed", "shut")
    assert miniray.get([read.remote() for _ in range(10)]) == [("open", None)] * 10


def test_a_folder_of_a_task(shop, tmp_path):
    @miniray.remote(runtime_env={"working_dir": tmp_path})
    def look():
        return os.getcwd()
    assert miniray.get(look.remote()) == str(tmp_path)
    assert miniray.get(look.options(runtime_env={}).remote()) == str(shop)


def test_modules_of_a_task(shop, tmp_path):
    (tmp_path / "extra_goods").mkdir()
    (tmp_path / "extra_goods" / "__init__.py").write_text("price = 8\n")

    @miniray.remote(runtime_env={"py_modules": [str(tmp_path / "extra_goods")]})
    def look():
        import extra_goods
        return extra_goods.price
    assert miniray.get(look.remote()) == 8


def test_modules_that_were_imported(run_program, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "whole_goods").mkdir()
    (tmp_path / "one" / "whole_goods" / "__init__.py").write_text("price = 9\n")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "single_goods.py").write_text("price = 10\n")
    done = run_program("""
        import sys
        sys.path[:0] = ["one", "two"]
        import whole_goods, single_goods, miniray
        goods = {"py_modules": [whole_goods, single_goods]}
        del sys.path[:2]
        def prices():
            import whole_goods, single_goods
            return whole_goods.price, single_goods.price
        miniray.init(num_workers=1)
        print(miniray.get(miniray.remote(runtime_env=goods)(prices).remote()))
        miniray.shutdown()
        miniray.init(num_workers=1, runtime_env=goods)
        print(miniray.get(miniray.remote(prices).remote()))
        """)
    assert done.stdout == "(9, 10)\n" * 2


def test_variables_of_an_actor_stay(shop):
    @miniray.remote(runtime_env={"env_vars": {"DOOR": "ajar"}})
    class Reader:
        def __init__(self):
            self.first = os.environ["DOOR"]

        def read(self):
            return self.first, os.environ["DOOR"], os.environ["SHOP"]
    assert miniray.get(Reader.remote().read.remote()) == ("ajar", "ajar", "open")


@pytest.mark.parametrize("wrong, error", [
    ({"pip": ["x"]}, ValueError), ({"conda": "x"}, ValueError), ({"env_vars": {"A": 1}}, TypeError),
    ({"env_vars": ["A"]}, TypeError), ({"working_dir": "/no such folder"}, ValueError), (3, TypeError),
])
def test_an_environment_that_cannot_be_had_is_refused(shop, wrong, error):
    with pytest.raises(error):
        miniray.remote(runtime_env=wrong)(lambda: 1)
    with pytest.raises(error):
        miniray.remote(lambda: 1).options(runtime_env=wrong)


def test_init_refuses_such_an_environment(stopped):
    with pytest.raises(ValueError, match="pip"):
        stopped.init(runtime_env={"pip": []})
    assert not stopped.is_initialized()


def begin_the_shop():
    os.environ["BEGUN"] = os.environ.get("BEGUN", "") + "once"


def test_every_worker_calls_the_hook_before_its_first_task(stopped):
    stopped.init(num_workers=2, runtime_env={"worker_process_setup_hook": begin_the_shop, "env_vars": {"SHOP": "open"}})

    @stopped.remote
    def read():
        return os.environ["BEGUN"]

    @stopped.remote
    class Reader:
        def __init__(self):
            self.seen = os.environ["BEGUN"]

        def read(self):
            return self.seen
    assert stopped.get([read.remote() for _ in range(10)] + [Reader.remote().read.remote()]) == ["once"] * 11
    assert "BEGUN" not in os.environ


def test_the_hook_may_be_named(run_program, tmp_path):
    (tmp_path / "hooks_of_the_shop.py").write_text("import os\ndef begin(): os.environ['BEGUN'] = 'by name'\n")
    done = run_program("""
        import miniray, os
        miniray.init(num_workers=1, runtime_env={"worker_process_setup_hook": "hooks_of_the_shop.begin"})
        print(miniray.get(miniray.remote(lambda: os.environ.get("BEGUN")).remote()))
    """)
    assert done.stdout == "by name\n"


def test_a_hook_of_a_task_is_refused(stopped):
    with pytest.raises(ValueError, match="init"):
        stopped.remote(runtime_env={"worker_process_setup_hook": begin_the_shop})(lambda: 1)


def test_what_is_left_of_a_runtime_that_was_shut_down_starts_no_other(stopped):
    stopped.init(num_workers=1)

    @stopped.remote
    def sleep():
        import time
        time.sleep(3600)
    ref = sleep.remote()
    future = ref.future()
    stopped.shutdown()
    for ask in (stopped.get, lambda ref: stopped.get([ref]), lambda ref: stopped.wait([ref], timeout=0)):
        with pytest.raises(RuntimeError, match="belongs to a runtime that was shut down"):
            ask(ref)
    with pytest.raises(RuntimeError, match="shut down"):
        future.result(timeout=60)
    assert not stopped.is_initialized()


LIMIT_FILES = {"memory": ("memory.limit_in_bytes", "memory.max"), "cpu": ("cpu.cfs_quota_us", "cpu.max")}  # v1, v2


def _own_group(controller):
    """The folder of this process's cgroup with that controller, and the name of the file with its limit."""
    with open("/proc/self/cgroup") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controller in controllers.split(","):
                return f"/sys/fs/cgroup/{controller}" + path.rstrip("/"), LIMIT_FILES[controller][0]
    return "/sys/fs/cgroup" + path.rstrip("/"), LIMIT_FILES[controller][1]


@pytest.fixture
def limited_group():
    """Creates a cgroup with that limit, with another one inside; returns the inner one's file for processes."""
    folders = []

    def make(controller, limit):
        own, limit_file = _own_group(controller)
        for name in (f"miniray-test-{os.getpid()}", "inner"):
            own = os.path.join(own, name)
            try:
                os.mkdir(own)
            except OSError as error:
                pytest.skip(f"no cgroup can be made here: {error}")
            folders.append(own)
        try:
            with open(os.path.join(folders[0], limit_file), "w") as file:
                file.write(str(limit))
        except OSError as error:
            pytest.skip(f"no {controller} limit can be set here: {error}")
        return os.path.join(own, "cgroup.procs")
    yield make
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def test_the_store_is_a_share_of_what_the_groups_around_it_have_left(run_program, limited_group):
    group = limited_group("memory", 512 << 20)
    done = run_program(f"""
        import os
        with open({group!r}, "w") as file:
            file.write(str(os.getpid()))
        import miniray
        miniray.init(num_workers=1)
        print(int(miniray.cluster_resources()["object_store_memory"]), miniray.get(miniray.remote(lambda: 42).remote()))
        miniray.shutdown()
        used = b"x" * (300 << 20)
        miniray.init(num_workers=1)
        print(int(miniray.cluster_resources()["object_store_memory"]), miniray.get(miniray.remote(lambda: 42).remote()))
    """)
    (first, one), (second, other) = (line.split() for line in done.stdout.splitlines())
    assert one == other == "42"
    assert 100 << 20 < int(first) < 160 << 20 and int(second) == 64 << 20


def test_the_default_number_of_workers_is_the_limit_of_cpus(run_program, limited_group):
    group = limited_group("cpu", 100_000)  # of a period of 100,000 us
    done = run_program(f"""
        import os
        with open({group!r}, "w") as file:
            file.write(str(os.getpid()))
        import subprocess, miniray
        node = os.path.join(os.path.dirname(miniray.__file__), "miniray-node")
        doctor = subprocess.run([node, "doctor"], stdout=subprocess.PIPE, text=True).stdout
        print(*(line.split("  ")[-1].strip() for line in doctor.splitlines() if " container CPUs " in line))
        miniray.init()
        print(miniray.cluster_resources()["CPU"], miniray.get(miniray.remote(lambda: 42).remote()))
        miniray.shutdown()
        miniray.init(num_workers=3)
        print(miniray.cluster_resources()["CPU"])
    """)
    assert done.stdout.splitlines() == ["at most 1 for this container", "1.0 42", "3.0"]


def test_a_small_store_is_told_in_one_line(run_program, limited_group):
    group = limited_group("memory", 1 << 30)
    done = run_program(f"""
        import os
        with open({group!r}, "w") as file:
            file.write(str(os.getpid()))
        used = b"x" * (800 << 20)
        import miniray
        miniray.init(num_workers=1)
    """)
    (line,) = done.stderr.splitlines()
    assert re.search(r"the object store has only 6\d MB: of 1024 MB of memory, \d+ MB are available.*object_store_memory", line)


def test_memory_that_is_not_there_is_told_with_the_option(run_program, limited_group):
    group = limited_group("memory", 128 << 20)
    done = run_program(f"""
        import os
        with open({group!r}, "w") as file:
            file.write(str(os.getpid()))
        used = b"x" * (90 << 20)
        import miniray
        try:
            miniray.init(num_workers=1)
        except miniray.exceptions.RaySystemError as error:
            print(error)
    """)
    assert re.search(r"object_store_memory.*\d+ bytes left", done.stdout), done.stdout + done.stderr
