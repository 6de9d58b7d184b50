"""experimental.tqdm_ray: progress bars of workers, which the driver draws."""

import os
import pty
import re
import subprocess
import sys
import types

import pytest

from miniray._output import progress_bars as _progress_bars
from miniray.experimental import tqdm_ray

PROGRAM = """
    import miniray as ray
    from miniray.experimental import tqdm_ray
    ray.init(num_cpus=1)

    @ray.remote
    def count(many):
        for each in tqdm_ray.tqdm(range(many), desc="counting"):
            pass
        print("counted")
    ray.get(count.remote(7))
    by_hand = tqdm_ray.tqdm(total=4, desc="here", unit="B")
    by_hand.update(3)
    by_hand.close()
    ray.shutdown()
"""


@pytest.fixture
def shown(monkeypatch):
    """The output of a display, without or on a terminal."""
    class Stream(list):
        terminal = False

        def write(self, text):
            self.append(text)

        def flush(self):
            pass

        def isatty(self):
            return self.terminal
    stream = Stream()
    monkeypatch.setattr(_progress_bars, "sys", types.SimpleNamespace(stderr=stream))
    return stream


def state(**facts):
    return {"key": "a", "desc": "work", "total": 10, "unit": "it", "place": 0, "done": 5, "began": 0, "closed": False, **facts}


def test_the_bars_of_workers_and_of_the_program_are_lines_where_there_is_no_terminal(run_program):
    done = run_program(PROGRAM)
    assert re.search(r"\(count pid=\d+\) counting: 100%\|█+\| 7/7 \[", done.stderr), done.stderr
    assert re.search(r"here:  75%\|█+ +\| 3/4 \[.*B/s\]", done.stderr), done.stderr
    assert "counted" in done.stdout and "\x1e" not in done.stdout + done.stderr


def test_an_actor_is_a_bar_that_many_count_up(run_program):
    done = run_program("""
        import miniray as ray
        from miniray.experimental.tqdm_ray import tqdm
        ray.init(num_cpus=2)

        @ray.remote
        def work(bar):
            ray.get([bar.update.remote(1) for _ in range(5)])
        bar = ray.remote(tqdm).remote(total=10, desc="shared")
        ray.get([work.remote(bar), work.remote(bar)])
        ray.get(bar.close.remote())
        ray.shutdown()
    """)
    assert re.search(r"shared: 100%\|█+\| 10/10 ", done.stderr), done.stderr


def test_a_bar_stays_below_what_is_printed(shown):
    shown.terminal = True
    display = _progress_bars.Display()
    display.take(state())
    assert "work:  50%" in shown[-1]
    with display.hidden():
        shown.append("printed\n")
    assert "\x1b[1A" in shown[-3] and shown[-2] == "printed\n" and "work:  50%" in shown[-1]
    display.take(state(done=10, closed=True))
    assert "work: 100%" in shown[-1] and shown[-1].endswith("\n")
    display.hide_bars()
    assert "work: 100%" in shown[-1]  # a closed bar is not hidden


def test_bars_are_drawn_by_their_positions(shown):
    shown.terminal = True
    display = _progress_bars.Display()
    display.take(state(key="a", desc="second", place=1))
    display.take(state(key="b", desc="first", place=0))
    first, second = shown[-1].splitlines()
    assert first.startswith("first:") and second.startswith("second:")


def test_lines_that_only_look_like_bars_are_printed(shown):
    told = _progress_bars.line_of(state(closed=True)).encode()
    odd = b"\x1ebar:{}\n\x1ebar:5\n\x1ebar:nonsense\n\x1ebar:" + told[7:-3] + b"\nplain\n"
    assert _progress_bars.taken(odd) == odd and shown == []
    assert _progress_bars.taken(b"(f pid=1) " + told + b"plain\n") == b"plain\n"
    assert shown[-1].startswith("(f pid=1) work:  50%")


def test_a_bar_without_a_total_counts(shown):
    bar = tqdm_ray.tqdm(desc="endless", unit="B")
    bar.update(2)
    bar.update(3)
    bar.close()
    bar.close()
    assert len(shown) == 1 and shown[0].startswith("endless: 5B [")
    assert bar.n == 5 and bar.total is None
    with pytest.raises(ValueError, match="no iterable"):
        next(iter(bar))


def test_a_loop_that_is_left_closes_its_bar(shown):
    for each in tqdm_ray.tqdm(range(10), desc="left"):
        if each == 3:
            break
    del each
    assert shown[-1].startswith("left:  30%")


def test_safe_print_prints(capsys):
    tqdm_ray.safe_print("a", "b", sep="-")
    assert capsys.readouterr().out == "a-b\n"


def test_bars_on_a_terminal(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("\n".join(line[4:] for line in PROGRAM.splitlines()))
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, str(path)], stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 65536):
            text += part
    except OSError:  # end of the terminal's output
        pass
    assert process.wait(60) == 0
    os.close(ours)
    text = text.decode()
    assert "counting:" in text and "7/7" in text and "3/4" in text and "counted" in text and "\x1e" not in text
