"""The names of Ray 2 that programs use, and their parameters: each exists, or its error names the alternative."""

import importlib
import inspect
import os
import pathlib

import pytest

import miniray
from miniray._compat import missing as _missing

# The names of `import ray` (its __all__), and those of them that have no use here.
TOP = """
    ActorClassID ActorID ClientBuilder DynamicObjectRefGenerator FunctionID JobID Language LoggingConfig NodeID ObjectID
    ObjectRef ObjectRefGenerator PlacementGroupID SCRIPT_MODE TaskID UniqueID WORKER_MODE WorkerID __version__ actor
    autoscaler available_resources cancel client cluster_resources cpp_function data get get_actor get_gpu_ids
    get_runtime_context init internal is_initialized java_actor_class java_function kill method nodes put remote shutdown
    timeline util wait widgets workflow
""".split()
UTIL = """
    ActorPool accelerators as_completed collective connect deregister_serializer disable_log_once_globally disconnect
    enable_periodic_logging get_current_placement_group get_node_instance_id get_node_ip_address get_placement_group
    inspect_serializability iter list_named_actors log_once map_unordered pdb placement_group placement_group_table
    ray_debugpy register_serializer remove_placement_group
""".split()
LIBRARIES = ["air", "data", "experimental.internal_kv", "job_config", "job_submission", "rllib", "serve", "tune",
             "util.dask", "util.iter"]


@pytest.mark.parametrize("module, names", [("miniray", TOP), ("miniray.util", UTIL)])
def test_every_name_is_there_or_tells_what_to_use(module, names):
    there = importlib.import_module(module)
    for name in names:
        try:
            getattr(there, name)
        except AttributeError as error:
            assert "in Ray it" in str(error) and "docs/from-ray.md" in str(error), name
            assert not hasattr(there, name)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_that_is_not_here_is_an_import_error_that_tells_why(name):
    package, _, last = f"miniray.{name}".rpartition(".")
    for statement in (f"import miniray.{name}", f"from {package} import {last}", f"from miniray.{name} import anything"):
        with pytest.raises(ImportError, match=f"miniray has no '{name}': in Ray it"):
            exec(statement)


@pytest.mark.parametrize("module", ["miniray", "miniray.dag", "miniray.ps", "miniray.train", "miniray.util"])
def test_every_public_name_is_documented(module):
    """Includes the names of the extension, which tools/check-docstrings does not check."""
    there = importlib.import_module(module)
    for name in there.__all__:
        found = getattr(there, name)
        if not callable(found):
            continue
        assert found.__doc__, name
        if isinstance(found, type):
            members = {key: each for key, each in vars(found).items() if not key.startswith("_") and callable(each)}
            assert [key for key, each in members.items() if not each.__doc__] == [], name


def test_what_nobody_has_is_missed_in_pythons_own_words():
    with pytest.raises(AttributeError, match="module 'miniray' has no attribute 'nonsense'"):
        miniray.nonsense
    with pytest.raises(ModuleNotFoundError, match="No module named 'miniray.nonsense'"):
        importlib.import_module("miniray.nonsense")


def test_what_is_not_here_is_in_the_documentation():
    text = (pathlib.Path(os.environ["MINIRAY_TEST_SOURCE"]) / "docs" / "from-ray.md").read_text()
    missing = text[text.index("## What is missing"):]
    assert [name for name in _missing.WHY if f"`{name}`" not in missing] == []


# ---- Parameters in Ray's documentation: a parameter that Miniray lacks would be refused.

