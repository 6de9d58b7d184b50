"""long_day.py CALLS SEED: mixed calls with exceptions, cancellations and killed workers. Memory must not grow after a
quarter of the calls, and at the end the store must be empty; else the exit code is not 0."""

import gc
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np

import miniray

BATCH = 100
COMMAND = os.path.join(os.path.dirname(miniray.__file__), "miniray-node")


class Whim(Exception):
    pass


@miniray.remote(max_retries=0)
def work(kind, value):
    if kind == "raise":
        raise Whim(value)
    if kind == "exit":
        os._exit(3)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "nest":
        return miniray.get(work.remote("echo", value))
    return value


@miniray.remote(max_restarts=-1)
class Keeper:
    def __init__(self):
        self.kept = None

    def keep(self, value):
        self.kept, before = value, self.kept
        return before

    def fail(self):
        raise Whim("keeper")

    def die(self):
        os._exit(1)


class Day:
    """The calls in flight, with their expected results."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.keepers = [Keeper.remote() for _ in range(2)]
        self.counts = dict.fromkeys(("good", "raised", "cancelled", "died"), 0)

    def value(self):
        size = self.chance.choice((1, 10, 1000, 20_000))
        return self.chance.choice((lambda: size, lambda: "x" * size, lambda: list(range(size % 100)),
                                   lambda: np.arange(size), lambda: {"a": (1, b"y" * size)}))()

    def submit(self):
        draw = self.chance.random()
        if draw < 0.002:
            return work.remote(self.chance.choice(("exit", "kill")), 0)
        if draw < 0.003:
            return self.chance.choice(self.keepers).die.remote()
        if draw < 0.0035:
            keeper = self.keepers.pop(0)
            self.keepers.append(Keeper.remote())
            ref = keeper.keep.remote(1)
            miniray.kill(keeper)
            return ref
        if draw < 0.15:
            return work.remote("raise", draw)
        if draw < 0.2:
            return self.chance.choice(self.keepers).fail.remote()
        if draw < 0.25:
            ref = work.remote("echo", self.value())
            miniray.cancel(ref)
            return ref
        if draw < 0.3:
            return work.remote("nest", self.value())
        if draw < 0.4:
            return work.remote("echo", miniray.put(self.value()))
        if draw < 0.7:
            return self.chance.choice(self.keepers).keep.remote(self.value())
        return work.remote("echo", self.value())

    def batch(self):
        refs = [self.submit() for _ in range(BATCH)]
        if self.chance.random() < 0.1:
            return  # their futures are dropped
        for ref in refs:
            self.counts[outcome(ref)] += 1


def outcome(ref):
    try:
        miniray.get(ref, timeout=120)
        return "good"
    except Whim:
        return "raised"
    except miniray.exceptions.TaskCancelledError:
        return "cancelled"
    except (miniray.exceptions.WorkerCrashedError, miniray.exceptions.RayActorError):
        return "died"


def own_kilobytes(pid):
    try:
        with open(f"/proc/{pid}/status") as lines:  # without shared memory
            return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
    except (OSError, StopIteration):
        return 0  # the process has just ended


def status():
    done = subprocess.run([COMMAND, "status", "--json", "--address", miniray.get_runtime_context().gcs_address],
                          check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def memory():
    """Private memory in KB, by role; of the workers, the largest."""
    gc.collect()
    seen = status()
    workers = [own_kilobytes(process["pid"]) for process in seen["processes"] if process["role"] == "worker"]
    return {"driver": own_kilobytes(os.getpid()), "node": own_kilobytes(seen["node"]["pid"]), "worker": max(workers)}


def settle(condition):
    for _ in range(300):
        if condition():
            return True
        time.sleep(0.1)
    return False


def main(calls, seed):
    miniray.init(num_workers=2, log_to_driver=False)
    day, begun, warm = Day(seed), 0, None
    while begun < calls:
        day.batch()
        begun += BATCH
        if warm is None and begun >= calls // 4:
            warm = memory()
        if begun % 10_000 == 0:
            print(begun, day.counts, memory(), flush=True)
    end = memory()
    print(day.counts, warm, end)
    for role, before in warm.items():
        assert end[role] < before * 1.25 + 6000, f"{role}: {before} KB after a quarter, {end[role]} at the end"
    assert all(count > 0 for count in day.counts.values())
    del day
    gc.collect()
    assert settle(lambda: status()["store"]["objects"] == 0), status()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
