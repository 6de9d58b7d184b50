"""Linear and logistic regression on a parameter server.

    python examples/ps_linear.py [--plot losses.svg]

Four workers have a quarter of the points each. In every step each worker pulls the weights and pushes its gradient, and
the servers apply the mean of the gradients: the result is that of gradient descent with all points on one machine.
"""

import argparse

import numpy as np

import miniray
import miniray.ps

WORKERS, POINTS, STEPS = 4, 2000, 60
TRUTH = np.array([3.0, -2.0, 0.5], np.float32)


def points(rank):
    """Returns x, the y of a line, and the y of two classes on both sides of it."""
    chance = np.random.default_rng(0)
    x = chance.normal(size=(POINTS, 3)).astype(np.float32)
    y = x @ TRUTH
    own = slice(rank, None, WORKERS)
    return x[own], y[own], (y > 0).astype(np.float32)[own]


@miniray.remote(num_cpus=0)  # all ranks run at the same time, whatever the machine has
def train(ps, rank):
    x, line, side = points(rank)
    with ps.connect(rank) as connection:
        table = connection.table("model", arrays={"line": 3, "side": 3}, optimizer="sgd", lr=0.5, average=True)
        losses = []
        for _ in connection.steps(STEPS):
            w = table.pull()
            error = x @ w["line"] - line
            chance = 1 / (1 + np.exp(-(x @ w["side"])))
            table.push({"line": x.T @ error / len(x), "side": x.T @ (chance - side) / len(x)})
            right = np.where(side == 1, chance, 1 - chance)
            losses.append({"linear": (error**2).mean(), "logistic": -np.log(right).mean()})
        return losses, table.pull()


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plot", metavar="PATH", help="draw the losses, as .svg (or, with python3-matplotlib, as .png)")
    arguments = parser.parse_args()
    with miniray.ps.start(num_servers=2, num_workers=WORKERS, consistency="bsp") as ps:
        results = miniray.get([train.remote(ps, rank) for rank in range(WORKERS)])
    history = [{name: float(np.mean([each[name] for each in step])) for name in step[0]}
               for step in zip(*(losses for losses, _ in results))]
    for step in range(0, STEPS, 10):
        print("step {:2}: linear {linear:.4f}, logistic {logistic:.4f}".format(step, **history[step]))
    weights = results[0][1]
    print("the line:", np.round(weights["line"], 2), "it was", TRUTH)
    x, _, side = points(0)
    print(f"on the right side: {((x @ weights['side'] > 0) == side).mean():.1%}")
    if arguments.plot:
        from miniray.train.plot import draw
        print("losses:", draw(history, arguments.plot, over="step"))


if __name__ == "__main__":
    main()
