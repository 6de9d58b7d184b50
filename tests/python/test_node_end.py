"""Ends: of the node, of an actor, and of a wait (Ctrl-C, a timeout). Their errors state the cause."""

import os
import re
import signal
import subprocess
import time

import pytest

import miniray
from miniray import _core

_COMMAND = os.path.join(os.path.dirname(_core.__file__), "miniray-node")
GONE = "the node is gone: process {} {}"


@pytest.fixture
def lasting():
    """The pid and the folder of a standalone node, started as its operator does."""
    said = subprocess.run([_COMMAND, "start", "--num-cpus", "1"], check=True, capture_output=True, text=True).stdout
    yield int(re.search(r"process (\d+)", said)[1]), re.search(r"logs are in (\S+)", said)[1]
    subprocess.run([_COMMAND, "stop"], check=False, capture_output=True)


def _slow():
    @miniray.remote(max_retries=0)
    def slow():
        time.sleep(100)
    return slow.remote()


def _ends(pid, end):
    """Ends the node during a call; returns the errors of the call, of a new task, and of a new actor."""
    @miniray.remote
    class Actor:
        def method(self):
            pass
    ref, start = _slow(), time.monotonic()
    miniray.wait([ref], timeout=0.1)
    end(pid)
    errors = []
    for call in (lambda: miniray.get(ref), lambda: miniray.get(_slow()), lambda: miniray.get(Actor.remote().method.remote()),
                 lambda: miniray.wait([_slow()])):
        with pytest.raises(miniray.exceptions.RaySystemError) as told:
            call()
        errors.append(str(told.value))
    assert time.monotonic() - start < 10
    return errors


def _private_node():
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
        children = file.read().split()
    return next(int(pid) for pid in children if _comm(pid) == "miniray-node")


def _comm(pid):
    with open(f"/proc/{pid}/comm") as file:
        return file.read().strip()


@pytest.mark.parametrize("number, how", [(signal.SIGKILL, r"was killed by signal 9 \(SIGKILL\)"),
                                         (signal.SIGTERM, "was stopped")])
def test_the_end_of_a_private_node(stopped, number, how):
    stopped.init(num_cpus=1)
    pid = _private_node()
    for error in _ends(pid, lambda pid: os.kill(pid, number)):
        assert re.search(GONE.format(pid, how), error), error


def test_a_killed_standalone_node_names_its_log(stopped, lasting):
    pid, folder = lasting
    stopped.init(address="auto")
    with open(os.path.join(folder, "node.log"), "a") as log:
        log.write("a line\n")
    for error in _ends(pid, lambda pid: os.kill(pid, signal.SIGKILL)):
        assert re.search(GONE.format(pid, "(was killed by signal 9|has ended)"), error), error
        assert error.endswith(f"; its log is {folder}/node.log"), error


def test_a_stopped_standalone_node(stopped, lasting):
    pid, _ = lasting
    stopped.init(address="auto")
    for error in _ends(pid, lambda pid: subprocess.run([_COMMAND, "stop"], check=True, capture_output=True)):
        assert re.search(GONE.format(pid, "was stopped"), error), error


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_dead_actor_mentions_max_restarts_once(ray, restarts):
    @ray.remote(max_restarts=restarts)
    class Actor:
        def die(self):
            os._exit(3)

        def method(self):
            pass
    actor, ends = Actor.remote(), []
    for _ in range(restarts + 1):
        with pytest.raises(ray.exceptions.ActorDiedError) as told:
            ray.get(actor.die.remote())
        ends.append(str(told.value))
    with pytest.raises(ray.exceptions.ActorDiedError) as told:
        ray.get(actor.method.remote())
    again = " again" if restarts else ""
    for error in ends[-1], str(told.value):
        assert error.endswith(f"exited with status 3; it is not restarted{again}: max_restarts is {restarts}"), error
    assert all("max_restarts" not in error for error in ends[:-1])


def test_ctrl_c_during_get_states_the_cause(run_program):
    """The exception of the default handler has the cause; that of another handler is unchanged."""
    words = run_program("""
        import os, signal, threading, time, miniray
        miniray.init(num_cpus=1)
        @miniray.remote
        def slow(before=None):
            open("begun", "w").close()
            time.sleep(100)
        first = slow.remote()
        second = slow.remote(first)
        while not os.path.exists("begun"):
            time.sleep(0.01)
        def interrupted(refs, number=signal.SIGINT):
            threading.Timer(0.2, os.kill, (os.getpid(), number)).start()
            try:
                miniray.get(refs)
            except KeyboardInterrupt as error:
                print(error, flush=True)
        interrupted(second)
        interrupted([second, first])
        def own(*_):
            raise KeyboardInterrupt("mine")
        signal.signal(signal.SIGUSR1, own)
        interrupted(second, signal.SIGUSR1)
    """).stdout.splitlines()
    for line in words[:2]:
        assert re.fullmatch(r"interrupted after [\d.]+ s waiting for task 'slow' \(object o\d+:\d+\.\d+\); cause: p\d+ "
                            r"\(worker, process \d+\): it runs slow for p\d+, for [\d.]+ s; `miniray why o[\d:.]+` "
                            "shows more", line), line
    assert words[2:] == ["mine"]


def test_an_infeasible_task_is_named(run_program):
    words = run_program("""
        import miniray
        miniray.init(num_cpus=1)
        @miniray.remote(num_gpus=8)
        def impossible():
            pass
        try:
            miniray.get(impossible.remote(), timeout=0.3)
        except miniray.exceptions.GetTimeoutError as error:
            print(error)
    """)
    assert re.search(r"task 'impossible' \((t\d+:\d+)\) waits for cpu=1, gpu=8, but this machine has cpu=1: cancel it, "
                     r"or pass more to init .*; `miniray why \1` shows more", words.stderr), words.stderr
    assert "it needs cpu=1, gpu=8, but this machine has only cpu=1 in total; `miniray why" in words.stdout
