"""runtime_env: variables and folders for tasks and actors.

    {"env_vars": {"NAME": "value"}, "working_dir": folder, "py_modules": [folders, files or modules]}

For a whole program also "worker_process_setup_hook": a function, or "module.function", that every worker calls before
its first task. All processes are on this machine, so folders are used in place. Fields that would install software are
an error.
"""

import os

_KNOWN = {"env_vars", "working_dir", "py_modules"}
_WITHOUT_EFFECT = {"excludes", "config", "_validate"}
_INSTALLED = {"pip", "uv", "conda", "container", "image_uri", "java_jars"}
_HOOK = "worker_process_setup_hook"
_HOOK_VARIABLE = "MINIRAY_SETUP_HOOK"  # in the environment of workers: the function, pickled


def check(given, whole_program=False):
    """Raises for fields that are unknown or cannot be set up."""
    if not isinstance(given, dict):
        raise TypeError(f"runtime_env must be a dict such as {{'env_vars': {{'NAME': 'value'}}}}, not {given!r}")
    for name in given:
        if name == _HOOK and not whole_program:
            raise ValueError(f"runtime_env['{_HOOK}'] is for init() only, not for tasks and actors")
        if name not in _KNOWN | _WITHOUT_EFFECT | {_HOOK}:
            from miniray._core_api import did_you_mean
            known = ("env_vars", "working_dir", "py_modules", *(_HOOK,) * whole_program)
            meant = did_you_mean.hint(name, known)
            if name in _INSTALLED:
                meant = "; it would install software: install it for this interpreter before the start"
            raise ValueError(f"runtime_env has an unknown field {name!r}{meant or '; expected ' + ', '.join(known)}")
    variables = given.get("env_vars") or {}
    if not isinstance(variables, dict):
        raise TypeError(f"runtime_env['env_vars'] must be a dict of names and texts, not {variables!r}")
    for name, value in variables.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"runtime_env['env_vars'] has {name!r}: {value!r}: names and values must be str")
    if isinstance(given.get("py_modules"), (str, os.PathLike)):
        raise TypeError(f"runtime_env['py_modules'] must be a list of directories, files or modules, not {given['py_modules']!r}")
    for folder in _folders(given):
        if not isinstance(folder, (str, os.PathLike)):
            raise TypeError(f"a directory of runtime_env must be a str or a path, not {folder!r}")
        if not os.path.isdir(folder) and not (os.path.isfile(folder) and os.fspath(folder).endswith(".py")):
            raise ValueError(f"runtime_env names {os.fspath(folder)!r}, which is no directory, and no file of Python (.py)")


def hook_variables(given):
    """(the runtime_env for workers, {variable: hook}): the environment of workers."""
    hook = (given or {}).get(_HOOK)
    if hook is None:
        return given, {}
    import base64
    import cloudpickle
    known = {name: value for name, value in given.items() if name != _HOOK}
    return known, {_HOOK_VARIABLE: base64.b64encode(cloudpickle.dumps(hook)).decode()}


def run_hook():
    """Calls the setup hook in a worker, before its first task."""
    text = os.environ.pop(_HOOK_VARIABLE, None)
    if text is not None:
        import base64
        import importlib
        import pickle
        hook = pickle.loads(base64.b64decode(text))
        if isinstance(hook, str):
            module, _, name = hook.rpartition(".")
            hook = getattr(importlib.import_module(module), name)
        hook()


def _folders(given):
    folder = given.get("working_dir")
    return [*([] if folder is None else [folder]), *(with_paths(given).get("py_modules") or [])]


def with_paths(given):
    """The same runtime_env with the paths of imported modules, which py_modules may contain."""
    modules = given.get("py_modules") or ()
    if not any(isinstance(each, type(os)) for each in modules):
        return given
    return {**given, "py_modules": [_place(each) if isinstance(each, type(os)) else each for each in modules]}


def _place(module):
    return os.path.dirname(module.__file__) if hasattr(module, "__path__") else module.__file__


def resolved(given):
    """The same runtime_env with paths that do not depend on the folder of this process."""
    made = dict(with_paths(given))
    if made.get("working_dir") is not None:
        made["working_dir"] = os.path.abspath(made["working_dir"])
    if made.get("py_modules"):
        made["py_modules"] = [os.path.abspath(folder) for folder in made["py_modules"]]
    return made


def search_path(given):
    """The folders that are first in the module search path: those of py_modules, and the working folder."""
    path = [os.path.dirname(os.path.abspath(folder)) for folder in given.get("py_modules") or ()]
    return ([os.path.abspath(given["working_dir"])] if given.get("working_dir") else []) + path


def current_folder():
    """The working folder; None if it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


class applied:
    """Applies the runtime_env while it is entered."""

    def __init__(self, given):
        self.given = given

    def __enter__(self):
        import sys
        self.before = os.environ.copy(), current_folder(), list(sys.path)
        enter(self.given)

    def __exit__(self, *error):
        import sys
        variables, folder, sys.path[:] = self.before
        if folder is not None and self.given.get("working_dir") is not None:
            os.chdir(folder)
        for name in self.given.get("env_vars") or {}:
            if name in variables:
                os.environ[name] = variables[name]
            else:
                os.environ.pop(name, None)


def enter(given):
    """Applies the runtime_env until the process ends."""
    import sys
    os.environ.update(given.get("env_vars") or {})
    sys.path[:0] = search_path(given)
    if given.get("working_dir") is not None:
        os.chdir(given["working_dir"])
