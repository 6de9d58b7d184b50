"""A GAN that draws 8×8 digits: small enough for the CPU of a laptop. Needs torch.

It is conditional: both networks are told which digit it shall be, so one can see what it has learned, digit by digit.
"""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot

from miniray.train import shard_indices
from ml import digits

HIDDEN = 96
BE_SURE_OF = 0.9  # what a real image is called: a discriminator that is too sure teaches nothing


def generator(latent_dim):
    return nn.Sequential(nn.Linear(latent_dim + digits.CLASSES, HIDDEN), nn.LeakyReLU(0.2),
                         nn.Linear(HIDDEN, HIDDEN), nn.LeakyReLU(0.2),
                         nn.Linear(HIDDEN, digits.PIXELS), nn.Sigmoid())


def discriminator():
    return nn.Sequential(nn.Linear(digits.PIXELS + digits.CLASSES, HIDDEN), nn.LeakyReLU(0.2), nn.Dropout(0.3),
                         nn.Linear(HIDDEN, HIDDEN), nn.LeakyReLU(0.2), nn.Dropout(0.3),
                         nn.Linear(HIDDEN, 1))


class GAN:
    """Both networks, their optimizers, and one step of their game."""

    def __init__(self, latent_dim, lr):
        self.latent_dim = latent_dim
        self.generator, self.discriminator = generator(latent_dim), discriminator()
        self.g_optimizer, self.d_optimizer = (torch.optim.Adam(network.parameters(), lr, betas=(0.5, 0.99))
                                              for network in (self.generator, self.discriminator))

    def parameters(self):
        return [*self.generator.parameters(), *self.discriminator.parameters()]

    def draw(self, labels):
        """An image of each of these digits."""
        noise = torch.randn(len(labels), self.latent_dim)
        return self.generator(_told(noise, labels))

    def step(self, images, labels):
        """The discriminator learns from these and as many drawn images, then the generator from it; their losses."""
        drawn = self.draw(labels)
        d_loss = (_loss(self.discriminator(_told(images, labels)), BE_SURE_OF) +
                  _loss(self.discriminator(_told(drawn.detach(), labels)), 0)) / 2
        _descend(self.d_optimizer, d_loss)
        g_loss = _loss(self.discriminator(_told(drawn, labels)), 1)
        _descend(self.g_optimizer, g_loss)
        return g_loss.item(), d_loss.item()


def _told(rows, labels):
    return torch.cat([rows, 3.0 * one_hot(labels, digits.CLASSES)], dim=1)  # loud enough to be heard from the start


def _loss(scores, truth):
    return binary_cross_entropy_with_logits(scores, torch.full_like(scores, truth))


def _descend(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Worker:
    """Trains a GAN on its shard of the digits. Nothing in it knows that there are others."""

    def __init__(self, worker_id=0, latent_dim=16, lr=0.002, *, seed=0):
        torch.manual_seed(seed)  # all begin with the same networks
        self.worker_id, self.seed, self.gan = worker_id, seed, GAN(latent_dim, lr)

    def load_data_shard(self, shard_id, num_shards, *, batch_size=32, steps_per_epoch=100, **_):
        train, _ = digits.load()
        own = shard_indices(len(train.y), shard_id, num_shards)
        self.images, self.labels = torch.from_numpy(train.x[own]), torch.from_numpy(train.y[own])
        self.batch_size, self.steps_per_epoch = min(batch_size, len(self.labels)), steps_per_epoch

    def train_epoch(self, epoch):
        """Batches drawn at random: the digits are few, so an epoch is a number of steps and not a pass over them."""
        torch.manual_seed(hash((self.seed, self.worker_id, epoch)))
        losses = []
        for _ in range(self.steps_per_epoch):
            batch = torch.randint(len(self.labels), (self.batch_size,))
            losses.append(self.gan.step(self.images[batch], self.labels[batch]))
        g_loss, d_loss = np.mean(losses, axis=0)
        return {"g_loss": float(g_loss), "d_loss": float(d_loss), "samples": self.steps_per_epoch * self.batch_size}

    def get_weights(self):
        return [p.detach() for p in self.gan.parameters()]

    def set_weights(self, weights):
        with torch.no_grad():
            for param, new_weight in zip(self.gan.parameters(), weights):
                param.copy_(new_weight)

    def generate(self, rows):
        """Rows of the digits 0 to 9, as NumPy images [10 × rows, 8, 8]."""
        torch.manual_seed(self.seed)
        with torch.no_grad():
            return self.gan.draw(torch.arange(digits.CLASSES).repeat(rows)).reshape(-1, 8, 8).numpy()
