"""ray_rows.py — the rows of Ray's microbenchmark and of its single-node limits, under Ray's names, and further rows.

A row is a function whose argument is the measured module, `ray` or `miniray`: both have the same names, so both run the
same lines. The function returns a Figure. Arguments of a row's decorator: `ray`, the value that Ray 2.57 reports on a
machine with 64 cores; `bar`, the value that Miniray must reach; `workers`, the number of CPUs given to the runtime.
"""

import subprocess
import sys
import time
from dataclasses import dataclass, field


@dataclass
class Row:
    name: str
    work: object
    unit: str
    ray: float
    bar: float
    more: bool  # larger values are better
    workers: int


@dataclass
class Figure:
    value: float
    laps: list = field(default_factory=list)  # durations in seconds of `lap` calls each
    lap: int = 0


ROWS = {}


def row(name, unit="/s", ray=None, bar=None, more=True, workers=1):
    def add(work):
        ROWS[name] = Row(name, work, unit, ray, bar, more, workers)
        return work
    return add


# ---- Measuring.

LAPS_MAX = 30_000


def laps_of(work, count, seconds):
    laps, end = [], time.perf_counter() + seconds
    while len(laps) < LAPS_MAX:
        start = time.perf_counter()
        if start > end:
            break
        work(count)
        laps.append(time.perf_counter() - start)
    return laps


def rate(work, batch, each=1, seconds=1.0):
    """Operations per second, from batches of `batch` calls with `each` operations, after a warm-up."""
    laps_of(work, batch, 0.2)
    laps = laps_of(work, batch, seconds)
    return Figure(len(laps) * batch * each / sum(laps), laps, batch)


def one_by_one(work):
    """The rate of calls that each wait for their result, and the durations of single calls."""
    laps_of(work, 100, 0.2)
    figure = rate(work, 1000 if laps_of(work, 1, 0.001)[0] < 1e-4 else 100)
    figure.laps, figure.lap = laps_of(work, 1, 0.5), 1
    return figure


def seconds(work):
    start = time.perf_counter()
    work()
    return Figure(time.perf_counter() - start)


# ---- Tasks and actors that the rows call.


def actors(ray, count=1, **options):
    @ray.remote
    class Actor:
        def small_value(self):
            return b"ok"

        def small_value_arg(self, x):
            return b"ok"
    made = [(Actor.options(**options) if options else Actor).remote() for _ in range(count)]
    ray.get([a.small_value.remote() for a in made])
    return made


def async_actors(ray, count=1):
    @ray.remote
    class AsyncActor:
        async def small_value(self):
            return b"ok"

        async def small_value_with_arg(self, x):
            return b"ok"
    made = [AsyncActor.remote() for _ in range(count)]
    ray.get([a.small_value.remote() for a in made])
    return made


def small_task(ray):
    @ray.remote
    def small_value():
        return b"ok"
    ray.get(small_value.remote())
    return small_value


def clients(ray, servers_of_each):
    """Actors that call actors."""
    @ray.remote
    class Client:
        def __init__(self, servers):
            self.servers = servers if isinstance(servers, list) else [servers]

        def sync(self, count):
            for server in self.servers:
                for _ in range(count):
                    ray.get(server.small_value.remote())

        def batch(self, count):
            ray.get([server.small_value.remote() for server in self.servers for _ in range(count)])

        def batch_arg(self, count):
            x = ray.put(0)
            ray.get([server.small_value_arg.remote(x) for server in self.servers for _ in range(count)])
    return [Client.remote(servers) for servers in servers_of_each]


def together(ray, all_clients, method, batch, servers=1):
    def work(count):
        ray.get([getattr(client, method).remote(count) for client in all_clients])
    return rate(work, batch, each=len(all_clients) * servers)


# ---- Objects.


@row("single client get calls (Plasma Store)", ray=13366, bar=3e6)
def get_small(ray):
    value = ray.put(0)

    def work(count):
        for _ in range(count):
            ray.get(value)
    return rate(work, 1000)


@row("single client put calls (Plasma Store)", ray=3836, bar=2e6)
def put_small(ray):
    def work(count):
        for _ in range(count):
            ray.put(0)
    return rate(work, 1000)


@row("multi client put calls (Plasma Store)", workers=4)
def put_multi_small(ray):
    @ray.remote
    def do_put_small():
        for _ in range(100):
            ray.put(0)
    return rate(lambda count: ray.get([do_put_small.remote() for _ in range(count)]), 10, each=100)


