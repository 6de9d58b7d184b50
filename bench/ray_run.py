#!/usr/bin/python3
"""ray_run.py [--repeats N] [--json FILE] [--beside PYTHON [--ray-repeats N]] [ROW…]: measures the rows of ray_rows.py.

Each row is measured in fresh process groups; the median is shown with its spread over them, p50, p99 and max of single
calls (or of batches of calls, with their size), the bar, and the ratio to Ray. If PYTHON is an interpreter that has Ray,
Ray is measured in the same run, in turns with Miniray; else the reference is the value that Ray 2.57 reports on a machine
with 64 cores. Needs build/env.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys

from ray_rows import ROWS, start

LIMIT_S = 600  # for one measurement


def measure(name, module):
    """Measure one row in this process and print it as JSON."""
    ray, one = importlib.import_module(module), ROWS[name]
    if one.workers > 0:
        start(ray, one.workers)
    figure = one.work(ray)
    if figure is None:
        print("null")
        return
    laps = sorted(figure.laps)
    print(json.dumps({
        "value": figure.value, "lap": figure.lap,
        "us": [laps[len(laps) // 2] * 1e6, laps[len(laps) * 99 // 100] * 1e6, laps[-1] * 1e6] if laps else None,
    }))


def in_fresh_group(python, name, module):
    command = [python, os.path.abspath(__file__), "--one", name, "--module", module]
    # Lets imports use compiled bytecode, as installed packages do.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=LIMIT_S, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


# ---- Results.


def shown(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def summary(figures):
    values = [figure["value"] for figure in figures]
    median = statistics.median(values)
    laps = [figure["us"] for figure in figures if figure["us"]]
    return {"value": median, "spread": (max(values) - min(values)) / median / 2, "figures": values,
            "lap": figures[0]["lap"], "us": [statistics.median(column) for column in zip(*laps)] if laps else None}


def against_ray(row, ours, theirs):
    """The ratio to the reference, and the reference's name."""
    if theirs is not None:
        value, what = theirs["value"], "Ray here"
    elif row.ray is not None:
        value, what = row.ray, "Ray's own"
    else:
        return None, ""
    ratio = ours / value if row.more else value / ours
    return ratio, f"{shown(ratio):>7s} × {what} {shown(value)}"


def report(row, ours, theirs):
    reached = None if row.bar is None else ours["value"] >= row.bar if row.more else ours["value"] <= row.bar
    verdict = "" if row.bar is None else f"{'≥' if row.more else '≤'} {shown(row.bar)} {'✓' if reached else 'short'}"
    ratio, text = against_ray(row, ours["value"], theirs)
    times = ""
    if ours["us"]:
        times = " / ".join(map(shown, ours["us"])) + (" µs" if ours["lap"] <= 1 else f" µs of {ours['lap']}")
    print(f"{row.name:45s} {shown(ours['value']):>10s} {row.unit:4s} ±{ours['spread']:4.0%}  {verdict:17s} {times:34s} "
          f"{text}", flush=True)
    return {"row": row.name, "unit": row.unit, "bar": row.bar, "more": row.more, "reached": reached,
            "ratio": ratio, "ray_stored": row.ray, "ours": ours, "ray": theirs}


def measure_row(row, given):
    sides = [(sys.executable, "miniray")] + ([(given.beside, "ray")] if given.beside else [])
    figures = {module: [] for _, module in sides}
    for turn in range(given.repeats):
        for python, module in sides:
            if module == "ray" and turn >= given.ray_repeats:
                continue
            try:
                figures[module].append(in_fresh_group(python, row.name, module))
            except (subprocess.SubprocessError, ValueError) as error:
                if module == "miniray":
                    raise
                print(f"{row.name}: Ray failed: {error}", file=sys.stderr, flush=True)
    if None in figures["miniray"]:
        print(f"{row.name:45s} {'':>10s} not there yet", flush=True)
        return None
    theirs = summary(figures["ray"]) if figures.get("ray") else None
    return report(row, summary(figures["miniray"]), theirs)


def is_wanted(name, parts):
    """Whether a part is this row's name, or occurs in it without being the name of another row; no parts select all."""
    return not parts or any(part == name if part in ROWS else part in name for part in parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--beside", metavar="PYTHON")
    parser.add_argument("--ray-repeats", type=int, default=5, help="of Ray, which is slow to start")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--module", default="miniray", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        return measure(given.one, given.module)
    print(f"{'row':45s} {'ours':>10s} {'':4s} {'':5s}  {'bar':17s} {'p50 / p99 / max':34s} better than Ray", flush=True)
    results = [measure_row(row, given) for name, row in ROWS.items() if is_wanted(name, given.rows)]
    if given.json:
        with open(given.json, "w") as file:
            json.dump([result for result in results if result], file, indent=1)


if __name__ == "__main__":
    main()
