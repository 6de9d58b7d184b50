#!/usr/bin/python3
"""sync_run.py [--repeats N]: syncs of torch models, ours beside torch.distributed (gloo) and Open MPI, in the same run.

Each round makes one sync of each kind, so that all kinds run in the same state of the machine. Rows are medians, with the
quartiles of Miniray in brackets; a ratio is the median of the ratios of the rounds, because noise in a round affects both
sides. Miniray's time is all of `miniray.get(ps.sync_from_workers.remote(workers))`: four workers copy their tensors out, one
pass aggregates them, four workers copy the result in; "shared" is the same with models in shared memory
(`miniray.ps.share`), without copies. The peers run the equivalent user code: flatten, all_reduce, divide, unflatten; with
Open MPI (Debian's openmpi-bin and python3-mpi4py, if installed) also "flat", the Allreduce of a flat array alone. A short
sync also has the time "in a row", of many syncs without a pause: in a round each sync finds sleeping processes and caches
that others have used meanwhile.
"limit" is the time that this machine's memory takes for the bytes that a sync has to move, from memcpy with a thread for
each CPU in the same rounds. Run after `. build/env`, with Debian's torch.
"""

import argparse
import concurrent.futures
import importlib.util
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch
import torch.distributed as distributed

import miniray
from miniray.ps import create_parameter_server, share