def large(bytes):
    import numpy
    return numpy.zeros(bytes // 8, dtype=numpy.int64)


@row("single client put gigabytes", unit="GB/s", ray=16.5)
def put_large(ray):
    data = large(200 << 20)
    return rate(lambda count: ray.put(data), 1, each=data.nbytes / 1e9)


@row("single client put gigabytes, beside memcpy", unit="×", bar=0.85)
def put_beside_copy(ray):
    data, room = large(200 << 20), large(200 << 20)

    def copy(count):
        room[:] = data
    put = rate(lambda count: ray.put(data), 1)
    return Figure(put.value / rate(copy, 1).value, put.laps, 1)


@row("multi client put gigabytes", unit="GB/s", workers=2)
def put_multi(ray):
    @ray.remote
    def do_put():
        data = large(80 << 20)
        for _ in range(5):
            ray.put(data)
    return rate(lambda count: ray.get([do_put.remote() for _ in range(count)]), 2, each=5 * (80 << 20) / 1e9)


@row("single client get object containing 10k refs", ray=11.6, bar=1000)
def get_containing(ray):
    @ray.remote
    def create_object_containing_ref():
        return [ray.put(1) for _ in range(10_000)]
    made = create_object_containing_ref.remote()
    return rate(lambda count: ray.get(made), 1)


@row("single client wait 1k refs", ray=5.15)
def wait_multiple(ray):
    task = small_task(ray)

    def work(count):
        not_ready = [task.remote() for _ in range(1000)]
        while not_ready:
            _, not_ready = ray.wait(not_ready)
    return rate(work, 1)


@row("wait on 1k refs that are ready", ray=5.15, bar=20e3)
def wait_ready(ray):
    refs = [ray.put(0) for _ in range(1000)]
    return rate(lambda count: ray.wait(refs, num_returns=1000), 1)


# ---- Tasks.


@row("single client tasks and get batch")
def batch_task(ray):
    task = small_task(ray)
    return rate(lambda count: ray.get([task.remote() for _ in range(1000)]), 1)


@row("single client tasks sync", ray=805, bar=250e3)
def tasks_sync(ray):
    task = small_task(ray)

    def work(count):
        for _ in range(count):
            ray.get(task.remote())
    return one_by_one(work)


@row("single client tasks async", ray=7533, bar=800e3)
def tasks_async(ray):
    task = small_task(ray)
    return rate(lambda count: ray.get([task.remote() for _ in range(count)]), 1000)


@row("multi client tasks async", ray=20040, bar=1e6, workers=4)
def multi_task(ray):
    @ray.remote
    class Client:
        def __init__(self):
            self.task = small_task(ray)

        def batch(self, count):
            ray.get([self.task.remote() for _ in range(count)])
    return together(ray, [Client.remote() for _ in range(4)], "batch", 1000)


# ---- Actors.


@row("1:1 actor calls sync", ray=1763, bar=500e3)
def actor_sync(ray):
    a, = actors(ray)

    def work(count):
        for _ in range(count):
            ray.get(a.small_value.remote())
    return one_by_one(work)


def percentile(ray, part):
    laps = sorted(actor_sync(ray).laps)
    return Figure(laps[int(len(laps) * part)] * 1e6)


@row("1:1 actor calls sync, p50", unit="µs", bar=2, more=False)
def actor_p50(ray):
    return percentile(ray, 0.5)


@row("1:1 actor calls sync, p99", unit="µs", bar=6, more=False)
def actor_p99(ray):
    return percentile(ray, 0.99)


def actor_argument(ray, data):
    a, = actors(ray)

    def work(count):
        for _ in range(count):
            ray.get(a.small_value_arg.remote(data))
    return one_by_one(work)


@row("1:1 actor calls sync, 1 KB bytes", bar=400e3)
def actor_bytes(ray):
    return actor_argument(ray, b"x" * 1024)


@row("1:1 actor calls sync, 10 KB array", bar=250e3)
def actor_array(ray):
    return actor_argument(ray, large(10 << 10))


@row("1:1 actor calls sync, beside 2 busy processes", bar=100e3)
def actor_beside(ray):
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        return actor_sync(ray)
    finally:
        for process in busy:
            process.kill()
            process.wait()


@row("1:1 actor calls async", ray=8186, bar=1.2e6)
def actor_async(ray):
    a, = actors(ray)
    return rate(lambda count: ray.get([a.small_value.remote() for _ in range(count)]), 1000)


@row("1:1 actor calls concurrent")
def actor_concurrent(ray):
    a, = actors(ray, max_concurrency=16)
    return rate(lambda count: ray.get([a.small_value.remote() for _ in range(count)]), 1000)


@row("1:n actor calls async", workers=4)
def one_to_many(ray):
    servers = actors(ray, 4)
    return together(ray, clients(ray, [servers]), "batch", 500, servers=4)


@row("n:n actor calls async", ray=23595, bar=1.5e6, workers=4)
def many_to_many(ray):
    servers = actors(ray, 4)
    return together(ray, clients(ray, servers), "batch", 2000)


@row("n:n actor calls with arg async", workers=4)
def many_to_many_arg(ray):
    servers = actors(ray, 4)
    return together(ray, clients(ray, servers), "batch_arg", 1000)


@row("n:n actor calls sync", bar=200e3, workers=4)
def many_to_many_sync(ray):
    servers = actors(ray, 4)
    return together(ray, clients(ray, servers), "sync", 200)


# ---- Actors with coroutines.


@row("1:1 async-actor calls sync", ray=1432, bar=35e3)
def async_actor_sync(ray):
    a, = async_actors(ray)

    def work(count):
        for _ in range(count):
            ray.get(a.small_value.remote())
    return one_by_one(work)


@row("1:1 async-actor calls async", ray=4316, bar=120e3)
def async_actor_async(ray):
    a, = async_actors(ray)
    return rate(lambda count: ray.get([a.small_value.remote() for _ in range(count)]), 1000)


@row("1:1 async-actor calls with args async")
def async_actor_args(ray):
    a, = async_actors(ray)
    return rate(lambda count: ray.get([a.small_value_with_arg.remote(i) for i in range(count)]), 1000)


@row("1:n async-actor calls async", workers=4)
def async_one_to_many(ray):
    servers = async_actors(ray, 4)
    return together(ray, clients(ray, [servers]), "batch", 250, servers=4)


@row("n:n async-actor calls async", workers=4)
def async_many_to_many(ray):
    servers = async_actors(ray, 4)
    return together(ray, clients(ray, servers), "batch", 500)


# ---- Placement groups.


@row("placement group create/removal", ray=685, bar=50e3)
def placement_groups(ray):
    try:
        group, remove = ray.util.placement_group, ray.util.remove_placement_group
    except AttributeError:
        return None

    def work(count):
        made = [group(bundles=[{"CPU": 0.001}]) for _ in range(count)]
        for one in made:
            one.wait(timeout_seconds=30)
        for one in made:
            remove(one)
    return rate(work, 100)


# ---- Limits of one node.


@row("10k object args to one task", unit="s", ray=11.5, bar=0.1, more=False)
def many_args(ray):
    @ray.remote
    def count_args(*args):
        return len(args)
    refs = [ray.put(i) for i in range(10_000)]
    ray.get(count_args.remote())
    return seconds(lambda: ray.get(count_args.remote(*refs)))


@row("3k returns of one task", unit="s", ray=3.7, bar=0.05, more=False)
def many_returns(ray):
    @ray.remote(num_returns=3000)
    def many():
        return [1] * 3000
    ray.get(small_task(ray).remote())
    return seconds(lambda: ray.get(many.remote()))


@row("get of 10k objects", unit="s", ray=15.2, bar=0.01, more=False)
def many_gets(ray):
    refs = [ray.put(i) for i in range(10_000)]
    return seconds(lambda: ray.get(refs))


@row("1M queued tasks", unit="s", ray=117, bar=3, more=False)
def queued(ray):
    task = small_task(ray)
    return seconds(lambda: ray.get([task.remote() for _ in range(1_000_000)]))


# ---- Starting.


@row("init to first result", unit="ms", ray=2900, bar=60, more=False, workers=0)
def first_result(ray):
    took = seconds(lambda: (start(ray, 2), ray.get(ray.remote(lambda: 1).remote())))
    return Figure(took.value * 1e3)


def further_worker(ray):
    """Time from the creation of an actor, which has its own process, to its first answer; workers are warm already."""
    actors(ray)
    took = sorted(seconds(lambda: actors(ray)).value for _ in range(10))
    return Figure(took[len(took) // 2] * 1e3, took, 1)


@row("a further worker", unit="ms", bar=3, more=False, workers=16)
def further_bare(ray):
    return further_worker(ray)


@row("a further worker, program with numpy", unit="ms", bar=4, more=False, workers=16)
def further_numpy(ray):
    import numpy  # noqa: F401
    return further_worker(ray)


@row("import of the package", unit="ms", bar=15, more=False, workers=0)
def imported(ray):
    code = f"import time; t = time.perf_counter(); import {ray.__name__}; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    return Figure(float(done.stdout) * 1e3)


def start(ray, workers):
    if ray.__name__ == "ray":
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    else:
        ray.init(num_cpus=workers)
