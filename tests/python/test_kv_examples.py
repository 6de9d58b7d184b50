"""The examples of the parameter server do what they say."""

import re

import pytest


def losses(text, name):
    return [float(number) for number in re.findall(rf"{name} (\d+\.\d+)", text)]


@pytest.mark.parametrize("example, name, factor", [
    ("matrix", "mean squared error", 0.1), ("words", "loss", 0.8), ("clicks", "log loss", 0.95)])
def test_it_learns(run_here, example, name, factor):
    found = losses(run_here(f"examples/ps_{example}.py").stdout, name)
    assert len(found) >= 6 and found[-1] < found[0] * factor


def test_the_line_and_the_sides_are_found(run_here):
    said = run_here("examples/ps_linear.py").stdout
    assert losses(said, "linear")[-1] == 0 and losses(said, "logistic")[-1] < 0.25
    assert "the line: [ 3.  -2.   0.5] it was [ 3.  -2.   0.5]" in said
    assert float(re.search(r"on the right side: (\d+\.\d)%", said)[1]) > 97


def test_losses_are_plotted(run_here, tmp_path):
    pytest.importorskip("matplotlib")
    run_here("examples/ps_matrix.py", "--plot", str(tmp_path / "losses.png"))
    assert (tmp_path / "losses.png").read_bytes()[:4] == b"\x89PNG"
