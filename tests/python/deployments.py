"""Helpers for tests of deployments: their processes, and the folder of a deployment."""

import os
import time


def is_there(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(happens):
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def place_of(address):
    return os.path.dirname(address.removeprefix("unix:"))
