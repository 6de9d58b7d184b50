"""The modules of `ray.experimental` that programs use."""

from miniray._compat import missing as _missing


def __getattr__(name):
    """Imports, at their first use, modules that few programs need."""
    if name in ("state", "tqdm_ray"):
        import importlib
        return importlib.import_module(f"miniray.experimental.{name}")
    raise _missing.missing("miniray.experimental", name)