PARAMETERS = {
    "init": "address num_cpus num_gpus resources labels object_store_memory local_mode ignore_reinit_error "
            "include_dashboard dashboard_host dashboard_port job_config configure_logging logging_level logging_format "
            "logging_config log_to_driver namespace runtime_env enable_resource_isolation cgroup_path "
            "system_reserved_cpu system_reserved_memory proxy_server_url",
    "shutdown": "wait_for_processes _exiting_interpreter",
    "get": "object_refs timeout",
    "put": "value",
    "kill": "actor no_restart",
    "cancel": "force recursive",
    "get_actor": "name namespace",
    "timeline": "filename",
    "util.placement_group": "bundles strategy name lifetime _soft_target_node_id bundle_label_selector topology_strategy",
    "util.as_completed": "refs chunk_size yield_obj_refs",
    "util.map_unordered": "fn items backpressure_size chunk_size yield_obj_refs",
    "util.list_named_actors": "all_namespaces",
    "util.inspect_serializability": "base_obj name depth print_file",
    "util.ActorPool.map": "self fn values",
    "util.ActorPool.submit": "self fn value",
    "util.ActorPool.get_next": "self timeout ignore_if_timedout",
    "util.ActorPool.get_next_unordered": "self timeout ignore_if_timedout",
    "util.queue.Queue": "maxsize actor_options",
    "util.queue.Queue.put": "self item block timeout",
    "util.queue.Queue.get": "self block timeout",
    "util.queue.Queue.get_nowait_batch": "self num_items",
    "util.queue.Queue.shutdown": "self force grace_period_s",
    "util.scheduling_strategies.PlacementGroupSchedulingStrategy": "placement_group placement_group_bundle_index "
                                                                   "placement_group_capture_child_tasks",
    "util.scheduling_strategies.NodeAffinitySchedulingStrategy": "node_id soft _spill_on_unavailable _fail_on_unavailable",
    "util.multiprocessing.Pool": "processes initializer initargs maxtasksperchild context ray_address ray_remote_args",
    "util.metrics.Counter": "name description tag_keys",
    "util.metrics.Histogram": "name description boundaries tag_keys",
    "util.state.list_tasks": "address filters limit timeout detail raise_on_missing_output _explain",
    "util.state.list_actors": "address filters limit timeout detail raise_on_missing_output _explain",
    "util.collective.init_collective_group": "world_size rank backend group_name gloo_timeout",
    "util.collective.create_collective_group": "actors world_size ranks backend group_name gloo_timeout",
    "util.collective.allreduce": "tensor group_name op",
    "util.collective.reduce": "tensor dst_rank group_name op",
    "util.collective.broadcast": "tensor src_rank group_name",
    "util.collective.allgather": "tensor_list tensor group_name",
    "util.collective.reducescatter": "tensor tensor_list group_name op",
    "util.collective.send": "tensor dst_rank group_name",
    "util.collective.recv": "tensor src_rank group_name",
}
NAMED_ONLY = {"init": 1, "shutdown": 0, "get": 1, "kill": 1, "cancel": 1, "get_actor": 2, "util.as_completed": 1}


def found(path):
    thing = miniray
    for name in path.split("."):
        thing = getattr(thing, name)
    return thing


@pytest.mark.parametrize("path", PARAMETERS)
def test_a_function_takes_what_rays_takes(path):
    from miniray._core_api import session as _session
    signature = inspect.signature(found(path))
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    taken = set(signature.parameters) | (_session.WITHOUT_EFFECT if path == "init" else set())
    wanted = PARAMETERS[path].split()
    private = {name for name in wanted if name.startswith("_") and inspect.Parameter.VAR_KEYWORD in kinds}
    assert [name for name in wanted if name not in taken | private] == []
    ours = [name for name in signature.parameters if name in wanted]
    same = [name for name in wanted if name in ours]
    if path != "init":  # all parameters but the first are keyword-only
        assert ours == same


@pytest.mark.parametrize("path", NAMED_ONLY)
def test_what_is_named_in_ray_is_named_here(path):
    kinds = [parameter.kind for parameter in inspect.signature(found(path)).parameters.values()]
    assert kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) == NAMED_ONLY[path]


def test_wait_and_cancel_take_the_names_of_old_and_new_versions(ray):
    ref = ray.put(1)
    assert ray.wait(object_refs=[ref])[0] == ray.wait(ray_waitables=[ref])[0] == [ref]
    ray.cancel(object_ref=ref)
    ray.cancel(ray_waitable=ref)
    with pytest.raises(TypeError, match="cancel"):
        ray.cancel()
    with pytest.raises(TypeError, match="cancel"):
        ray.cancel(ref, ray_waitable=ref)


def test_method_may_stand_bare(ray):
    @ray.remote
    class Plain:
        @ray.method
        def one(self):
            return 1
    assert ray.get(Plain.remote().one.remote()) == 1
    with pytest.raises(TypeError, match="@miniray.method"):
        ray.method(1)
