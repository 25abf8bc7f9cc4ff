"""Enqueues of one job each that go together."""

from __future__ import annotations

import asyncio

from . import _native
from ._mailbox import Mailbox

_PATIENCE = 0.05  # how long an enqueue waits for those under way, seconds: one of them may wait for a connection


class Group:
    """The enqueues of one event loop to one store. While some are under way others wait, and when these are answered go with what their tasks enqueue next.

    The store commits in one statement what comes together. What comes one by one, by a thread and an event loop that take turns, it would commit in two
    halves in turns: who was just answered always missed the statement that begins then. An enqueue alone goes at once.
    """

    def __init__(self, native: _native.Client, mailbox: Mailbox) -> None:
        self.native = native
        self._mailbox = mailbox
        self._waiting: dict[int, tuple[str, asyncio.Future[str]]] = {}
        self._calls: dict[int, _native.Call] = {}
        self._last: set[int] = set()
        """Those that went last, while none of them is answered."""
        self._were_several = False
        self._turn: asyncio.Handle | None = None
        """When those that wait go."""

    async def enqueue(self, payload: str) -> str:
        """Enqueues a job, and gives the answer. Who is cancelled ends his own call; if it waited yet, nothing was done."""
        number, future = self._mailbox.expect()
        self._waiting[number] = payload, future
        if self._turn is None:
            self._begin()
        try:
            return await future
        except asyncio.CancelledError:
            if number in self._calls:
                self._calls[number].abort()
            raise
        finally:
            self._mailbox.forget(number)
            self._over(number)

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        if self._last:
            self._turn = loop.call_later(_PATIENCE, self._go)
        elif self._were_several:
            self._turn = loop.call_soon(self._go)  # behind the tasks that were answered with this one
        else:
            self._go()

    def _over(self, number: int) -> None:
        self._waiting.pop(number, None)
        self._calls.pop(number, None)
        if number in self._last:
            self._last = set()
            if self._waiting:
                self._put_off()
                # Not yet: this task, and those answered with it, may enqueue again before.
                self._turn = asyncio.get_running_loop().call_soon(self._go)

    def _put_off(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def _go(self) -> None:
        self._put_off()
        # Without those that are cancelled and do not know yet.
        waited = {number: each for number, each in self._waiting.items() if not each[1].done()}
        self._waiting.clear()
        if not waited:
            return
        try:
            calls = self.native.start_all(self._mailbox.port, "enqueue", [(number, payload) for number, (payload, _) in waited.items()])
        except Exception as error:  # nothing began
            for _, future in waited.values():
                future.set_exception(error)
            return
        self._calls.update(zip(waited, calls))
        self._last = set(waited)
        self._were_several = len(waited) > 1
