"""Fixtures of the Python tests: one runtime per test file, and programs in processes of their own."""

import os
import subprocess
import sys
import textwrap

import pytest

import miniray
from miniray._core_api import api as _api


@pytest.fixture(scope="module")
def ray(request):
    """The package, running with two workers. The zygote imports pytest and the test file, like numpy, since importing
    them takes longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_api, "_HEAVY", (*_api._HEAVY, "pytest", request.module.__name__))
        miniray.init(num_workers=2)
    yield miniray
    miniray.shutdown()


@pytest.fixture
def stopped():
    """The package, not running; the runtime is shut down afterwards."""
    miniray.shutdown()
    yield miniray
    miniray.shutdown()


@pytest.fixture
def run_program(tmp_path):
    """Runs a program in a separate process; returns its output."""
    def run(text, *, code=0, timeout=60, arguments=(), stdin=None, environment=(), folder=tmp_path):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(text))
        done = subprocess.run([sys.executable, *(arguments or [str(path)])], cwd=folder, timeout=timeout, text=True,
                              input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, **dict(environment)})
        assert done.returncode == code, done.stdout + done.stderr
        return done
    return run


@pytest.fixture
def run_here(run_program):
    """Runs a program of the repository from its root, as users do: run_here("examples/digits.py", "--epochs", "2")."""
    def run(*arguments, code=0, timeout=120):
        return run_program("", arguments=["-B", *arguments], folder=os.environ["MINIRAY_TEST_SOURCE"], code=code,
                           timeout=timeout)
    return run

