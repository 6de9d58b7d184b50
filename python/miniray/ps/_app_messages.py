"""Messages between the processes of a parameter server, for `Connection`."""

from __future__ import annotations

import numbers
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from miniray import _core
from miniray._core_api import did_you_mean
from miniray.ps import _table_options
from miniray.ps.errors import PsError

_SCHEDULER, _SERVERS, _WORKERS, _ALL, _READERS = 1, 2, 4, 7, 8
_GROUPS = {"scheduler": _SCHEDULER, "servers": _SERVERS, "workers": _WORKERS, "all": _ALL}
_ROLES = {"server": _SERVERS, "worker": _WORKERS, "reader": _READERS}
_NAMES = {_SCHEDULER: "scheduler", _SERVERS: "server", _WORKERS: "worker", _READERS: "reader"}
_EVERY, _NUMBER_MAX = 0xFFFFFFFF, 1023
INT_MAX = 2**31 - 1
_SLICE_S = 0.2  # interval at which the thread checks whether it should end


class Request(NamedTuple):
    """A request, as a handler receives it."""
    role: str
    number: int
    head: int
    body: bytes


class Response(NamedTuple):
    """The response of one process. `error` is the reason why there is none; otherwise None."""
    role: str
    number: int
    head: int
    body: bytes
    error: str | None


def group_of(name: str) -> int:
    """The roles that a barrier is for."""
    found = {"workers": _WORKERS, "servers": _SERVERS, "all": _ALL}.get(name)
    if found is None:
        raise did_you_mean.one_of("group of a barrier", name, ("workers", "servers", "all"))
    return found


def node_of(to: Any) -> tuple[int, int]:
    """The role and the number of the receiver of a message."""
    if isinstance(to, str) and to in _GROUPS:
        return _GROUPS[to], 0 if to == "scheduler" else _EVERY
    if isinstance(to, tuple) and len(to) == 2 and to[0] in _ROLES:
        return _ROLES[to[0]], _table_options.whole(f"the number of the {to[0]}", to[1], _NUMBER_MAX)
    raise ValueError(f"unknown receiver {to!r}; expected 'scheduler', ('server', number), ('worker', rank), "
                     f"('reader', number), 'servers', 'workers' or 'all'{did_you_mean.hint(to, _GROUPS)}")


def response_of(role: int, number: int, status: int, head: int, body: bytes) -> Response:
    """A Response from the fields that the extension returns."""
    if status == 0:
        return Response(_NAMES[role], number, head, body, None)
    return Response(_NAMES[role], number, head, b"", body.decode(errors="replace") or "no answer")


def raise_if_failed(response: Response) -> Response:
    """Raises PsError if the response is an error."""
    if response.error is not None:
        who = response.role if response.role == "scheduler" else f"{response.role} {response.number}"
        raise PsError(f"{who}: {response.error}")
    return response


class Listener:
    """A thread that handles the requests for one app, one after another, until the connection is closed."""

    def __init__(self, native: _core.PsConnection, app: int, handler: Callable[[Request], Any]):
        if not callable(handler):
            raise TypeError(f"a handler must be a function of a request, not {type(handler).__name__}")
        self._native, self._app, self._handler = native, app, handler
        self._is_over = threading.Event()
        native.handle(app)
        self._thread = threading.Thread(target=self._listen, name=f"miniray-ps-app-{app}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ends the thread after the request that it handles."""
        self._is_over.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _listen(self):
        while not self._is_over.is_set():
            found = self._native.receive(self._app, _SLICE_S)
            if found is not None:
                role, number, head, body, request = found
                head, body = self._handled(Request(_NAMES[role], number, head, body))
                try:
                    _core.ps_answer(request, head, body)
                except (PsError, ValueError):
                    pass  # the connection is closed, or the response is too large; the sender gets the error

    def _handled(self, request):
        try:
            return packed(self._handler(request))
        except BaseException as error:  # noqa: BLE001: the sender gets the error; the thread continues
            threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, self._thread)))
            return -1, f"{type(error).__name__}: {error}".encode()[:1000]


def packed(answer: Any) -> tuple[int, bytes]:
    """The result of a handler as a head and a body."""
    if answer is None or isinstance(answer, numbers.Integral):
        answer = answer or 0, b""
    head, body = answer if isinstance(answer, tuple) and len(answer) == 2 else (0, answer)
    if not isinstance(head, numbers.Integral) or not -INT_MAX <= head <= INT_MAX:
        raise TypeError(f"the head of an answer is {head!r}: it must be a whole number of 32 bits")
    try:
        return int(head), bytes(memoryview(body))
    except TypeError:
        raise TypeError(f"an answer of {type(body).__name__}: it is bytes, a number, (number, bytes) or None") from None
