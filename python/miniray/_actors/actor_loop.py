"""The event loop of an actor with coroutines: the thread that runs them also waits for the actor's calls.

So one thread begins, runs and answers a call. As long as nothing else is registered with the loop (sockets, pipes), the
thread waits for calls alone, in the runtime, which spins before it sleeps; otherwise a second thread watches the
registered files, and wakes the first one.
"""

import asyncio
import select
import selectors
import threading

from miniray import _core


class _Selector(selectors.EpollSelector):
    def __init__(self):
        super().__init__()
        self.over = None  # called at the end of the runtime; None: a plain selector that does not serve calls yet
        self.inbox = None  # wakes the loop when a result arrives
        self.settle = None  # called with the inbox after an arrival
        self._count = 0  # number of registered file objects
        self._turn = None  # selector of the watching thread; None: no such thread
        self._watched = False  # events that the watching thread has found

    def register(self, *arguments):
        key = super().register(*arguments)
        self._count += 1
        return key

    def unregister(self, *arguments):
        key = super().unregister(*arguments)
        self._count -= 1
        return key

    def select(self, timeout=None):
        if self.over is None:
            return super().select(timeout)
        others = self._count > 1  # other files than the loop's own pipe, which is never written to (_write_to_self)
        ready = super().select(0) if others else []
        if ready or self.inbox:
            timeout = 0
        elif others and timeout != 0:
            self._watch()
        if not _core.serve_calls(timeout):
            self.over()
        if self.inbox:
            self.settle(self.inbox)
        return super().select(0) if others and not ready else ready

    def _watch(self):
        if self._turn is None:
            self._turn = threading.Semaphore(0)
            threading.Thread(target=self._watch_on, name="watch", daemon=True).start()
        if not self._watched:
            self._watched = True
            self._turn.release()

    def _watch_on(self):
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        while self._turn.acquire():
            poll.poll()
            self._watched = False
            _core.wake_server()


class Loop(asyncio.SelectorEventLoop):
    """An asyncio event loop whose thread also serves the calls of the actor."""

    def __init__(self):
        super().__init__(_Selector())

    def serve(self):
        """Runs the loop and serves calls until the runtime ends."""
        self._selector.over = self.stop
        self.run_forever()

    def read_inbox(self, inbox, settle):
        """Calls settle(inbox) after arrivals in the inbox, without a file descriptor."""
        inbox.wakes_server()
        self._selector.inbox, self._selector.settle = inbox, settle

    def _write_to_self(self):
        if self._selector.over is None:
            super()._write_to_self()
        else:
            _core.wake_server()
