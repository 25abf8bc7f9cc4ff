"""Where the answers of the engine come in, one place for each event loop."""

from __future__ import annotations

import asyncio
import weakref
from itertools import count
from typing import Callable

from . import _native


class Mailbox:
    """Where the answers of calls come in for one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.port: _native.Port = _native.Port()
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[str]] = {}
        loop.add_reader(self.port.fileno(), self._drain)

    async def call(self, start: Callable[[_native.Port, int], _native.Call]) -> str:
        """Starts a call with this port and a number, and waits for its answer. Who is cancelled while it waits ends the call."""
        number, future = self.expect()
        try:
            call = start(self.port, number)
            try:
                return await future
            except asyncio.CancelledError:
                call.abort()
                raise
        finally:
            self.forget(number)

    def expect(self) -> tuple[int, asyncio.Future[str]]:
        """A number, and what waits for the answer that comes by it; to be forgotten when nobody waits any more."""
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        return number, future

    def forget(self, number: int) -> None:
        del self._waiting[number]

    def _drain(self) -> None:
        for number, answer, error in self.port.drain():
            future = self._waiting.get(number)
            if future is None or future.done():
                continue  # whoever waited was cancelled
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(answer or "null")


_mailboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = weakref.WeakKeyDictionary()


def mailbox() -> Mailbox:
    """That of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _mailboxes.get(loop)
    if found is None:
        found = _mailboxes[loop] = Mailbox(loop)
    return found


def forget_mailboxes() -> None:
    """In a fork, which has no part in those of its parent."""
    _mailboxes.clear()
