"""Watches an event loop that runs jobs, from a thread of its own: a handler that holds it for long keeps all others from going on."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable

from ._telling import logger

LOOK = 1.0  # seconds between two looks
PATIENCE = 5.0  # for how long a loop may stand still before somebody is told


class Watch:
    """Warns once each time that the loop stands still: for how long, which job holds it, and where."""

    def __init__(self, loop: asyncio.AbstractEventLoop, holder: Callable[[], str | None]) -> None:
        """
        :param holder: Which job is run in this moment; ``None`` when none is under way, and nobody minds.
        """
        # Whoever forgets to close a worker must be able to lose it.
        self._loop = weakref.ref(loop)
        self._known_holder = weakref.WeakMethod(holder)
        self._thread_id = threading.get_ident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="windlass-watch", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Watches no longer."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(LOOK) and self._loop() is not None:
            if self._holder() is None:
                continue
            beat, began = threading.Event(), time.monotonic()
            if not self._ask(beat):
                return
            if not beat.wait(PATIENCE):
                self._warn(time.monotonic() - began)
                while not beat.wait(LOOK):
                    if self._over.is_set():
                        return
                logger.info("the event loop goes on after %.1f s", time.monotonic() - began)

    def _ask(self, beat: threading.Event) -> bool:
        """Has the loop say that it goes on. Whether there is one."""
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(beat.set)
            return loop is not None
        except RuntimeError:  # it is closed
            return False

    def _holder(self) -> str | None:
        holder = self._known_holder()
        return None if holder is None else holder()

    def _warn(self, seconds: float) -> None:
        frame = sys._current_frames().get(self._thread_id)
        where = "" if frame is None else "".join(traceback.format_stack(frame)[-3:]).rstrip()
        logger.warning(
            "the event loop stands still for %.1f s: %s holds it, and nothing else of this loop goes on meanwhile. No job is lost by it, since leases "
            "are renewed beside the loop. Await what waits, and make what computes a plain function, which runs in a thread, or in a child process with "
            "process=True\n%s",
            seconds, self._holder() or "something beside the jobs", where,
        )  # fmt: skip
