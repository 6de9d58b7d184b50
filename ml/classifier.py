"""A classifier in NumPy alone: one hidden layer, softmax, plain SGD; and the worker that trains it on a shard."""

import numpy as np

from miniray.train import shard_indices
from ml import datasets


class Classifier:
    """`weights` is the whole model: [inputs × hidden, hidden, hidden × classes, classes], float32."""

    def __init__(self, inputs=64, classes=10, *, hidden=64, seed=0):
        draw = np.random.default_rng(seed)

        def layer(rows, columns):
            scale = np.sqrt(2 / rows)
            return [(scale * draw.standard_normal((rows, columns))).astype(np.float32), np.zeros(columns, np.float32)]
        self.weights = layer(inputs, hidden) + layer(hidden, classes)

    def step(self, x, y, lr):
        """One step down the gradient of the mean cross entropy; (loss, how many were right) before it."""
        w1, b1, w2, b2 = self.weights
        active, scores = self._forward(x)
        scores -= scores.max(axis=1, keepdims=True)
        chance = np.exp(scores)
        chance /= chance.sum(axis=1, keepdims=True)
        rows = np.arange(len(y))
        loss, right = -np.log(chance[rows, y] + 1e-12).mean(), (scores.argmax(axis=1) == y).sum()
        chance[rows, y] -= 1
        slope = chance * np.float32(1 / len(y))
        back = (slope @ w2.T) * (active > 0)
        for weight, gradient in ((w1, x.T @ back), (b1, back.sum(0)), (w2, active.T @ slope), (b2, slope.sum(0))):
            weight -= np.float32(lr) * gradient
        return float(loss), int(right)

    def predict(self, x):
        return self._forward(x)[1].argmax(axis=1)

    def accuracy(self, images):
        return float((self.predict(images.x) == images.y).mean())

    def _forward(self, x):
        w1, b1, w2, b2 = self.weights
        active = np.maximum(x @ w1 + b1, 0)
        return active, active @ w2 + b2


class ClassifierWorker:
    """What a data-parallel trainer asks of a worker: its shard, an epoch, the weights out and in. An epoch depends on
    the weights, the seed, its number and the shard alone, so that one that is done again gives the same bits."""

    def __init__(self, worker_id=0, *, lr=0.3, batch_size=16, hidden=64, seed=0):
        self.worker_id, self.lr, self.batch_size, self.hidden, self.seed = worker_id, lr, batch_size, hidden, seed

    def load_data_shard(self, shard_id, num_shards, *, dataset="digits", path=None):
        train, self.test = datasets.load(dataset, path)
        self.shard_id = shard_id
        own = shard_indices(len(train.y), shard_id, num_shards)
        self.x, self.y = train.x[own], train.y[own]
        self.model = Classifier(train.x.shape[1], int(train.y.max()) + 1, hidden=self.hidden, seed=self.seed)

    def train_epoch(self, epoch):
        order = np.random.default_rng((self.seed, epoch, self.shard_id)).permutation(len(self.y))
        loss = right = 0
        for batch in np.array_split(order, -(-len(order) // self.batch_size)):  # all alike: a short one would shake it
            step_loss, step_right = self.model.step(self.x[batch], self.y[batch], self.lr)
            loss, right = loss + step_loss * len(batch), right + step_right
        return {"loss": loss / len(order), "accuracy": right / len(order), "samples": len(order)}

    def get_weights(self):
        return self.model.weights

    def set_weights(self, weights):
        self.model.weights = [np.array(weight) for weight in weights]  # our own: they are trained in place

    def evaluate(self):
        """The accuracy on the test images, which no worker trains on."""
        return self.model.accuracy(self.test)
