"""python -m ml.train: trains a GAN on the handwritten digits and shows what it draws, as a PNG."""

import argparse
import importlib.util
import sys
from pathlib import Path

OUTPUT = Path(__file__).resolve().parents[1] / "build" / "generated.png"


def positive(kind):
    def parse(text):
        value = kind(text)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"it must be more than 0, not {text}")
        return value
    parse.__name__ = kind.__name__  # which a wrong number is called
    return parse


def arguments(given):
    parser = argparse.ArgumentParser(prog="python -m ml.train", description=__doc__.split(": ", 1)[1],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--mode", choices=("distributed", "framework", "single"), default="distributed",
                        help="workers and a parameter server by hand; the same on miniray.train; this process alone")
    parser.add_argument("--workers", type=positive(int), default=4, help="how many processes train")
    parser.add_argument("--epochs", type=positive(int), default=10, help="how often all of them train and sync")
    parser.add_argument("--steps", type=positive(int), default=100, help="batches of an epoch, for each worker")
    parser.add_argument("--batch-size", type=positive(int), default=32, help="images of a batch")
    parser.add_argument("--sync-interval", type=positive(int), default=1, help="epochs from one sync to the next")
    parser.add_argument("--latent-dim", type=positive(int), default=16, help="random numbers that an image is made of")
    parser.add_argument("--lr", type=positive(float), default=0.002, help="learning rate of both networks")
    parser.add_argument("--seed", type=int, default=0, help="where all random numbers begin")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the image that is written")
    args = parser.parse_args(given)
    if importlib.util.find_spec("torch") is None:
        parser.error(f"the GAN needs torch, which {sys.executable} does not have: apt-get install python3-torch")
    if not args.output.parent.is_dir():
        parser.error(f"--output: there is no folder {args.output.parent}")
    return args


def train(args):
    """Trains it in the way that was asked for; the images that it draws."""
    shards = {"batch_size": args.batch_size, "steps_per_epoch": args.steps}
    if args.mode == "single":
        return train_single(args, shards)
    if args.mode == "framework":
        from ml.distributed_gan_v2 import GANTrainer
        with GANTrainer(args.workers, args.latent_dim, args.lr, args.sync_interval) as trainer:
            trainer.train(epochs=args.epochs, seed=args.seed, **shards)
            return trainer.images
    from ml.distributed_gan import DistributedGANTrainer
    trainer = DistributedGANTrainer(args.workers, args.latent_dim, args.lr, sync_interval=args.sync_interval,
                                    seed=args.seed)
    trainer.train(args.epochs, **shards)
    stats = trainer.stats
    print(f"{args.workers} workers, {stats['num_syncs']} syncs with {stats['strategy']}")
    return trainer.images


def train_single(args, shards):
    from ml.gan import Worker
    worker = Worker(0, args.latent_dim, args.lr, seed=args.seed)
    worker.load_data_shard(0, 1, **shards)
    for epoch in range(args.epochs):
        result = worker.train_epoch(epoch)
        print(f"epoch {epoch + 1}/{args.epochs}  G_loss: {result['g_loss']:.4f}, D_loss: {result['d_loss']:.4f}",
              flush=True)
    return worker.generate(8)


def main(given=None):
    args = arguments(given)
    images = train(args)
    from ml import image
    image.write_png(args.output, image.grid(images, 10))
    print(f"what it draws, a column for each digit: {args.output}")


if __name__ == "__main__":
    main()
