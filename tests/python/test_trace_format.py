"""The timeline follows the Trace Event Format, so that Perfetto can show it: each field of each kind of event."""
import json
import os
import signal

import pytest

FIELDS = {
    "X": {"name": str, "cat": str, "ts": int, "dur": int, "pid": int, "tid": int, "args": dict},
    "M": {"name": str, "pid": int, "args": dict},
    "s": {"name": str, "cat": str, "id": int, "ts": int, "pid": int, "tid": int},
    "f": {"name": str, "cat": str, "id": int, "ts": int, "pid": int, "tid": int, "bp": str},
    "i": {"name": str, "s": str, "ts": int, "pid": int, "tid": int, "args": dict},
}


def check_event(event):
    fields = FIELDS[event["ph"]]
    assert set(event) == {"ph", *fields}, event
    for name, kind in fields.items():
        assert type(event[name]) is kind, event
    if event["ph"] == "M":
        wanted = {"process_name": {"name": str}, "process_sort_index": {"sort_index": int}}[event["name"]]
        assert {name: type(value) for name, value in event["args"].items()} == wanted, event
    else:
        assert event["ts"] > 0 and event.get("dur", 0) >= 0 and event.get("s", "p") in ("g", "p", "t"), event


def check_nesting(events):
    """Events of one track are nested or disjoint: Perfetto drops other overlaps."""
    tracks = {}
    for event in events:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], -event["dur"]))
    for track in tracks.values():
        ends = []
        for begin, minus in sorted(track):
            while ends and ends[-1] <= begin:
                ends.pop()
            assert not ends or begin - minus <= ends[-1], track
            ends.append(begin - minus)


def check_arrows(events):
    """Each flow has two ends: the first inside a call of a driver or of a body, the second not before the first."""
    begins = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert begins and begins.keys() == ends.keys()
    assert len(begins) + len(ends) == sum(event["ph"] in "sf" for event in events)
    slices = {}
    for event in events:
        if event["ph"] == "X":
            slices.setdefault((event["pid"], event["tid"]), []).append(event)
    for number, begin in begins.items():
        assert begin["ts"] <= ends[number]["ts"]
        around = slices[begin["pid"], begin["tid"]]
        assert any(one["ts"] <= begin["ts"] <= one["ts"] + one["dur"] for one in around), begin


def test_every_event_is_as_the_format_says(ray, tmp_path):
    @ray.remote
    def inner(number):
        return number

    @ray.remote
    def outer(number):
        return ray.get([inner.remote(number + i) for i in range(3)])

    @ray.remote(max_retries=0)
    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    @ray.remote(max_concurrency=3)
    class Echo:
        def echo(self, value):
            return value

    echo = Echo.remote()
    assert ray.get([outer.remote(i) for i in range(20)]) == [[i, i + 1, i + 2] for i in range(20)]
    assert ray.get([echo.echo.remote(i) for i in range(200)]) == list(range(200))
    with pytest.raises(Exception):
        ray.get(die.remote())
    ray.timeline(str(tmp_path / "trace.json"))
    written = json.loads((tmp_path / "trace.json").read_text())
    events = written if isinstance(written, list) else written["traceEvents"]
    for event in events:
        check_event(event)
    check_nesting(events)
    check_arrows(events)
    assert any(event.get("cat") == "submit" and event["pid"] == os.getpid() for event in events)
    names = {event["name"].split(" ")[0] for event in events if event["ph"] == "X"}
    assert any("outer" in name for name in names) and any("echo" in name for name in names)
    named = {event["pid"] for event in events if event["ph"] == "M"}
    assert {event["pid"] for event in events} == named
    assert any(event["ph"] == "i" and "signal 9" in event["args"]["why"] for event in events)
