"""sync_order.py TURNS SEED: syncs between calls whose arguments come late, on workers of every kind. A call submitted
after a sync must begin after set_weights has returned, and on a worker that runs one call at a time a call submitted
before the sync must be in it. Exit code 0: every turn was so."""

import asyncio
import random
import sys
import time

import numpy as np

import miniray
from miniray.ps import create_parameter_server

SLOW_S = 0.0005  # of set_weights: calls that overtake it have time to begin


class Plain:
    def __init__(self):
        self.total, self.syncs = 0.0, 0

    def add(self, amount):
        self.total += amount
        return self.syncs

    def get_weights(self):
        return [np.array([self.total])]

    def set_weights(self, weights):
        time.sleep(SLOW_S)
        self.total = float(weights[0][0])
        self.syncs += 1

    def seen(self):
        return self.syncs, self.total


class Coroutines(Plain):
    async def set_weights(self, weights):
        await asyncio.sleep(SLOW_S)
        Plain.set_weights(self, weights)

    async def add(self, amount):
        return Plain.add(self, amount)


class Groups(Plain):
    @miniray.method(concurrency_group="steps")
    def add(self, amount):
        return Plain.add(self, amount)


KINDS = {"plain": (Plain, {}), "coroutines": (Coroutines, {}), "threads": (Plain, {"max_concurrency": 4}),
         "groups": (Groups, {"concurrency_groups": {"steps": 2}})}


@miniray.remote
def late(value, seconds):
    time.sleep(seconds)
    return value


def run(kind, turns, chance):
    cls, options = KINDS[kind]
    workers = [miniray.remote(**options)(cls).remote() if options else miniray.remote(cls).remote() for _ in range(2)]
    server, expected = create_parameter_server("max"), 0.0
    pending = []
    for turn in range(turns):
        amounts = [chance.randrange(1, 9), chance.randrange(1, 9)]
        for worker, amount in zip(workers, amounts):
            delay = chance.choice([None, 0, 0.001])
            argument = float(amount) if delay is None else late.remote(float(amount), delay)
            pending.append((turn, worker.add.remote(argument)))
        server.sync_from_workers.remote(workers)
        expected += max(amounts)
        pending += [(turn + 1, worker.add.remote(late.remote(0.0, 0) if chance.random() < 0.3 else 0.0))
                    for worker in workers]
        if len(pending) >= 400 or turn == turns - 1:
            for at, begun in pending:
                syncs = miniray.get(begun)
                if syncs < at or kind == "plain" and syncs != at:
                    sys.exit(f"{kind}: a call submitted after {at} syncs began after {syncs}")
            pending.clear()
            for syncs, total in miniray.get([worker.seen.remote() for worker in workers]):
                if syncs != turn + 1 or kind == "plain" and total != expected:
                    sys.exit(f"{kind}: {syncs} syncs and a total of {total} after turn {turn}, not {expected}")


def main(turns, seed):
    miniray.init(num_workers=2)
    for kind in KINDS:
        start = time.monotonic()
        run(kind, turns, random.Random(seed))
        print(f"    {kind}: {turns} syncs between calls, {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
