"""Handlers that are plain functions, and who runs jobs in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from . import _native
from ._forks import end_in_fork, forks
from ._orm import close_old, fresh_connections
from ._telling import logger
from .connection import Connection
from .context import Context, _current
from .handler import AnyHandler, Ended, Handler, raised, returned
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


class Runner(ABC):
    """Runs the jobs of one thread. Entered and left by that thread."""

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves nothing behind."""

    @abstractmethod
    def run(self, desk: _native.ThreadDesk, job: _native.Job) -> Ended | None:
        """Runs a job to its end, and says what became of it."""


class WrappedRunner(Runner):
    """Runs jobs by another runner, and does something around each."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def __enter__(self) -> Runner:
        self._runner.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.__exit__(*error)


class InThread(Runner):
    """Runs jobs in the thread itself."""

    def __init__(self, handlers: dict[str, Handler], any: Handler | AnyHandler | None, connection: Connection) -> None:
        self._handlers = handlers
        self._any = any
        self._connection = connection
        self._process, self._forks = os.getpid(), forks()

    def run(self, desk: _native.ThreadDesk, job: _native.Job) -> Ended | None:
        # Once for each job, 2 us of the interpreter at best: what only some jobs need is not made here.
        try:
            # A context of its own, so that nothing that a handler sets is there for the next.
            value = contextvars.Context().run(self._call, desk, job)
            if forks() != self._forks:
                end_in_fork(self._process)
            return None if value is None else returned(value, job.kind)
        except BaseException as error:  # also SystemExit: it ends the job, not the worker
            end_in_fork(self._process, error)
            return raised(error, job)

    def _call(self, desk: _native.ThreadDesk, job: _native.Job) -> Any:
        context = Context(job, self._connection, lambda _: desk.reason())
        _current.set(context)
        handler = self._handlers.get(job.kind) or self._any
        assert handler is not None  # no other jobs come of a kind that has no handler
        close_old()
        try:
            return handler.call(job, context)
        finally:
            close_old()
