"""Handlers that are plain functions, and who runs jobs in a thread."""

from __future__ import annotations

import contextvars
import os
from abc import ABC, abstractmethod
from typing import Any

from . import _native
from ._forks import end_in_fork, forks
from ._orm import close_old
from .connection import Connection
from .context import Context, _current
from .handler import AnyHandler, Ended, Handler, raised, returned


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
