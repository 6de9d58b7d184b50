"""Death of the supervisor of a deployment: the process `miniray ps local`, or the node that runs its actors.

All processes of the deployment end with their supervisor. A thread of the program that started the deployment sleeps until
the supervisor ends; every wait for the deployment then fails at once, with the cause. Other processes notice that the
directory of the deployment's socket is gone.
"""

import os
import select
import shutil
import signal
import threading
import time

from miniray.ps.errors import PsError

_CLEAN_S = 2.0  # time for the last processes of the deployment to end, which write to the directory
_ended = {}  # {address: error text}


class SupervisorWatch:
    """Watches the process `pid` until `stop()`; `name` is the process in errors. `directory` is removed after its death;
    None: somebody else removes it."""

    def __init__(self, address, pid, name, directory=None):
        self._address, self._name, self._directory = address, f"{name} (process {pid})", directory
        self._supervisor, self._ends = -1, ()
        _ended.pop(address, None)  # an address of a user's choice may be used again
        try:
            self._supervisor = os.pidfd_open(pid)
        except (AttributeError, OSError):  # before Linux 5.3, or it has ended: waits time out
            return
        self._ends = os.pipe()
        threading.Thread(target=self._run, name="miniray-supervisor-watch", daemon=True).start()

    def stop(self):
        """The end of the supervisor is wanted from now on."""
        if self._ends:
            os.close(self._ends[1])
            self._ends = ()

    def _run(self):
        wanted = self._ends[0]
        events = select.poll()
        events.register(self._supervisor, select.POLLIN)
        events.register(wanted, select.POLLHUP)
        ready = {fd for fd, _ in events.poll()}
        if wanted not in ready:
            _ended[self._address] = (f"the parameter server at {self._address} has ended: {self._name}, which runs it, "
                                     f"{_end_of(self._supervisor)}; start another one")
            if self._directory is not None:
                _remove(self._directory)
        os.close(self._supervisor)
        os.close(wanted)


def check_supervisor(address, joined):
    """Raises PsError if the deployment has ended. `joined`: this process was connected to it."""
    text = _ended.get(address)
    if text is None and joined and address.startswith("unix:/") and not os.path.isdir(os.path.dirname(address[5:])):
        text = f"the parameter server at {address} has ended: the directory of its socket is gone; start another one"
    if text is not None:
        raise PsError(text)


def _end_of(pidfd):
    try:
        end = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
    except OSError:  # no child of this process, or somebody has waited for it
        return "has ended"
    if end.si_code == os.CLD_EXITED:
        return f"exited with status {end.si_status}"
    return f"was killed by signal {end.si_status} ({signal.Signals(end.si_status).name})"


def _remove(directory):
    until = time.monotonic() + _CLEAN_S
    while os.path.isdir(directory) and time.monotonic() < until:
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.01)
