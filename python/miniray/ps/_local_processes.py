"""Scheduler and servers as children of a supervisor process: `miniray ps local`."""

import os
import subprocess

from miniray import _core
from miniray.ps.errors import PsError

_COMMAND = os.path.join(os.path.dirname(_core.__file__), "miniray-node")
_USAGE = 2
_END_S = 620.0  # longest time of the scheduler's last checkpoint, and the end of the servers


class LocalProcesses:
    """The supervisor process, and the address of the scheduler."""

    def __init__(self, options):
        self._own_pid = os.getpid()
        self.address, self._process = _spawned(_arguments(options))

    def pids(self, timeout):
        """{"scheduler": pid, 0: pid of server 0, …}"""
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
        """Ends the supervisor, and so the other processes; no-op in a fork of the process that started it."""
        if os.getpid() != self._own_pid:
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
    except OSError:  # the process has ended
        return ""


def _arguments(options):
    balance = options.balance_every if options.balance_every >= 0 else "never"
    flags = {"--parent-pid": os.getpid(), "--num-servers": options.num_servers, "--replicas": options.replicas,
             "--num-workers": options.num_workers, "--slots": options.slots,
             "--consistency": ("asp", f"ssp:{options.staleness}", "bsp")[options.consistency],
             "--backup-workers": options.backup_workers, "--readers": options.readers, "--deadline": options.deadline, "--checkpoint-dir": options.checkpoint_dir,
             "--checkpoint-every": options.checkpoint_every, "--balance-every": balance}
    given = [str(part) for flag, value in flags.items() if value for part in (flag, value)]
    return given + ["--mixed-consistency"] * options.mixed_consistency


def _spawned(arguments):
    own = {name: value for name, value in os.environ.items() if not name.startswith("MINIRAY_BOOT")}
    with open(os.memfd_create("miniray-ps-errors"), "w+b") as words:
        process = subprocess.Popen([_COMMAND, "ps", "local", *arguments], stdin=subprocess.DEVNULL,
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
