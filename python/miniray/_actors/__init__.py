"""Actor classes, their methods, concurrency and generators."""