SHORT_S, IN_A_ROW = 0.005, 100  # a sync shorter than SHORT_S is repeated IN_A_ROW times
WARM = 8  # syncs until each process has mapped the memory of large values
MODELS = {  # sizes of the tensors
    "25.6 M floats in 161 tensors": [25_600_000 // 161] * 161,
    "25.6 M floats in one tensor": [25_600_000],
    "1 M floats in 1000 tensors": [1000] * 1000,
    "90 k floats in 6 tensors": [15_000] * 6,
}


@miniray.remote
class Worker:
    def __init__(self, sizes, kind, shared):
        torch.set_num_threads(1)
        self.parameters = [torch.ones(size, dtype=kind) for size in sizes]
        if shared:
            self.parameters = share(self.parameters)

    def get_weights(self):
        return self.parameters

    def set_weights(self, weights):
        for parameter, weight in zip(self.parameters, weights):
            parameter.copy_(weight)


def reduce_all(rank, workers, sizes, folder, orders, done):
    """One process of torch.distributed: makes a sync for each order."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=workers)
    parameters = [torch.ones(size) for size in sizes]
    while orders.get():
        flat = torch.cat([parameter.reshape(-1) for parameter in parameters])
        distributed.all_reduce(flat)
        flat /= workers
        at = 0
        for parameter in parameters:
            parameter.copy_(flat[at:at + parameter.numel()].view_as(parameter))
            at += parameter.numel()
        done.put(rank)


class Gloo:
    def __init__(self, workers, sizes):
        self.ways = {"gloo": self.sync}
        context = multiprocessing.get_context("fork")
        self.folder = tempfile.TemporaryDirectory()
        self.orders, self.done = [context.SimpleQueue() for _ in range(workers)], context.SimpleQueue()
        self.processes = [context.Process(target=reduce_all, daemon=True,
                                          args=(rank, workers, sizes, self.folder.name, orders, self.done))
                          for rank, orders in enumerate(self.orders)]
        for process in self.processes:
            process.start()

    def sync(self):
        for orders in self.orders:
            orders.put(True)
        for _ in self.orders:
            self.done.get()

    def stop(self):
        for orders in self.orders:
            orders.put(False)
        for process in self.processes:
            process.join()
        self.folder.cleanup()


class OpenMPI:
    """Open MPI. Its processes wait for orders at pipes: inside MPI they would spin."""

    @staticmethod
    def is_there():
        """Whether Open MPI is installed and can start processes; otherwise a read from their pipes would block for ever."""
        if shutil.which("mpirun") is None or importlib.util.find_spec("mpi4py") is None:
            return False
        tried = [*OpenMPI.command(1), sys.executable, "-c", "from mpi4py import MPI; MPI.COMM_WORLD.Barrier()"]
        try:
            return subprocess.run(tried, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, timeout=60).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    @staticmethod
    def command(workers):
        allowed = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return ["mpirun", *allowed, "--oversubscribe", "--bind-to", "none", "-n", str(workers)]

    def __init__(self, workers, sizes):
        self.ways = {"Open MPI": lambda: self.sync(b"1"), "flat": lambda: self.sync(b"0")}
        self.folder = tempfile.TemporaryDirectory()
        self.paths = [os.path.join(self.folder.name, f"order{rank}") for rank in range(workers)]
        done = os.path.join(self.folder.name, "done")
        for path in [*self.paths, done]:
            os.mkfifo(path)
        command = [*self.command(workers), sys.executable, os.path.abspath(__file__), "--reduce", self.folder.name,
                   *map(str, sizes)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.orders = [open(path, "wb", buffering=0) for path in self.paths]
        self.done = open(done, "rb", buffering=0)

    def sync(self, how):
        for order in self.orders:
            order.write(how)
        for _ in self.orders:
            if not self.done.read(1):
                raise RuntimeError("a process of Open MPI has ended")

    def stop(self):
        for pipe in [*self.orders, self.done]:
            pipe.close()
        self.process.wait()
        self.folder.cleanup()


def reduce_mpi(folder, sizes):
    """One process of Open MPI: makes a sync for each order, or the Allreduce alone."""
    from mpi4py import MPI
    world, parameters = MPI.COMM_WORLD, [numpy.ones(size, numpy.float32) for size in sizes]
    flat, summed = numpy.ones(sum(sizes), numpy.float32), numpy.ones(sum(sizes), numpy.float32)
    with (open(os.path.join(folder, f"order{world.rank}"), "rb", buffering=0) as orders,
          open(os.path.join(folder, "done"), "wb", buffering=0) as done):
        while order := orders.read(1):
            if order == b"1":
                numpy.concatenate(parameters, out=flat)
            world.Allreduce(flat, summed)
            at = 0
            for parameter in parameters if order == b"1" else ():
                numpy.divide(summed[at:at + parameter.size], world.size, out=parameter)
                at += parameter.size
            done.write(b"1")


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


class Memory:
    """Measures the time to copy `bytes` bytes with a thread for each CPU; memcpy reads and writes each byte once."""

    def __init__(self, bytes):
        self.threads = os.cpu_count()
        self.pool = concurrent.futures.ThreadPoolExecutor(self.threads)
        size = min(bytes, 100 << 20) // self.threads
        self.share = bytes / (size * self.threads) if size else 0
        self.blocks = [(numpy.ones(size, numpy.uint8), numpy.ones(size, numpy.uint8)) for _ in range(self.threads)]

    def copy(self):
        list(self.pool.map(lambda pair: numpy.copyto(*pair), self.blocks))

    def time(self):
        return timed(self.copy) * self.share


def row(name, workers, sizes, repeats, kind=torch.float32, peers=(), shared=False):
    theirs = [peer(workers, sizes) for peer in peers]  # forked before there are threads
    miniray.init(num_workers=workers)
    ps, hired = create_parameter_server("average"), [Worker.remote(sizes, kind, shared) for _ in range(workers)]
    miniray.get([worker.__ray_ready__.remote() for worker in hired])
    model = sum(sizes) * torch.empty(0, dtype=kind).element_size()
    # Each worker's model is read; the result and each worker's model are written; copies also read and write each twice.
    moved = (2 * workers + 1) / 2 * model if shared else (5 * workers + 1) / 2 * model
    memory = Memory(int(moved))

    def ours():
        miniray.get(ps.sync_from_workers.remote(hired))
    cold = timed(ours)
    for _ in range(WARM):
        ours()
    ways = {name: way for peer in theirs for name, way in peer.ways.items()}
    for way in ways.values():
        way()
    mine, limit, others = [], [], {name: [] for name in ways}
    for _ in range(repeats):
        mine.append(timed(ours))
        limit.append(memory.time())
        for way_name, way in ways.items():
            others[way_name].append(timed(way))
    rows = {}
    if statistics.median(mine) < SHORT_S:
        rows = {name: statistics.median(timed(way) for _ in range(IN_A_ROW)) for name, way in {"": ours, **ways}.items()}
    miniray.shutdown()
    warm, best = statistics.median(mine), statistics.median(limit)
    low, _, high = statistics.quantiles(mine, n=4)
    text = (f"{name + (', shared' if shared else ''):42} {workers:2} workers  cold {cold * 1e3:8.1f} ms  "
            f"warm {warm * 1e3:8.2f} ms ({low * 1e3:.2f} to {high * 1e3:.2f})  limit {best * 1e3:7.2f} ms  "
            f"share of it {best / warm:4.2f}")
    if rows:
        text += f"  in a row {rows[''] * 1e3:.2f} ms"
    for peer in theirs:
        peer.stop()
    for way_name, times in others.items():
        ratio = statistics.median(their / our for their, our in zip(times, mine))
        text += f"  {way_name} {statistics.median(times) * 1e3:.2f} ms  ratio {ratio:.2f}"
        if rows:
            text += f"  in a row {rows[way_name] * 1e3:.2f} ms  ratio {rows[way_name] / rows['']:.2f}"
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--row", help="only rows whose name has this in it")
    given = parser.parse_args()
    if given.repeats < 2:
        parser.error("quartiles take two repeats at least")
    peers = [Gloo, OpenMPI] if OpenMPI.is_there() else [Gloo]
    if OpenMPI not in peers:
        print("Open MPI is not measured: it is not there (the packages openmpi-bin and python3-mpi4py) or does not run")

    def wanted(name):
        return given.row is None or given.row in name
    for name, sizes in MODELS.items():
        if wanted(name):
            row(name, 4, sizes, given.repeats, peers=peers)
    first = MODELS["25.6 M floats in 161 tensors"]
    if wanted("shared"):
        row("25.6 M floats in 161 tensors", 4, first, given.repeats, peers=peers, shared=True)
        row("90 k floats in 6 tensors", 4, MODELS["90 k floats in 6 tensors"], given.repeats, peers=peers, shared=True)
    for workers in (2, 8, 16):
        if wanted("workers"):
            row("25.6 M floats in 161 tensors", workers, first, given.repeats)
    if wanted("400 MB"):
        row("400 MB in one tensor", 2, [100_000_000], given.repeats)
    if wanted("float64"):
        row("25.6 M float64 in 161 tensors", 4, first, given.repeats, kind=torch.float64)
    if wanted("bfloat16"):
        row("25.6 M bfloat16 in 161 tensors", 4, first, given.repeats, kind=torch.bfloat16)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--reduce"]:
        reduce_mpi(sys.argv[2], [int(size) for size in sys.argv[3:]])
    else:
        main()
