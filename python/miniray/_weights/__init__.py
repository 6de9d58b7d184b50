"""Model weights as trees of tensors, models in shared memory, and the worker methods that a sync calls."""
