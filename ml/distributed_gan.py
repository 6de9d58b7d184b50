"""The GAN on several workers, by hand: everything that a training loop on a parameter server has to do, in order.

`ml/distributed_gan_v2.py` is the same on `miniray.train`, which does all of it.
"""

import numpy as np

import miniray
from miniray.ps import create_parameter_server
from ml import gan

GANWorker = miniray.remote(gan.Worker)


class DistributedGANTrainer:
    def __init__(self, num_workers=4, latent_dim=16, lr=0.002, *, sync_interval=1, sync_strategy="average", seed=0):
        self.num_workers, self.latent_dim, self.lr, self.seed = num_workers, latent_dim, lr, seed
        self.sync_interval, self.sync_strategy = sync_interval, sync_strategy
        self.images = self.stats = None

    def train(self, epochs, **shard_options):
        """Trains it; a dict per epoch comes back. `images` is then what it draws, `stats` what the server counted."""
        miniray.init(num_workers=self.num_workers)
        try:
            self._create(shard_options)
            history = [self._train_epoch(epoch, epochs) for epoch in range(epochs)]
            if not history[-1]["synced"]:
                self.server.sync_from_workers.remote(self.workers)
            self.images = miniray.get(self.workers[0].generate.remote(8))  # after the sync: calls keep their order
            self.stats = miniray.get(self.server.get_stats.remote())
            return history
        finally:
            miniray.shutdown()

    def _create(self, shard_options):
        self.server = create_parameter_server(self.sync_strategy)
        self.workers = [GANWorker.remote(i, self.latent_dim, self.lr, seed=self.seed) for i in range(self.num_workers)]
        miniray.get([worker.load_data_shard.remote(i, self.num_workers, **shard_options)
                     for i, worker in enumerate(self.workers)])

    def _train_epoch(self, epoch, epochs):
        results = miniray.get([worker.train_epoch.remote(epoch) for worker in self.workers])
        result = {key: float(np.mean([one[key] for one in results])) for key in results[0]}
        result["synced"] = (epoch + 1) % self.sync_interval == 0
        if result["synced"]:
            self.server.sync_from_workers.remote(self.workers)  # the next epoch waits for it, this program does not
        print(f"epoch {epoch + 1}/{epochs}  G_loss: {result['g_loss']:.4f}, D_loss: {result['d_loss']:.4f}", flush=True)
        return result
