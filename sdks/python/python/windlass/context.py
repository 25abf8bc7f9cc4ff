"""What a handler knows of its job, and how it speaks of it."""

from __future__ import annotations

import json
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from . import _native, drivers
from .args import encode
from .connection import Connection, mailbox
from .errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable

_current: ContextVar[Context] = ContextVar("windlass_context")


class Context:
    """One attempt of a job. A handler whose first parameter is a ``Context`` gets it; :meth:`current` gives it anywhere below."""

    __slots__ = ("_connection", "_job", "_reason_of")

    def __init__(self, job: _native.Job, connection: Connection, reason_of: Callable[[_native.Job], str | None]) -> None:
        self._job = job
        self._connection = connection
        self._reason_of = reason_of

    @staticmethod
    def current() -> Context:
        """That of the job which this code is run for."""
        context = _current.get(None)
        if context is None:
            raise InvalidOption("no job is run here: Context.current() works inside a handler")
        return context

    @property
    def id(self) -> int:
        """The job's number in the store."""
        return self._job.id

    @property
    def kind(self) -> str:
        """The job's name in the store."""
        return self._job.kind

    @property
    def queue(self) -> str:
        """The queue that it came from."""
        return self._job.queue

    @property
    def priority(self) -> int:
        """Lower runs first."""
        return self._job.priority

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._job.attempt

    @property
    def max_attempts(self) -> int:
        """How often it is tried at most."""
        return self._job.max_attempts

    @property
    def is_last_attempt(self) -> bool:
        """Whether the job is discarded when this attempt fails."""
        return self._job.attempt >= self._job.max_attempts

    @property
    def crash_count(self) -> int:
        """How many workers died while they held the job."""
        return self._job.crash_count

    @property
    def enqueued_at(self) -> datetime:
        """When it was stored, by the store's clock."""
        return datetime.fromtimestamp(self._job.enqueued_at_ms / 1000, timezone.utc)

    @property
    def expires_at(self) -> datetime | None:
        """From when on it would not have been started any more, by the store's clock, if it says so."""
        at = self._job.expires_at_ms
        return None if at is None else datetime.fromtimestamp(at / 1000, timezone.utc)

    @property
    def key(self) -> str | None:
        """Whom or what the job is about, where it says so."""
        return self._job.key

    @property
    def tags(self) -> list[str]:
        """What it can be found by."""
        return self._job.tags

    @property
    def meta(self) -> dict[str, Any] | None:
        """The small object that came with it, for the handler and for people."""
        meta: dict[str, Any] | None = self._job.meta
        return meta

    @property
    def args_json(self) -> str:
        """The args as they are stored, while the job runs."""
        return self._job.args_json

    @property
    def cancelled(self) -> str | None:
        """Why the job should stop: ``cancelled``, ``timeout``, ``shutdown`` or ``lost``; ``None`` when it need not.

        An async handler is stopped by ``asyncio.CancelledError``; one in a thread looks here from time to time.
        """
        return self._reason_of(self._job)

    def progress(self, percent: float, note: str | None = None) -> None:
        """Says how far the job is, 0 to 100. Costs nothing until it is sent, at most twice a second.

        Raises :class:`windlass.errors.InvalidOption` for what is no percentage.
        """
        self._job.progress(percent, note)

    def log(self, line: str) -> None:
        """Adds a line to the job's log, which the command line and the dashboard show."""
        self._job.log(line)

    async def checkpoint(self, value: Any) -> None:
        """Keeps a value for the next attempt, in place of the one before. When this returns the store has it."""
        native, text = self._connection.native(), encode(value)
        await mailbox().call(lambda port, call: native.start_checkpoint(port, call, self._job, text))

    def checkpoint_sync(self, value: Any) -> None:
        """The same in a thread."""
        self._connection.native().run_checkpoint(self._job, encode(value))

    async def last_checkpoint(self) -> Any:
        """What this attempt or an earlier one kept last; ``None`` when there is nothing."""
        native = self._connection.native()
        return json.loads(await mailbox().call(lambda port, call: native.start_checkpoint(port, call, self._job)))

    def last_checkpoint_sync(self) -> Any:
        """The same in a thread."""
        return json.loads(self._connection.native().run_checkpoint(self._job))

    async def complete_in(self, connection: Any) -> None:
        """Completes the job inside the transaction of your own connection to PostgreSQL: its effects and its completion commit together,
        exactly once. Call it last, commit, and return. The transaction must be READ COMMITTED.

        Raises :class:`LeaseLost` when the job was taken from this worker: let the transaction roll back; :class:`windlass.errors.InvalidOption` where no
        transaction is open.
        """
        await drivers.complete(connection, self._complete_sql())

    def complete_in_sync(self, connection: Any) -> None:
        """The same through a connection that is not awaited."""
        drivers.complete_sync(connection, self._complete_sql())

    def _complete_sql(self) -> drivers.Statement:
        statement: drivers.Statement = json.loads(self._connection.native().complete_sql(self._job))
        return statement

    def __repr__(self) -> str:
        return f"Context(id={self.id}, kind={self.kind!r}, attempt={self.attempt})"
