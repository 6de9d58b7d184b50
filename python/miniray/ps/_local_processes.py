"""The scheduler and the servers as children of a process of their own, which looks after them: `miniray ps local`."""

import os
import subprocess
import tempfile

import miniray
from miniray.ps.errors import PsError

_COMMAND = os.path.join(os.path.dirname(miniray.__file__), "miniray-node")
_USAGE, _END_S = 64, 20.0


class Local:
    """That process, and the address of the scheduler."""

    def __init__(self, shape):
        self._own_pid = os.getpid()
        self.address, self._process = _spawned(_arguments(shape))

    def pids(self, timeout):
        if self._process.poll() is not None:
            return {}
        found = {}
        for pid in _read(f"/proc/{self._process.pid}/task/{self._process.pid}/children").split():
            name = _read(f"/proc/{pid}/comm").strip()
            if name.startswith("ps-"):
                number = name.rpartition("-")[2]
                found[int(number) if number.isdecimal() else number] = int(pid)
        return found

    def stop(self):
        if os.getpid() != self._own_pid:  # a process that was forked from the one whose it is
            return
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:  # it is gone
        return ""


def _arguments(shape):
    kind = ("asp", f"ssp:{shape.staleness}", "bsp")[shape.consistency]
    arguments = ["--with", os.getpid(), "--servers", shape.servers, "--copies", shape.replicas, "--workers",
                 shape.workers, "--slots", shape.slots, "--consistency", kind]
    if shape.backup:
        arguments += ["--backup", shape.backup]
    if shape.deadline:
        arguments += ["--deadline", shape.deadline]
    if shape.mixed:
        arguments += ["--mixed"]
    if shape.folder is not None:
        arguments += ["--folder", shape.folder]
    if shape.checkpoint:
        arguments += ["--checkpoint-every", shape.checkpoint]
    if shape.balance:
        arguments += ["--balance-every", shape.balance if shape.balance > 0 else "never"]
    return arguments


def _spawned(arguments):
    own = {name: value for name, value in os.environ.items() if not name.startswith("MINIRAY_BOOT")}
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen([_COMMAND, "ps", "local", *map(str, arguments)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=words, env=own, start_new_session=True, text=True)
        with process.stdout as said:
            line = said.readline()
        if line.endswith("\n"):
            return line.split(" at ", 1)[1].strip(), process
        process.wait()
        words.seek(0)
        text = words.read().decode(errors="replace").partition("\n")[0]
    text = text.removeprefix("miniray ps local: ").removeprefix("ps-scheduler: ")
    raise (ValueError if process.returncode == _USAGE else PsError)(text or "the parameter server did not start")
