"""Parameter servers.

For models, one line to sync any of them (README.md here):

    from miniray.ps import create_parameter_server

    ps = create_parameter_server('average')
    ps.sync_from_workers.remote(workers)

For models whose weights and optimizer are on servers (docs/models.md):

    with create_parameter_server(optimizer="adam", lr=1e-3, model=model, num_workers=4) as ps:
        ...
        with ps.session(rank) as session:
            for step in session.steps(1000):
                session.pull(out=model)
                loss(model, batch(step)).backward()
                session.push_gradients(model)

For tables by key, with optimizers on the servers (docs/ps-python.md):

    with miniray.ps.start(num_servers=2, replicas=2, num_workers=4, consistency="bsp") as ps:
        with ps.connect(rank=0) as connection:
            words = connection.table("words", dim=16, optimizer="adagrad", lr=0.1)
            for step in connection.steps(100):
                words.push(keys, gradient(words.pull(keys)))
"""

import functools
import sys

from miniray._weights._shared_model import share
from miniray.ps import _old_names
from miniray.ps._app_messages import Request, Response
from miniray.ps._connection import Connection, connect
from miniray.ps._dataset import Batch, Dataset
from miniray.ps._deployment import Deployment, start
from miniray.ps._model_session import Session
from miniray.ps._tables import DenseTable, SparseTable, Table, Ticket, VectorTable, Version
from miniray.ps.errors import (PsError, PsTimeoutError, RankTakenError, StaleError, TableExistsError,
                               TableNotFoundError)
from miniray.ps.parameter_server import ParameterServer, create_parameter_server
from miniray.ps._optimizer_server import OptimizerServer
from miniray.ps.strategies import STRATEGIES, SyncStrategy

__all__ = ["STRATEGIES", "Batch", "Connection", "Dataset", "DenseTable", "Deployment", "OptimizerServer", "ParameterServer", "PsError",
           "PsTimeoutError", "RankTakenError", "Request", "Response", "Session", "SparseTable", "StaleError", "SyncStrategy", "Table",
           "TableExistsError", "TableNotFoundError", "Ticket", "VectorTable", "Version", "connect",
           "create_parameter_server", "share", "start"]

__getattr__ = functools.partial(_old_names.attributes(Data="Dataset", Mark="Version", Piece="Batch"), sys.modules[__name__])
