"""What tests that were written for Ray import from its inner modules."""
