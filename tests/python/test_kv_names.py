"""Names of release 0.1: each is an error that gives the new name."""

import pytest

from miniray import ps
from miniray.train import BaseTrainer, DataParallelTrainer


@pytest.fixture(scope="module")
def deployment():
    with ps.start(num_servers=1, num_workers=1) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def connection(deployment):
    with deployment.connect() as connection:
        yield connection


@pytest.mark.parametrize("old, new", [("servers", "num_servers"), ("workers", "num_workers"), ("folder", "checkpoint_dir"),
                                      ("copies", "replicas"), ("backup", "backup_workers"), ("mixed", "mixed_consistency")])
def test_options_of_start(old, new):
    with pytest.raises(TypeError, match=rf"^start\(\) takes no {old}: it is called {new}$"):
        ps.start(**{old: 1})
    with pytest.raises(TypeError, match=r"^start\(\) takes no num_servrs; did you mean num_servers"):
        ps.start(num_servrs=1)


def test_options_of_tables(connection):
    with pytest.raises(TypeError, match="^a table takes no codec: it is called compression$"):
        connection.table("t", dim=1, codec="int8")
    table = connection.table("t", dim=1, compression="int8")
    assert table.options["compression"] == "int8" and "codec" not in table.options
    for pull in (lambda: table.pull([1], mark=None), lambda: connection.table("a", arrays={"w": 2}).pull(mark=None)):
        with pytest.raises(TypeError, match=r"^pull\(\) takes no mark: it is called version$"):
            pull()


@pytest.mark.parametrize("make", [BaseTrainer, DataParallelTrainer])
def test_options_of_trainers(make):
    with pytest.raises(TypeError, match="takes no workers: it is called num_workers$"):
        make(workers=4)
    with pytest.raises(TypeError, match="takes no num_worker; did you mean num_workers"):
        make(num_worker=4)


def test_attributes(deployment, connection):
    batch = ps.Batch(1, 0, 2, 4)
    dataset, table = connection.dataset([8]), connection.table("attributes", dim=1)
    for owner, old, new in ((deployment, "chart", "cluster_map"), (deployment, "board", "processes"),
                            (connection, "settle", "flush"), (connection, "keep", "set_state_dir"),
                            (connection, "report", "metric"), (connection, "data", "dataset"),
                            (connection, "ranks", "num_workers"), (connection, "servers", "num_servers"),
                            (dataset, "piece", "next_batch"), (dataset, "pieces", "batches"), (batch, "part", "shard"),
                            (table, "mark", "version"), (ps, "Data", "Dataset"), (ps, "Piece", "Batch"),
                            (ps, "Mark", "Version")):
        assert hasattr(owner, new)
        with pytest.raises(AttributeError, match=f"no attribute '{old}': it is called '{new}'$"):
            getattr(owner, old)
        with pytest.raises(AttributeError, match="no attribute 'nothing'$"):
            owner.nothing
    assert deployment.cluster_map()["replicas"] == connection.replicas == 1
