"""Word embeddings on a parameter server: a key for each word.

    python examples/ps_words.py [--text FILE…] [--plot losses.svg]

Skip-gram with negative sampling, over the licenses that every Debian system has in /usr/share/common-licenses. A word's
key is a hash of its letters, so no list of all words is needed; the first push to a key creates its row.
"""

import argparse
import glob
import re
import zlib

import numpy as np

import miniray
import miniray.ps

WORKERS, DIM, WINDOW, WRONG, BATCH, STEPS = 2, 24, 3, 4, 2048, 60
LICENSES = "/usr/share/common-licenses/*-*"


def read(paths):
    """Returns the words of all texts, in order."""
    words = []
    for path in sorted(paths):
        with open(path, encoding="utf-8", errors="replace") as file:
            words += re.findall("[a-z]{3,}", file.read().lower())
    return words


def keys_of(words):
    return np.array([zlib.crc32(word.encode()) for word in words], np.uint64)


@miniray.remote(num_cpus=0)  # all ranks run at the same time, whatever the machine has
def train(ps, rank, words):
    text = keys_of(words)
    chance = np.random.default_rng(rank)
    losses = []
    with ps.connect(rank) as connection:
        near = connection.table("words", dim=DIM, optimizer="adagrad", lr=0.2, initializer="uniform:-0.05:0.05")
        around = connection.table("contexts", dim=DIM, optimizer="adagrad", lr=0.2)
        for _ in connection.steps(STEPS):
            at = chance.integers(WINDOW, len(text) - WINDOW, BATCH)
            side = chance.integers(1, WINDOW + 1, BATCH) * chance.choice([-1, 1], BATCH)
            words = text[at]
            others = np.column_stack([text[at + side], chance.choice(text, (BATCH, WRONG))])  # one is right
            u, v = near.pull(words), around.pull(others)
            score = 1 / (1 + np.exp(-np.einsum("bd,bkd->bk", u, v)))
            losses.append(-np.log(score[:, 0]).mean() - np.log(1 - score[:, 1:]).sum(1).mean())
            score[:, 0] -= 1  # the gradient
            near.push(words, np.einsum("bk,bkd->bd", score, v) / BATCH)
            around.push(others, score[:, :, None] * u[:, None, :] / BATCH)
    return losses


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--text", nargs="+", metavar="FILE", default=glob.glob(LICENSES), help=f"[{LICENSES}]")
    parser.add_argument("--plot", metavar="PATH", help="draw the losses, as .svg (or, with python3-matplotlib, as .png)")
    arguments = parser.parse_args()
    try:
        words = read(arguments.text)
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    if len(words) <= 2 * WINDOW:
        parser.error(f"{len(words)} words are too few: name texts with --text")
    known = sorted(set(words))
    with miniray.ps.start(num_servers=2, num_workers=WORKERS, consistency="bsp") as ps:
        text = miniray.put(words)
        losses = np.mean(miniray.get([train.remote(ps, rank, text) for rank in range(WORKERS)]), 0)
        with ps.connect(0) as connection:
            rows = connection.table("words").pull(keys_of(known))
    for step in range(0, STEPS, 10):
        print(f"step {step:2}: loss {losses[step]:.4f}")
    print(f"at the end: loss {losses[-1]:.4f}")
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for word in ("license", "software", "copyright"):
        if word in known:
            nearest = np.argsort(-(rows @ rows[known.index(word)]))[1:5]
            print(f"{word}: {', '.join(known[number] for number in nearest)}")
    if arguments.plot:
        from miniray.train.plot import draw
        print("losses:", draw([{"loss": loss} for loss in losses], arguments.plot, over="step"))


if __name__ == "__main__":
    main()
