"""Short forms of programs that `make soak` runs for longer: memory does not grow and the store empties in a program with
many calls (long_day.py), and syncs keep their place among calls (sync_order.py)."""

import os

import pytest

pytest.importorskip("numpy")


def test_memory_stays_and_the_store_empties(run_program):
    program = os.path.join(os.path.dirname(__file__), "long_day.py")
    print(run_program("", arguments=[program, "3000", "1"], timeout=200).stdout)


def test_syncs_and_calls_keep_their_order(run_program):
    program = os.path.join(os.path.dirname(__file__), "sync_order.py")
    print(run_program("", arguments=[program, "200", "1"], timeout=100).stdout)
