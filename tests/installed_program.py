"""installed_program.py [first]: what tools/dist-check runs with an installed package: a task, an actor, a sync, a table.

With `first` it ends after the first result of a task, which needs no NumPy. It prints the time of that result.
"""

import sys
import time

import miniray


@miniray.remote
def add(a, b):
    return a + b


@miniray.remote
class Counter:
    def __init__(self):
        self.value = 0

    def increase(self, step):
        self.value += step
        return self.value


def check(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: expected {expected}, got {got}")


def check_sync():
    import numpy as np
    from miniray.ps import create_parameter_server

    @miniray.remote
    class Worker:
        def __init__(self, rank):
            self.weights = [np.full(3, float(rank))]

        def get_weights(self):
            return self.weights

        def set_weights(self, weights):
            self.weights = weights

    workers = [Worker.remote(rank) for rank in range(2)]
    miniray.get(create_parameter_server("average").sync_from_workers.remote(workers))
    check("sync", miniray.get(workers[1].get_weights.remote())[0].tolist(), [0.5, 0.5, 0.5])


def check_table():
    import miniray.ps

    with miniray.ps.start(num_servers=1) as ps, ps.connect() as connection:
        table = connection.table("sums", dim=2)
        table.push([7], [[1.0, 2.0]])
        table.push([7], [[1.0, 2.0]])
        connection.flush()
        check("table", table.pull([7]).tolist(), [[2.0, 4.0]])


def main():
    miniray.init()
    check("task", miniray.get(add.remote(40, 2)), 42)
    print(f"first result at {time.time():.3f}", flush=True)
    if "first" in sys.argv[1:]:
        return
    counter = Counter.remote()
    check("actor", miniray.get([counter.increase.remote(2) for _ in range(3)]), [2, 4, 6])
    check_sync()
    check_table()
    have = miniray.cluster_resources()
    print(f"task, actor, sync and table work; workers: {int(have['CPU'])}, object store: {int(have['object_store_memory']) >> 20} MB")


if __name__ == "__main__":
    main()
