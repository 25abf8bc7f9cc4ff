"""What happened to jobs, one after the other."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

from . import calls
from .connection import Connection
from .records import Event, EventPage

# Seconds: the first and the longest pause between two looks while nothing happens.
FIRST_PAUSE = 0.02
LONGEST_PAUSE = 1.0


class Events:
    """What happened to jobs, in the order in which it was committed: made by ``follow_events`` of both clients. Iterated it waits for what
    comes, and looks once a second at least; it ends when you leave it::

        async for event in app.client.follow_events(after=kept, queues=["mail"]):
            kept = event.cursor  # keep it together with what you do with the event

    Code without an event loop has the same by ``for``. A timeout around ``anext`` loses nothing that is behind :attr:`position`.

    Raises :class:`windlass.errors.EventsExpired` when events behind the cursor were removed, or it is of another store: go on from
    ``"start"`` or ``"now"``; :class:`windlass.errors.InvalidOption` when it is no cursor; :class:`windlass.errors.Unavailable`, after which
    it can be iterated again, and goes on.
    """

    def __init__(self, connection: Connection, after: str | None, **filter: Any) -> None:
        self._connection = connection
        self._filter = filter
        self._next = after  # where the next page begins
        self._given = after  # behind what was given
        self._read: deque[Event] = deque()
        self._more = True
        self._pause = FIRST_PAUSE

    @property
    def position(self) -> str | None:
        """The cursor behind what it gave so far; ``None`` before the first page, if no ``after`` was said."""
        return self._given if self._read else self._next

    async def page(self) -> EventPage:
        """The next page, at once: empty where nothing happened. Raises as the iteration does."""
        if not self._read:
            await self._fetch()
        return self._rest()

    def page_sync(self) -> EventPage:
        """The same where there is no event loop."""
        if not self._read:
            self._fetch_sync()
        return self._rest()

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Event:
        while not self._read:
            await asyncio.sleep(await self._fetch())
        return self._give()

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event:
        while not self._read:
            time.sleep(self._fetch_sync())
        return self._give()

    async def _fetch(self) -> float:
        call = calls.events(self._next, **self._filter)
        return self._take(call.read(await self._connection.call(call.op, call.payload)))

    def _fetch_sync(self) -> float:
        call = calls.events(self._next, **self._filter)
        return self._take(call.read(self._connection.call_sync(call.op, call.payload)))

    def _take(self, page: EventPage) -> float:
        """Takes a page in. How many seconds to wait until the next look, if it has nothing."""
        self._given, self._next, self._more = self._next, page.next, page.more
        self._read.extend(page.events)
        if page.events or page.more:
            self._pause = FIRST_PAUSE
            return 0
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return pause

    def _give(self) -> Event:
        event = self._read.popleft()
        self._given = event.cursor
        return event

    def _rest(self) -> EventPage:
        """What was read and not given yet."""
        events, self._read = list(self._read), deque()
        return EventPage(events, self._next or "start", self._more)
