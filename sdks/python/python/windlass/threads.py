"""Handlers that are plain functions: each runs in a thread of its own, or in a child process that a thread looks after."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from . import _native
from ._orm import fresh_connections
from .connection import Connection
from .context import Context, _current
from .handler import Ended, Handler, raised, returned


async def in_thread(function: Callable[[Any], Any], args: Any) -> Any:
    """Calls a function in a thread that keeps no process from ending, and whatever it raises comes back: unlike ``asyncio.to_thread``."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def tell(value: Any, error: BaseException | None) -> None:
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
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(tell, value, error)

    threading.Thread(target=contextvars.copy_context().run, args=(call,), name="windlass-batch", daemon=True).start()
    value, error = await ended
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


class Threads:
    """Threads that take one job after the other."""

    def __init__(self, desks: Iterable[_native.ThreadDesk], runner: Callable[[], Runner], name: str) -> None:
        self._runner = runner
        self._threads = [
            threading.Thread(target=self._work, args=(desk,), name=f"{name}-{n}", daemon=True) for n, desk in enumerate(desks)
        ]
        for thread in self._threads:
            thread.start()

    def join(self, seconds: float) -> bool:
        """Waits so long for threads whose handlers have not returned yet. Whether all have."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self, desk: _native.ThreadDesk) -> None:
        with self._runner() as runner:
            job = desk.next()
            while job is not None:
                told = runner.run(desk, job)
                job = desk.next(job) if told is None else desk.next(None, (job, *told))


class InThread(Runner):
    """Runs jobs in the thread itself."""

    def __init__(self, handlers: dict[str, Handler], connection: Connection) -> None:
        self._handlers = handlers
        self._connection = connection

    def run(self, desk: _native.ThreadDesk, job: _native.Job) -> Ended | None:
        try:
            # A context of its own, so that nothing that a handler sets is there for the next.
            value = contextvars.Context().run(self._call, desk, job)
            return None if value is None else returned(value, job.kind)
        except BaseException as error:  # also SystemExit: it ends the job, not the worker
            return raised(error, job)

    def _call(self, desk: _native.ThreadDesk, job: _native.Job) -> Any:
        context = Context(job, self._connection, lambda _: desk.reason())
        _current.set(context)
        with fresh_connections():
            return self._handlers[job.kind].call(job, context)
