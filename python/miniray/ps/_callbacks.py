"""Completion callbacks: `done=` of the methods of tables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from miniray import _core

_SLICE_S = 0.2  # interval at which the thread checks whether it should end


class Callback:
    """The callback of a ticket, called when all requests have ended; `ticket` is set before the last request
    is counted."""

    def __init__(self, function: Callable[[Any], None]):
        if not callable(function):
            raise TypeError(f"done must be a function that is given a ticket, not {type(function).__name__}")
        self.function, self.ticket = function, None
        self._left, self._lock = 1, threading.Lock()  # the 1 is for the creator of the ticket

    def expect(self) -> Callback:
        """Counts one more request."""
        with self._lock:
            self._left += 1
        return self

    def is_last(self) -> bool:
        """Counts the end of a request; True if it was the last one."""
        with self._lock:
            self._left -= 1
            return self._left == 0


class CallbackThread:
    """A thread that runs the callbacks, one after another, so that they may wait and make further requests."""

    def __init__(self, native: _core.PsConnection):
        self._native = native
        self._calling = threading.RLock()  # held while a function runs
        self._is_over = False
        self._thread = threading.Thread(target=self._listen, name="miniray-ps-done", daemon=True)
        self._thread.start()

    def begin(self, callback: Callback, ticket: Any) -> None:
        """Records that the requests of the callback are under way."""
        callback.ticket = ticket
        self._native.tell(callback)

    def close(self) -> None:
        """Closes the connection between two callbacks; the remaining callbacks see a closed connection."""
        with self._calling:
            self._native.close()
        self._is_over = True
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _listen(self):
        while True:
            # Read before the callbacks, so that those that close() leaves are taken in the next round.
            is_over = self._is_over
            callback = self._native.told(_SLICE_S)
            if callback is not None:
                self._tell(callback)
            elif is_over:
                return

    def _tell(self, callback):
        if not callback.is_last():
            return
        with self._calling:
            try:
                callback.function(callback.ticket)
            except Exception as error:  # noqa: BLE001: there is no caller to raise it to
                threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, self._thread)))
