"""The modules of `ray.experimental` that programs use."""

from miniray._compat import missing as _missing


def __getattr__(name):
    """Modules that few programs need are imported when they are asked for."""
    if name in ("state", "tqdm_ray"):
        import importlib
        return importlib.import_module(f"miniray.experimental.{name}")
    raise _missing.missing("miniray.experimental", name)
