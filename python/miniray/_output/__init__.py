"""Output of workers on the driver: text and progress bars."""
