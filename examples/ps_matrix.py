"""Matrix factorisation on a parameter server: a key for each user and for each item.

    python examples/ps_matrix.py [--plot losses.svg]

Ratings are sums over a few hidden tastes. Workers process their ratings in batches: they pull the rows of the users and
items in a batch, and push the gradients of these rows only. The servers initialize a row with small random numbers that
depend on its key. All workers do each step together (BSP), so every run gives the same numbers.
"""

import argparse

import numpy as np

import miniray
import miniray.ps

WORKERS, USERS, ITEMS, TASTES, RATINGS, BATCH, EPOCHS = 2, 300, 200, 4, 12000, 500, 12


def ratings():
    chance = np.random.default_rng(0)
    users, items = chance.integers(USERS, size=RATINGS), chance.integers(ITEMS, size=RATINGS)
    of_users, of_items = chance.normal(size=(USERS, TASTES)), chance.normal(size=(ITEMS, TASTES))
    return users, items, (of_users[users] * of_items[items]).sum(1).astype(np.float32)


@miniray.remote(num_cpus=0)  # all ranks run at the same time, whatever the machine has
def train(ps, rank):
    users, items, rating = (column[rank::WORKERS] for column in ratings())
    batches = len(users) // BATCH
    losses = np.zeros(EPOCHS)
    with ps.connect(rank) as connection:
        options = dict(dim=TASTES, optimizer="adagrad", lr=0.3, initializer="normal:0:0.3")
        table = connection.table("tastes", **options)
        for step in connection.steps(EPOCHS * batches):
            batch = slice(step % batches * BATCH, (step % batches + 1) * BATCH)
            keys = np.stack([users[batch], USERS + items[batch]])  # keys of items follow those of users
            user, item = table.pull(keys)
            error = ((user * item).sum(1) - rating[batch])[:, None]
            table.push(keys, np.stack([error * item, error * user]))  # gradients of a repeated key are added up
            losses[step // batches] += (error**2).mean() / batches
    return losses


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plot", metavar="PATH", help="draw the losses, as .svg (or, with python3-matplotlib, as .png)")
    arguments = parser.parse_args()
    with miniray.ps.start(num_servers=2, num_workers=WORKERS, consistency="bsp") as ps:
        losses = np.mean(miniray.get([train.remote(ps, rank) for rank in range(WORKERS)]), 0)
    for epoch, loss in enumerate(losses):
        print(f"epoch {epoch:2}: mean squared error {loss:.4f}")
    if arguments.plot:
        from miniray.train.plot import draw
        print("losses:", draw([{"mean squared error": loss} for loss in losses], arguments.plot))


if __name__ == "__main__":
    main()
