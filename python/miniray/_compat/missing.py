"""Names that Ray has and Miniray lacks: each is an error that names the alternative.

`import miniray.data` and `from miniray import data` raise ImportError, `miniray.data` AttributeError. These names are
looked up last.
"""

import sys

from miniray._core_api import did_you_mean

_LIBRARY = "is a library of its own on top of Ray, which is not here"
_MACHINES = "is for clusters of several machines; a node is one machine here"
_CLIENT = 'is Ray\'s client (ray://): join a node of this machine with miniray.init(address="auto")'
_LANGUAGES = "is for Java and C++: programs of C join with include/miniray/runtime.h, and find actors by their names"

WHY = {
    "air": f"{_LIBRARY}: miniray.train trains models",
    "autoscaler": _MACHINES,
    "client": _CLIENT,
    "ClientBuilder": _CLIENT,
    "client_builder": _CLIENT,
    "cluster_utils": f"{_MACHINES}: miniray.init() starts a node of the program's own",
    "cpp_function": _LANGUAGES,
    "cross_language": _LANGUAGES,
    "data": f"{_LIBRARY}: put() blocks of your own and map tasks over them; miniray.train.data reads batches for models",
    **dict.fromkeys(("experimental.channel", "experimental.compiled_dag_ref", "experimental.dynamic_resources",
                     "experimental.internal_kv", "experimental.locations", "experimental.shuffle"),
                    "is what Ray may change at any time: miniray.experimental has tqdm_ray alone"),
    "java_actor_class": _LANGUAGES,
    "java_function": _LANGUAGES,
    "job_config": "holds what a program says of itself: miniray.init(namespace=…, runtime_env=…) takes that",
    "job_submission": "is a server that takes programs: run the program, with MINIRAY_ADDRESS=auto",
    "llm": _LIBRARY,
    "rllib": f"{_LIBRARY}: examples of actors that learn are in examples/",
    "serve": f"{_LIBRARY}: a named actor answers other programs",
    "tune": f"{_LIBRARY}: start a task for each trial, and wait() for them",
    "widgets": "draws in notebooks; nodes() and miniray.util.state tell the same",
    "workflow": f"{_LIBRARY}: miniray.dag has graphs of calls",
    "util.client": _CLIENT,
    "util.connect": _CLIENT,
    "util.disconnect": _CLIENT,
    "util.dask": _LIBRARY,
    "util.horovod": f"{_LIBRARY}: miniray.util.collective has allreduce",
    "util.iter": "was made for RLlib and is no more to be used: a remote generator gives values while it runs, "
                 "miniray.util.map_unordered and miniray.util.ActorPool map over many",
    "util.lightgbm": _LIBRARY,
    "util.pdb": "is a debugger for workers far away: miniray.init(local_mode=True) runs everything in the program, where "
                "breakpoint() works",
    "util.ray_debugpy": "is a debugger for workers far away: miniray.init(local_mode=True) runs everything in the "
                        "program, where breakpoint() works",
    "util.rpdb": "is a debugger for workers far away: miniray.init(local_mode=True) runs everything in the program, where "
                 "breakpoint() works",
    "util.sgd": f"{_LIBRARY}: miniray.train trains models",
    "util.spark": _LIBRARY,
    "util.tpu": "is for TPUs, which there are none of",
    "util.tracing": "sends to OpenTelemetry: miniray.timeline() writes a trace",
    "util.xgboost": _LIBRARY,
}


def text_of(name):
    """The explanation for a name below the package; None: Ray does not have it either."""
    why = WHY.get(name)
    return None if why is None else f"miniray has no '{name}': in Ray it {why}. (docs/from-ray.md)"


def missing(module, name):
    """The AttributeError of a module that lacks a name."""
    below = f"{module}.{name}".removeprefix("miniray.")
    if text_of(below) is not None:
        return AttributeError(text_of(below))
    known = getattr(sys.modules.get(module), "__all__", ())
    return did_you_mean.attribute_error(f"module '{module}' has no attribute '{name}'", name, known)


class _Finder:
    """The last finder of sys.meta_path: raises for known names."""

    def find_spec(self, name, path=None, target=None):
        text = text_of(name.removeprefix("miniray.")) if name.startswith("miniray.") else None
        if text is not None:
            raise ImportError(text, name=name)


sys.meta_path.append(_Finder())
