"""Memory does not grow, and the store empties, in a program that makes many calls (long_day.py; `make soak` makes
more)."""

import os

import pytest

pytest.importorskip("numpy")


def test_memory_stays_and_the_store_empties(run_program):
    program = os.path.join(os.path.dirname(__file__), "long_day.py")
    print(run_program("", arguments=[program, "3000", "1"], timeout=200).stdout)
