"""Waits for a parameter server that ends, times out or is interrupted: errors name the request and the cause."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

import miniray
from miniray import ps

BAR_S = 10  # ten times the bar


@pytest.fixture(params=["actors", "supervisor"])
def deployment(request):
    if request.param == "actors":
        miniray.init(num_workers=1)
    with ps.start(num_servers=2, num_workers=3, actors=request.param == "actors") as deployment:
        yield deployment
    miniray.shutdown()


WAITS = """
import sys, time
from miniray import ps
address, what = sys.argv[1:]
with ps.connect(address, dict(pull=0, barrier=1, checkpoint=2)[what]) as connection:
    table = connection.table("rows", dim=1)
    table.pull([1])
    print("ready", flush=True)
    try:
        while what != "barrier":
            table.pull([1]) if what == "pull" else ps.Deployment(address).checkpoint()
        connection.barrier("b")
    except ps.PsError as error:
        print(time.monotonic(), type(error).__name__, error)
"""


def test_a_stop_fails_the_requests_of_other_processes_at_once(deployment):
    kinds = {"pull": "pull from table 'rows' failed: ", "barrier": "barrier 'b' failed: ", "checkpoint": "the checkpoint failed: "}
    others = [(text, subprocess.Popen([sys.executable, "-c", WAITS, deployment.address, what], stdout=subprocess.PIPE, text=True,
                                      stderr=subprocess.STDOUT)) for what, text in kinds.items()]
    for _, other in others:
        assert other.stdout.readline() == "ready\n"
    deployment.stop()
    ended = time.monotonic()
    for text, other in others:
        said = other.communicate(timeout=60)[0]
        moment, kind, words = said.split(maxsplit=2)
        assert kind == "PsError" and said.count("\n") == 1, said
        assert f"{text}the parameter server at {deployment.address} has ended: " in words and "start" in words, said
        assert float(moment) - ended < BAR_S, said


def test_a_callback_of_a_stopped_deployment_is_called():
    with ps.start(num_servers=1, num_workers=1, actors=False) as deployment, deployment.connect() as connection:
        table, called = connection.table("rows", dim=1), threading.Event()
        table.pull([1])
        os.kill(deployment.pids()[0], signal.SIGSTOP)  # it does not answer any more
        ticket = table.pull([1], wait=False, done=lambda ticket: called.set())
        deployment.stop()
        assert called.wait(60)
        with pytest.raises(ps.PsError, match="pull from table 'rows' failed: the parameter server at .* has ended: "):
            ticket.wait()


@pytest.fixture(scope="module")
def rank():
    """Rank 0 of a deployment whose rank 1 has not ended step 0, and whose rank 2 no process holds."""
    with ps.start(num_servers=1, num_workers=3, consistency="bsp", actors=False) as deployment:
        with deployment.connect(0) as connection, deployment.connect(1):
            connection.begin()
            connection.end()
            connection.timeout = 1.2
            while True:  # until the scheduler knows the steps
                with pytest.raises(ps.PsTimeoutError) as raised:
                    connection.begin()
                if "rank 1" in str(raised.value):
                    break
            yield connection


CAUSE = "no process holds rank 2, and rank 1 has not ended step 0, while this rank is at step 1; `miniray ps status --scheduler "


@pytest.mark.parametrize("wait, text", [(lambda rank: rank.begin(), "step 1 cannot begin: "),
                                        (lambda rank: rank.barrier("b"), "barrier 'b': ranks 1, 2 have not arrived; "),
                                        (lambda rank: rank.flush(), "messages are not acknowledged; ")])
def test_timeouts_and_interrupts_name_the_cause(rank, wait, text):
    with pytest.raises(ps.PsTimeoutError) as raised:
        wait(rank)
    words = str(raised.value)
    assert re.match(r"timed out after [\d.]+ s: ", words) and text in words and CAUSE in words
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    rank.timeout = 60
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt) as raised:
            wait(rank)
    finally:
        rank.timeout = 1.2
    words = str(raised.value)
    assert words.startswith("interrupted after ") and " s: " in words and text in words and CAUSE in words


def test_an_interrupt_of_a_question_names_the_scheduler():
    with tempfile.TemporaryDirectory() as folder:
        threading.Timer(0.3, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt, match=f"interrupted after .* s: no answer from the scheduler at unix:{folder}/s: cannot connect"):
            ps.Deployment(f"unix:{folder}/s").processes()


def test_a_handler_that_raises_something_else_keeps_its_error(rank):
    class Mine(Exception):
        pass

    def handler(number, frame):
        raise Mine("mine")

    before = signal.signal(signal.SIGINT, handler)
    try:
        threading.Timer(0.3, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()
        with pytest.raises(Mine, match="^mine$"):
            rank.barrier("c")
    finally:
        signal.signal(signal.SIGINT, before)
