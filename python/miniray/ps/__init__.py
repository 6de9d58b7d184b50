"""The parameter server for models: any model, one line to sync it.

    from miniray.ps import create_parameter_server

    ps = create_parameter_server('average')
    ps.sync_from_workers.remote(workers)
"""

from miniray.ps._share import share
from miniray.ps.parameter_server import ParameterServer, create_parameter_server
from miniray.ps.strategies import STRATEGIES, SyncStrategy

__all__ = ["STRATEGIES", "ParameterServer", "SyncStrategy", "create_parameter_server", "share"]
