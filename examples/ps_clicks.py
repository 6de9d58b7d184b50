"""A click-through model on a parameter server: logistic regression over many sparse features, by FTRL.

    python examples/ps_clicks.py [--plot losses.svg]

A view of an advertisement has a few of very many features (user, page, advertisement, and pairs of these); most features
have no influence. FTRL with an L1 penalty keeps their weights at zero. Workers may be two steps apart (SSP), so that
a slow worker delays the others less.
"""

import argparse

import numpy as np

import miniray
import miniray.ps

WORKERS, BATCH, STEPS, STALENESS = 3, 400, 60, 2
SIZES = np.array([5000, 300, 40])  # users, pages, advertisements
PAIRS = [(0, 2), (1, 2)]


def views(chance, count):
    """Returns (keys of the features of the views, whether the views were clicked)."""
    ids = (chance.random((count, 3)) ** 3 * SIZES).astype(np.uint64)  # some occur much more often than others
    features = [ids[:, column] + np.uint64(column << 40) for column in range(3)]
    features += [features[a] * np.uint64(1000003) + features[b] for a, b in PAIRS]
    taste = np.where(ids[:, 1] % 3 == ids[:, 2] % 3, 2.0, -2.0) + (ids[:, 2] % 5 == 0)
    return np.column_stack(features), (chance.random(count) < 1 / (1 + np.exp(-taste))).astype(np.float32)


def predict(weights):
    return 1 / (1 + np.exp(-weights.sum(1)))


def log_loss(predicted, clicked):
    return -np.log(np.where(clicked == 1, predicted, 1 - predicted)).mean()


def open_table(connection):
    return connection.table("clicks", dim=1, optimizer="ftrl", lr=0.1, l1=4.0, l2=1.0)


@miniray.remote(num_cpus=0)  # all ranks run at the same time, whatever the machine has
def train(ps, rank):
    losses = []
    with ps.connect(rank) as connection:
        table = open_table(connection)
        for step in connection.steps(STEPS):
            keys, clicked = views(np.random.default_rng([rank, step]), BATCH)
            predicted = predict(table.pull(keys))
            losses.append(log_loss(predicted, clicked))
            table.push(keys, np.repeat((predicted - clicked)[:, None], keys.shape[1], 1))
    return losses


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plot", metavar="PATH", help="draw the losses, as .svg (or, with python3-matplotlib, as .png)")
    arguments = parser.parse_args()
    with miniray.ps.start(num_servers=2, num_workers=WORKERS, consistency=f"ssp:{STALENESS}") as ps:
        losses = np.mean(miniray.get([train.remote(ps, rank) for rank in range(WORKERS)]), 0)
        keys, clicked = views(np.random.default_rng(99), 5000)
        with ps.connect(0) as connection:
            weights = open_table(connection).pull(keys)
    for step in range(0, STEPS, 10):
        print(f"step {step:2}: log loss {losses[step]:.4f}")
    print(f"of views that nobody has trained on: log loss {log_loss(predict(weights), clicked):.4f}, "
          f"guessing the mean {log_loss(np.full(len(clicked), clicked.mean()), clicked):.4f}")
    print(f"features whose weight is not zero: {np.count_nonzero(weights) / weights.size:.0%}")
    if arguments.plot:
        from miniray.train.plot import draw
        print("losses:", draw([{"log loss": loss} for loss in losses], arguments.plot, over="step"))


if __name__ == "__main__":
    main()
