"""python -m ml.train: the GAN in each of its modes. Without torch, its error says so."""

import re

import numpy as np
import pytest

HIDE_TORCH = """
import runpy, sys
sys.modules['torch'] = None
runpy.run_module('ml.train', run_name='__main__')
"""


@pytest.fixture
def train(run_here):
    return lambda *arguments, code=0: run_here("-m", "ml.train", *arguments, code=code)


@pytest.mark.parametrize("mode", ["distributed", "framework", "single"])
def test_it_trains_and_draws_a_grid(train, mode, tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "digits.png"
    done = train("--mode", mode, "--workers", "2", "--epochs", "2", "--steps", "4", "--output", str(path))
    assert len(re.findall(r"G_loss: \d+\.\d{4}, D_loss: \d+\.\d{4}", done.stdout)) == 2
    assert done.stdout.endswith(f"what it draws, a column for each digit: {path}\n")
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR" and data[-8:-4] == b"IEND"
    width, height = np.frombuffer(data[16:24], ">u4")
    assert (width, height) == (8 * (10 * 9 + 1), 8 * (8 * 9 + 1))


def test_workers_share_what_they_learn(train, tmp_path):
    """Two ways to write the same training, by hand and on the framework, draw the same images."""
    pytest.importorskip("torch")
    options = ("--workers", "2", "--epochs", "3", "--steps", "3", "--seed", "5", "--output")
    for mode in ("distributed", "framework"):
        train("--mode", mode, *options, str(tmp_path / mode))
    assert (tmp_path / "distributed").read_bytes() == (tmp_path / "framework").read_bytes()


def test_wrong_arguments_are_told_in_a_line(train, tmp_path):
    pytest.importorskip("torch")
    for arguments, told in ((["--mode", "fast"], "invalid choice: 'fast'"),
                            (["--workers", "0"], "it must be more than 0, not 0"),
                            (["--epochs", "ten"], "invalid int value: 'ten'"),
                            (["--output", str(tmp_path / "none" / "x.png")], "there is no folder")):
        refused = train(*arguments, code=2)
        assert told in refused.stderr.splitlines()[-1] and "Traceback" not in refused.stderr


def test_without_torch_it_says_what_to_install(run_here):
    refused = run_here("-c", HIDE_TORCH, code=2)
    assert "apt-get install python3-torch" in refused.stderr and "Traceback" not in refused.stderr
