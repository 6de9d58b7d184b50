"""A backend for joblib, and so for scikit-learn: `register_ray()`, then `with joblib.parallel_backend("ray"):`.

The backend is joblib's own multiprocessing backend over a pool of actors.
"""

from __future__ import annotations

from typing import Any

import miniray

try:
    from joblib import register_parallel_backend
    from joblib._parallel_backends import MultiprocessingBackend
except ImportError as error:
    raise ImportError("miniray.util.joblib needs joblib, which cannot be imported here: install it (pip install joblib, or "
                      "Debian's python3-joblib), or use miniray.util.multiprocessing.Pool") from error

__all__ = ["register_ray"]


class RayBackend(MultiprocessingBackend):
    """The joblib backend. As many jobs run at once as there are CPUs, or fewer if fewer are requested."""

    supports_sharedmem = False

    def __init__(self, *args, ray_remote_args=None, **options) -> None:
        super().__init__(*args, **options)
        self._remote_args = ray_remote_args

    def effective_n_jobs(self, n_jobs) -> int:
        """The number of jobs that run at once."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if not miniray.is_initialized():
            miniray.init()
        cpus = max(1, int(miniray.cluster_resources().get("CPU", 0)))
        wanted = cpus if n_jobs is None else n_jobs if n_jobs > 0 else max(cpus + 1 + n_jobs, 1)
        return min(wanted, cpus)

    def configure(self, n_jobs=1, parallel=None, prefer=None, require=None, **others) -> Any:
        """Creates the pool and returns the number of jobs. `others` concern process pools that share memory by files.
        """
        from miniray.util.multiprocessing import Pool
        n_jobs = self.effective_n_jobs(n_jobs)
        self._pool = Pool(n_jobs, ray_remote_args=self._remote_args)
        self.parallel = parallel
        return n_jobs


def register_ray() -> None:
    """Registers the backend "ray" with joblib."""
    register_parallel_backend("ray", RayBackend)
