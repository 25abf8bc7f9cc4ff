"""A call in a thread of its own, and what is left of those that nobody waits for any more."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections.abc import Callable
from typing import Any

from ._forks import end_in_fork
from ._orm import fresh_connections
from ._telling import logger
from .outcome import Snooze


class Left:
    """The threads of batches that go on though their jobs were taken away. A thread cannot be stopped; of such there are at most so many, and
    then further batches wait for one to return."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._returned = asyncio.Event()
        self._is_told = False

    async def room(self, kind: str) -> None:
        """Waits until a batch may begin. One that is to stop before that goes back, and no attempt is used up."""
        while self._count >= self._most:
            if not self._is_told:
                self._is_told = True
                logger.warning(
                    "no further batch begins until one of %d returns that go on though their jobs were taken away; one of %s waits. A thread cannot be "
                    "stopped: have the function look at ctx.cancelled, or start the worker anew", self._count, kind,
                )  # fmt: skip
            self._returned.clear()
            try:
                await self._returned.wait()
            except asyncio.CancelledError:
                raise Snooze(0) from None

    def leave(self) -> None:
        self._count += 1
        logger.warning("a batch keeps its thread though its jobs were taken away, the %d. of at most %d", self._count, self._most)

    def come_back(self) -> None:
        self._count -= 1
        self._is_told = False
        self._returned.set()


async def in_thread(function: Callable[[Any], Any], args: Any, left: Left | None = None) -> Any:
    """Calls a function in a thread that keeps no process from ending, and whatever it raises comes back: unlike ``asyncio.to_thread``."""
    loop, process = asyncio.get_running_loop(), os.getpid()
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def tell(value: Any, error: BaseException | None) -> None:
        if ended.cancelled() and left is not None:
            left.come_back()
        if not ended.done():
            ended.set_result((value, error))

    def call() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            with fresh_connections():
                value = function(args)
        except BaseException as problem:
            error = problem
        end_in_fork(process, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(tell, value, error)

    threading.Thread(target=contextvars.copy_context().run, args=(call,), name="windlass-batch", daemon=True).start()
    try:
        value, error = await ended
    except asyncio.CancelledError:
        if ended.cancelled() and left is not None:  # it is not where the thread has just returned
            left.leave()
        raise
    if error is not None:
        raise error
    return value
