"""Programs without steps: each push counts, whichever process of the rank pushes it, and a loss raises one error."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from miniray import ps

np = pytest.importorskip("numpy")


def test_pushes_after_a_restart_from_the_folder_count(tmp_path):
    with ps.start(checkpoint_dir=str(tmp_path / "state")) as deployment, deployment.connect() as connection:
        table = connection.table("sums", dim=1)
        for _ in range(1000):
            table.push([7], [1])
        deployment.checkpoint()
    with ps.start(checkpoint_dir=str(tmp_path / "state")) as deployment, deployment.connect() as connection:
        table = connection.table("sums")
        assert table.pull(7) == 1000
        for _ in range(999):
            table.push([7], [1])
        assert table.pull(7) == 1999


def test_a_process_that_takes_over_the_rank_of_a_killed_one_pushes_anew():
    program = textwrap.dedent("""
        import os, signal, sys
        from miniray import ps
        table = ps.connect(sys.argv[1], 0).table("sums", dim=1)
        for _ in range(500):
            table.push([7], [1])
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    with ps.start() as deployment:
        for _ in range(3):
            done = subprocess.run([sys.executable, "-c", program, deployment.address])
            assert done.returncode == -signal.SIGKILL
        with deployment.connect(0) as connection:
            assert connection.table("sums", dim=1).pull(7) == 1500


def _lose_the_server(deployment):
    before = deployment.cluster_map()["generation"]
    os.kill(deployment.pids()[0], signal.SIGKILL)
    while deployment.cluster_map()["generation"] == before:
        time.sleep(0.01)


def test_a_loss_is_told_once_to_an_idle_program():
    with ps.start() as deployment, deployment.connect() as connection:
        table = connection.table("sums", dim=1)
        table.push([7], [5])
        _lose_the_server(deployment)
        with pytest.raises(ps.StaleError, match="acknowledged pushes are lost.*no checkpoint.*empty"):
            table.pull(7)
        assert table.pull(7) == 0
        table.push([7], [1])
        assert table.pull(7) == 1


def test_a_loss_names_the_checkpoint_that_tables_continue_from():
    with ps.start() as deployment, deployment.connect() as connection:
        table = connection.table("sums", dim=1)
        table.push([7], [5])
        number = deployment.checkpoint()
        table.push([7], [1])
        _lose_the_server(deployment)
        with pytest.raises(ps.StaleError, match=f"continue from checkpoint {number}"):
            table.push([7], [1])
        assert table.pull(7) == 5


def test_a_loss_is_told_to_the_next_process(tmp_path):
    with ps.start() as deployment:
        with deployment.connect() as connection:
            connection.table("sums", dim=1).push([7], [5])
        _lose_the_server(deployment)
        with deployment.connect() as connection:
            table = connection.table("sums")
            with pytest.raises(ps.StaleError, match="no checkpoint"):
                table.pull(7)
            assert table.pull(7) == 0
        with deployment.connect() as connection:
            assert connection.table("sums").pull(7) == 0
