"""The GAN on several workers, on `miniray.train`: what is left to write is what is the GAN's own."""

import miniray
from miniray.train import DataParallelTrainer
from ml import gan

GANWorker = miniray.remote(gan.Worker)


class GANTrainer(DataParallelTrainer):
    def __init__(self, num_workers=4, latent_dim=16, lr=0.002, sync_interval=1):
        super().__init__(num_workers=num_workers, sync_interval=sync_interval)
        self.latent_dim, self.lr, self.images = latent_dim, lr, None

    def create_worker(self, worker_id, seed=0, **kwargs):
        return GANWorker.remote(worker_id, self.latent_dim, self.lr, seed=seed)

    def on_epoch_end(self, epoch, result, **kwargs):
        super().on_epoch_end(epoch, result, **kwargs)
        print(f"  G_loss: {result['g_loss']:.4f}, D_loss: {result['d_loss']:.4f}")

    def on_train_end(self, history, **kwargs):
        self.images = miniray.get(self.workers[0].generate.remote(8))
        return super().on_train_end(history, **kwargs)
