"""Modules of Ray's `_common` that tests import."""
