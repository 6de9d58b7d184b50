"""many_ends.py COUNT SEED: drivers that are ended at random instants, by Ctrl-C, or by kill -9 of them or their node.
Nothing may be left of any driver: no process, no socket, no file but logs. Prints the longest time until then; exit
code 0: success."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CRASHES = (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS)
PATIENCE_S = 10  # ten times the bar
PROGRAM = """
import time, miniray
print("here", flush=True)
@miniray.remote
def work(x):
    time.sleep(x)
    return x
@miniray.remote
class Actor:
    def work(self, x):
        return x
while True:
    miniray.init(num_workers=2)
    miniray.get([work.remote(0.001) for _ in range(20)])
    actor = Actor.remote()
    refs = [work.remote(0.05), actor.work.remote(1), work.remote(100)]
    miniray.put(b"x" * 200_000)
    miniray.wait(refs, num_returns=2, timeout=1)
    miniray.shutdown()
"""


def processes(folder):
    """The processes that have this folder as TMPDIR: (pid, whether it is the node)."""
    mark, found = f"TMPDIR={folder}".encode(), []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    with open(f"/proc/{entry}/comm") as name:
                        found.append((int(entry), name.read() == "miniray-node\n"))
        except OSError:  # the process does not exist, or has ended
            pass
    return found


def files(folder):
    return [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names
            if not name.endswith((".log", ".log.1"))]


def end(process, folder, way):
    if way == "interrupt":
        process.send_signal(signal.SIGINT)
    elif way == "kill":
        process.kill()
    else:
        nodes = [pid for pid, is_node in processes(folder) if is_node]
        for pid in nodes:
            with contextlib.suppress(ProcessLookupError):  # a fork of the node that has ended since
                os.kill(pid, signal.SIGKILL)
        process.send_signal(signal.SIGINT)  # otherwise the driver continues with another node
    return way


def one(way, delay_s):
    """Seconds after the driver's end during which a process or file of it was left."""
    folder = tempfile.mkdtemp(prefix="end-")
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], env={**os.environ, "TMPDIR": folder},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(delay_s)
    end(process, folder, way)
    try:
        errors = process.communicate(timeout=60)[1].decode()
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"{way} after {delay_s:.3f} s: the program does not end") from None
    start = time.monotonic()
    while processes(folder) or files(folder):
        assert time.monotonic() - start < PATIENCE_S, \
            f"{way} after {delay_s:.3f} s: left {processes(folder)} {files(folder)}\n{errors}"
        time.sleep(0.01)
    assert process.returncode not in CRASHES, f"{way} after {delay_s:.3f} s:\n{errors}"
    shutil.rmtree(folder)
    return time.monotonic() - start


def main(count, seed):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background processes with SIGINT ignored
    chance, worst = random.Random(seed), 0
    for number in range(count):
        way = chance.choice(("interrupt", "interrupt", "kill", "node"))
        worst = max(worst, one(way, chance.random() * 0.8))
    print(f"{count} ends; the last of any was gone after {worst * 1000:.0f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
