"""Nothing is left of drivers that end at random instants (many_ends.py; `make soak` runs more rounds)."""

import os


def test_nothing_is_left_whenever_a_program_is_ended(run_program):
    program = os.path.join(os.path.dirname(__file__), "many_ends.py")
    print(run_program("", arguments=[program, "12", "1"], timeout=220).stdout)
