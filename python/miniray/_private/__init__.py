"""Modules of Ray's `_private` that tests import."""
