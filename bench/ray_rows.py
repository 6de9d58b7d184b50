#!/usr/bin/python3
"""ray_rows.py [--repeats N] [--json FILE] [ROW…]: the rows of Ray's microbenchmark, by Ray's names, from Python.

Each row is measured in fresh process groups, and the median is shown with its spread, beside what Ray 2.57 reports for
itself on a machine of 64 cores. `best of` columns are rates unless the unit says otherwise. Needs build/env.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROWS = {}  # name: (function, unit, Ray's figure, bar, whether more is better)


def row(name, unit="/s", ray=None, bar=None, more=True):
    def add(function):
        ROWS[name] = function, unit, ray, bar, more
        return function
    return add


def rate(work, count, seconds=1.0):
    """How often a second, over batches of `count`, after one for warming up."""
    work(count)
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        work(count)
        done += count
    return done / (time.perf_counter() - start)


def actor(ray, **options):
    @ray.remote
    class Actor:
        def small_value(self):
            return b"ok"

        def small_value_arg(self, x):
            return b"ok"
    made = Actor.options(**options).remote()
    ray.get(made.small_value.remote())
    return made


@row("1:1 actor calls sync", ray=1763, bar=500e3)
def actor_sync(ray):
    a = actor(ray)

    def work(count):
        for _ in range(count):
            ray.get(a.small_value.remote())
    return rate(work, 2000)


def latencies(ray):
    a, took = actor(ray), []
    for _ in range(50_000):
        start = time.perf_counter()
        ray.get(a.small_value.remote())
        took.append(time.perf_counter() - start)
    return sorted(took[5000:])


@row("1:1 actor calls sync, p50", unit="µs", bar=2, more=False)
def actor_p50(ray):
    took = latencies(ray)
    return took[len(took) // 2] * 1e6


@row("1:1 actor calls sync, p99", unit="µs", bar=6, more=False)
def actor_p99(ray):
    took = latencies(ray)
    return took[len(took) * 99 // 100] * 1e6


@row("1:1 actor calls async", ray=8186, bar=1.2e6)
def actor_async(ray):
    a = actor(ray)
    return rate(lambda count: ray.get([a.small_value.remote() for _ in range(count)]), 1000)


@row("1:1 actor calls sync, 1 KB bytes", bar=400e3)
def actor_bytes(ray):
    a, data = actor(ray), b"x" * 1024

    def work(count):
        for _ in range(count):
            ray.get(a.small_value_arg.remote(data))
    return rate(work, 2000)


@row("1:1 actor calls sync, 10 KB array", bar=250e3)
def actor_array(ray):
    import numpy
    a, data = actor(ray), numpy.zeros(1280)

    def work(count):
        for _ in range(count):
            ray.get(a.small_value_arg.remote(data))
    return rate(work, 2000)


def many_to_many(ray, clients, batch, sync):
    servers = [actor(ray) for _ in range(clients)]

    @ray.remote
    class Client:
        def __init__(self, server):
            self.server = server

        def work(self, count):
            if sync:
                for _ in range(count):
                    ray.get(self.server.small_value.remote())
            else:
                ray.get([self.server.small_value.remote() for _ in range(count)])
    all_clients = [Client.remote(server) for server in servers]
    return clients * rate(lambda count: ray.get([c.work.remote(count) for c in all_clients]), batch)


@row("n:n actor calls async, 4:4", ray=23595, bar=1.5e6)
def actors_async(ray):
    return many_to_many(ray, 4, 2000, False)


@row("n:n actor calls sync, 4:4", bar=200e3)
def actors_sync(ray):
    return many_to_many(ray, 4, 1000, True)


@row("single client tasks sync", ray=805, bar=250e3)
def tasks_sync(ray):
    task = ray.remote(lambda: b"ok")

    def work(count):
        for _ in range(count):
            ray.get(task.remote())
    return rate(work, 2000)


@row("single client tasks async", ray=7533, bar=800e3)
def tasks_async(ray):
    task = ray.remote(lambda: b"ok")
    return rate(lambda count: ray.get([task.remote() for _ in range(count)]), 1000)


@row("multi client tasks async", ray=20040, bar=1e6)
def multi_tasks(ray):
    @ray.remote
    class Client:
        def __init__(self):
            self.task = ray.remote(lambda: b"ok")

        def work(self, count):
            ray.get([self.task.remote() for _ in range(count)])
    clients = [Client.remote() for _ in range(4)]
    return 4 * rate(lambda count: ray.get([c.work.remote(count) for c in clients]), 1000)


@row("single client get calls", ray=13366, bar=3e6)
def gets(ray):
    ref = ray.put(0)

    def work(count):
        for _ in range(count):
            ray.get(ref)
    return rate(work, 10_000)


@row("single client put calls", ray=3836, bar=2e6)
def puts(ray):
    def work(count):
        for _ in range(count):
            ray.put(0)
    return rate(work, 10_000)


@row("single client put gigabytes", unit="× memcpy", bar=0.85)
def put_gigabytes(ray):
    import numpy
    data, room = numpy.zeros(8 << 20), numpy.zeros(8 << 20)  # 64 MB

    def put(count):
        for _ in range(count):
            ray.put(data)

    def copy(count):
        for _ in range(count):
            room[:] = data
    return rate(put, 2) / rate(copy, 2)


@row("single client wait 1k refs", ray=5.15, bar=20e3)
def waits(ray):
    refs = [ray.put(0) for _ in range(1000)]

    def work(count):
        for _ in range(count):
            ray.wait(refs, num_returns=1000)
    return rate(work, 10)


@row("10k object args to one task", unit="s", ray=11.5, bar=0.1, more=False)
def many_args(ray):
    refs, task = [ray.put(i) for i in range(10_000)], ray.remote(lambda *args: len(args))
    ray.get(task.remote())
    start = time.perf_counter()
    ray.get(task.remote(*refs))
    return time.perf_counter() - start


@row("3k returns of one task", unit="s", ray=3.7, bar=0.05, more=False)
def many_returns(ray):
    task = ray.remote(num_returns=3000)(lambda: [1] * 3000)
    ray.get(task.remote())
    start = time.perf_counter()
    ray.get(task.remote())
    return time.perf_counter() - start


@row("get of 10k objects", unit="s", ray=15.2, bar=0.01, more=False)
def many_gets(ray):
    refs = [ray.put(i) for i in range(10_000)]
    start = time.perf_counter()
    ray.get(refs)
    return time.perf_counter() - start


@row("100k queued tasks", unit="s", bar=0.3, more=False)
def queued(ray):
    task = ray.remote(lambda: None)
    ray.get(task.remote())
    start = time.perf_counter()
    ray.get([task.remote() for _ in range(100_000)])
    return time.perf_counter() - start


@row("init to first result", unit="ms", ray=2900, bar=60, more=False)
def first_result(ray):
    ray.shutdown()
    start = time.perf_counter()
    ray.init(num_workers=2)
    ray.get(ray.remote(lambda: 1).remote())
    return (time.perf_counter() - start) * 1e3


@row("import of the package", unit="ms", bar=15, more=False)
def imported(ray):
    code = "import time; t = time.perf_counter(); import miniray; print(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout) * 1e3


def measure(name):
    """One figure, in this process."""
    import miniray
    miniray.init(num_workers=4 if name.startswith("multi") else 1)
    print(json.dumps(ROWS[name][0](miniray)))


def shown(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def report(name, figures):
    _, unit, ray, bar, more = ROWS[name]
    value = statistics.median(figures)
    spread = (max(figures) - min(figures)) / value
    reached = None if bar is None else value >= bar if more else value <= bar
    ratio = "" if ray is None else f"{(value / ray if more else ray / value):,.0f} × Ray's {shown(ray)}"
    verdict = "" if bar is None else f"{'>=' if more else '<='} {shown(bar)} {'✓' if reached else 'short'}"
    print(f"{name:34s} {shown(value):>12s} {unit:9s} ±{spread / 2:4.0%}  {verdict:22s} {ratio}", flush=True)
    return {"row": name, "value": value, "unit": unit, "spread": spread, "bar": bar, "reached": reached,
            "ray": ray, "figures": figures}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        return measure(given.one)
    results = []
    for name in ROWS:
        if given.rows and not any(part in name for part in given.rows):
            continue
        figures = []
        for _ in range(given.repeats):
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "--one", name], stdout=subprocess.PIPE,
                                  check=True)
            figures.append(json.loads(done.stdout))
        results.append(report(name, figures))
    if given.json:
        with open(given.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
