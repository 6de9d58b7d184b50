"""Programs that train models on Miniray: the handwritten digits, a classifier in NumPy, a GAN in torch."""
