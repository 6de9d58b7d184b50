"""The examples of the parameter server run with the documented output."""

import re
from xml.etree import ElementTree

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


@pytest.mark.parametrize("example, lines, over", [
    ("matrix", ["mean squared error"], "epoch"), ("linear", ["linear", "logistic"], "step")])
def test_losses_are_plotted(run_here, tmp_path, example, lines, over):
    run_here(f"examples/ps_{example}.py", "--plot", str(tmp_path / "losses.svg"))
    drawn = ElementTree.parse(tmp_path / "losses.svg").getroot()
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    curves = [element.get("points").split() for element in drawn.iter("{http://www.w3.org/2000/svg}polyline")]
    assert texts[-1] == over and [text for text in texts if text in lines] == lines and len(curves) == len(lines)
    for points in curves:
        heights = [float(point.partition(",")[2]) for point in points]
        assert heights[-1] > heights[0] + 10  # the loss falls: y coordinates grow downwards


def test_losses_are_plotted_by_matplotlib(run_here, tmp_path):
    pytest.importorskip("matplotlib")
    run_here("examples/ps_matrix.py", "--plot", str(tmp_path / "losses.png"))
    assert (tmp_path / "losses.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("text, told", [(None, "No such file"), ("", "0 words are too few"), ("so few words", "2 words")])
def test_texts_that_are_none(run_here, tmp_path, text, told):
    if text is not None:
        (tmp_path / "text").write_text(text)
    done = run_here("examples/ps_words.py", "--text", str(tmp_path / "text"), code=2)
    assert told in done.stderr and "Traceback" not in done.stderr
