"""Handlers that are plain functions: each runs in a thread of its own."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

from . import _native
from .connection import Connection
from .context import Context, _current
from .handler import Handler, raised, returned


class Threads:
    """Threads that take one job after the other."""

    def __init__(self, worker: _native.Worker, handlers: dict[str, Handler], connection: Connection, count: int) -> None:
        self._handlers = handlers
        self._connection = connection
        desks = [worker.thread_desk() for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._work, args=(desk,), name=f"windlass-job-{n}", daemon=True)
            for n, desk in enumerate(desks)
        ]
        for thread in self._threads:
            thread.start()

    def join(self, seconds: float) -> bool:
        """Waits so long for threads whose handlers have not returned yet. Whether all have."""
        for thread in self._threads:
            thread.join(seconds)
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self, desk: _native.ThreadDesk) -> None:
        job = desk.next()
        while job is not None:
            other = self._run(desk, job)
            job = desk.next(job) if other is None else desk.next(None, other)

    def _run(self, desk: _native.ThreadDesk, job: _native.Job) -> _native.Ended | None:
        try:
            # A context of its own, so that nothing that a handler sets is there for the next.
            value = contextvars.Context().run(self._call, desk, job)
            told = returned(value, job.kind)
        except BaseException as error:  # also SystemExit: it ends the job, not the worker
            told = raised(error, job)
        return None if told is None else (job, *told)

    def _call(self, desk: _native.ThreadDesk, job: _native.Job) -> Any:
        context = Context(job, self._connection, lambda _: desk.reason())
        _current.set(context)
        return self._handlers[job.kind].call(job, context)
