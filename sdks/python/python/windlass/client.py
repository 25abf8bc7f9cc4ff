"""Both clients of a store: one to be awaited, one that waits. A test sees to it that they have the same methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from os import PathLike
from typing import Any, TypeVar

from . import calls
from .connection import Acting, Connection
from .duration import Duration
from .events import Events
from .history import History
from .records import AuditRecord, Event, JobEdit, JobPage, JobRecord, JobState, QueueStats, ScheduleRecord, SchedulesPut, Touched
from .retention import RetentionRule
from .schedule import Schedule, put_schedules
from .timings import Failure, Mark, Timed

T = TypeVar("T")
C = TypeVar("C", bound="_Calling")


class _Calling:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def acting_as(self: C, actor: str) -> C:
        """The same client, acting for somebody: what it changes is noted in the audit log, one entry for each call. With nobody named, nothing is."""
        return type(self)(Acting(self._connection, actor))


class Client(_Calling):
    """Looks at jobs, queues and schedules and changes them. To be awaited; :class:`SyncClient` has the same methods for code that waits."""

    async def _send(self, call: calls.Call[T]) -> T:
        return call.read(await self._connection.call(call.op, call.payload))

    async def job(self, id: int) -> JobRecord | None:
        """A job with its errors and what its handlers said of it; ``None`` when there is none."""
        return await self._send(calls.job(id))

    async def jobs(self, *, state: JobState | None = None, queue: str | None = None, kind: str | None = None, tag: str | None = None, error: str | None = None, args: dict[str, Any] | None = None, after: str | None = None, limit: int = 100) -> JobPage:
        """A page of jobs. Go on with ``after=page.next``."""
        return await self._send(calls.jobs(state=state, queue=queue, kind=kind, tag=tag, error=error, args=args, after=after, limit=limit))

    async def wait(self, id: int, timeout: Duration = 60) -> JobRecord | None:
        """Waits until a job ends, and gives it as it is then, without the errors of its attempts and what its handlers said: :meth:`job` has these. ``None`` when it has not ended by then.

        Raises :class:`windlass.errors.NotFound` when there is no such job, or its transaction has not committed yet.
        """
        return await self._send(calls.wait(id, timeout))

    async def result(self, id: int) -> Any:
        """What a job's handler returned; ``None`` when there is nothing."""
        return await self._send(calls.result(id))

    async def args(self, id: int) -> Any:
        """The args of a job, opened with the app's ``keys`` when they are encrypted: :meth:`job` and :meth:`jobs` show these as they are stored. ``None`` when there is no such job."""
        return await self._send(calls.args(id))

    async def checkpoint(self, id: int) -> Any:
        """The last checkpoint of a job; ``None`` when there is none."""
        return await self._send(calls.checkpoint(id))

    async def cancel(self, ids: int | Sequence[int]) -> list[str]:
        """Cancels jobs; running ones are told to stop. For each ``cancelled``, ``running``, ``finished`` or ``not_found``."""
        return await self._send(calls.by_id("cancel", ids))

    async def retry(self, ids: int | Sequence[int]) -> list[str]:
        """Makes dead, cancelled and retryable jobs available now. For each ``retried``, ``pending``, ``completed``, ``key_taken`` or ``not_found``."""
        return await self._send(calls.by_id("retry", ids))

    async def delete(self, ids: int | Sequence[int]) -> list[str]:
        """Removes jobs that wait or are dead. For each ``deleted``, ``running``, ``completed`` or ``not_found``."""
        return await self._send(calls.by_id("delete", ids))

    async def edit(self, ids: int | Sequence[int], **changes: Any) -> list[str]:
        """Changes jobs that do not run: ``delay``, ``at`` or ``now=True``, ``queue``, ``priority``, ``max_attempts``, ``args``. For each ``edited``, ``running``, ``finished``, ``encrypted``, ``expires`` (before it would be due), ``attempts_used`` (it would have none left) or ``not_found``."""
        return await self._send(calls.by_id("edit", ids, edit=calls.edit_of(changes)))

    async def cancel_where(self, *, ids: Iterable[int] | None = None, state: JobState | None = None, queue: str | None = None, kind: str | None = None, tag: str | None = None, error: str | None = None, args: dict[str, Any] | None = None, everything: bool = False, dry_run: bool = False, at_most: int | None = None, per_second: float | None = None) -> Touched:
        """Cancels all jobs that a filter selects, or those with these ``ids``; those of the whole store only with ``everything=True``. With ``dry_run`` nothing is changed, and you see what would be; ``at_most`` so many are touched, and of these ``per_second`` at most.

        Raises :class:`windlass.errors.InvalidOption` for a filter that selects every job, for one of jobs to which it cannot be done, and for a pace that is none.
        """
        return await self._send(calls.select("cancel", {"ids": ids, "state": state, "queue": queue, "kind": kind, "tag": tag, "error": error, "args": args}, everything=everything, dry_run=dry_run, at_most=at_most, per_second=per_second))

    async def retry_where(self, *, ids: Iterable[int] | None = None, state: JobState | None = None, queue: str | None = None, kind: str | None = None, tag: str | None = None, error: str | None = None, args: dict[str, Any] | None = None, everything: bool = False, dry_run: bool = False, at_most: int | None = None, per_second: float | None = None) -> Touched:
        """Retries all jobs that a filter selects. Takes and raises the same as :meth:`cancel_where`."""
        return await self._send(calls.select("retry", {"ids": ids, "state": state, "queue": queue, "kind": kind, "tag": tag, "error": error, "args": args}, everything=everything, dry_run=dry_run, at_most=at_most, per_second=per_second))

    async def delete_where(self, *, ids: Iterable[int] | None = None, state: JobState | None = None, queue: str | None = None, kind: str | None = None, tag: str | None = None, error: str | None = None, args: dict[str, Any] | None = None, everything: bool = False, dry_run: bool = False, at_most: int | None = None, per_second: float | None = None) -> Touched:
        """Removes all jobs that a filter selects. Takes and raises the same as :meth:`cancel_where`."""
        return await self._send(calls.select("delete", {"ids": ids, "state": state, "queue": queue, "kind": kind, "tag": tag, "error": error, "args": args}, everything=everything, dry_run=dry_run, at_most=at_most, per_second=per_second))

    async def edit_where(self, changes: JobEdit, *, ids: Iterable[int] | None = None, state: JobState | None = None, queue: str | None = None, kind: str | None = None, tag: str | None = None, error: str | None = None, args: dict[str, Any] | None = None, everything: bool = False, dry_run: bool = False, at_most: int | None = None, per_second: float | None = None) -> Touched:
        """Changes all jobs that a filter selects, those that wait; dead and cancelled ones where ``state`` names them and the changes say no time. Takes and raises the same as :meth:`cancel_where`."""
        return await self._send(calls.select("edit", {"ids": ids, "state": state, "queue": queue, "kind": kind, "tag": tag, "error": error, "args": args}, edit=calls.edit_of(changes), everything=everything, dry_run=dry_run, at_most=at_most, per_second=per_second))

    async def any_available(self, queues: Iterable[str], *, kinds: Iterable[str] | None = None) -> bool:
        """Whether a worker of these queues, which knows these kinds (default: all), would be given a job now, if only to find that it does not know its kind. Cheap."""
        return await self._send(calls.any_available(queues, kinds))

    async def pause(self, queue: str) -> None:
        """Stops the claiming of a queue's jobs. Running ones go on."""
        return await self._send(calls.of_queue("pause", queue))

    async def resume(self, queue: str) -> None:
        """Lets a queue go on."""
        return await self._send(calls.of_queue("resume", queue))

    async def drain_worker(self, worker: int) -> None:
        """Asks a worker to take no more jobs, end what it runs, and go: its `run` returns. `status()` names the workers."""
        return await self._send(calls.drain_worker(worker))

    async def queues(self, *, search: str | None = None, after: str | None = None, limit: int | None = None) -> list[QueueStats]:
        """All queues with what waits and runs in them, by name; or those with ``search`` in their name, ``after`` a name, ``limit`` at most."""
        return await self._send(calls.queues(search, after, limit))

    async def queue(self, name: str) -> QueueStats | None:
        """One queue with what waits and runs in it."""
        return await self._send(calls.queue(name))

    async def limit(self, queue: str, *, concurrency: int | None = None, rate: int | None = None, period: Duration | None = None, burst: int | None = None) -> None:
        """Limits how many of a queue's jobs run at once, and how many start in each ``period``, over all workers. Without limits: takes them away."""
        return await self._send(calls.of_queue("limit", queue, limits=calls.limits(concurrency, rate, period, burst)))

    async def limit_keys(self, queue: str, *, concurrency: int | None = None, serial: bool = False, weight: int = 1, rate: int | None = None, period: Duration | None = None) -> None:
        """Limits each key of a queue that has no limit of its own, and shares the queue fairly between its keys. ``rate``: so many start in each period, each counted until a period after its end."""
        return await self._send(calls.of_queue("limit_keys", queue, limit=calls.key_limit(concurrency, serial, weight, rate, period)))

    async def limit_key(self, queue: str, key: str, *, concurrency: int | None = None, serial: bool = False, weight: int = 1, rate: int | None = None, period: Duration | None = None) -> None:
        """Limits one key of a queue."""
        return await self._send(calls.of_queue("limit_key", queue, key=key, limit=calls.key_limit(concurrency, serial, weight, rate, period)))

    async def unlimit_key(self, queue: str, key: str) -> None:
        """Takes a key's own limit away."""
        return await self._send(calls.of_queue("unlimit_key", queue, key=key))

    async def unlimit_keys(self, queue: str) -> None:
        """Takes all limits of a queue's keys away."""
        return await self._send(calls.of_queue("unlimit_keys", queue))

    async def key_limits(self, queue: str) -> dict[str, Any] | None:
        """The limits of a queue's keys; ``None`` when they have none."""
        return await self._send(calls.key_limits(queue))

    async def schedules(self, *, source: str | None = None, after: str | None = None, limit: int = 100) -> list[ScheduleRecord]:
        """A page of schedules by name. Go on with ``after=`` the last one's name."""
        return await self._send(calls.schedules(source, after, limit))

    async def schedule(self, name: str) -> ScheduleRecord | None:
        """A schedule by its name."""
        return await self._send(calls.schedule(name))

    async def put_schedules(self, schedules: Iterable[Schedule], *, source: str = "", prune: bool = False) -> SchedulesPut:
        """Stores schedules that only the running program knows, all or none, beside those that the app declares: :class:`windlass.Schedule`. Those of a ``source`` belong together; with ``prune`` what else is of that source is removed.

        Raises :class:`windlass.errors.InvalidOption` for a schedule that cannot be, and for ``prune`` without a source.
        """
        return await self._send(put_schedules(schedules, source, prune))

    async def put_schedule_file(self, file: str | PathLike[str], *, prune: bool = False) -> SchedulesPut:
        """Stores the schedules of a TOML file, all or none: those that ``windlass schedules apply`` takes, with the ``source`` that the file names. With ``prune`` what else is of that source is removed.

        Raises :class:`windlass.errors.InvalidOption` for a file that cannot be read, with the line that is wrong, and for ``prune`` where the file names no source.
        """
        return await self._send(calls.put_schedule_file(file, prune))

    async def pause_schedule(self, name: str) -> None:
        """Stops a schedule until it is resumed."""
        return await self._send(calls.of_schedule("pause_schedule", name))

    async def resume_schedule(self, name: str) -> None:
        """Lets a schedule go on with its next tick from now on."""
        return await self._send(calls.of_schedule("resume_schedule", name))

    async def remove_schedule(self, name: str) -> None:
        """Removes a schedule. Jobs that it enqueued stay."""
        return await self._send(calls.of_schedule("remove_schedule", name))

    async def run_schedule(self, name: str) -> int:
        """Enqueues the job of a schedule now, beside its ticks, and gives the job's id.

        Raises :class:`windlass.errors.NotFound` when there is no such schedule.
        """
        return await self._send(calls.run_schedule(name))

    async def preview_schedule(self, schedule: Schedule, *, after: datetime | None = None, count: int = 5) -> list[datetime]:
        """The next ticks of a schedule, which need not be stored: what ``app.schedule`` gave, or a :class:`windlass.Schedule`.

        Raises :class:`windlass.errors.InvalidOption` for an expression or a zone that is none.
        """
        return await self._send(calls.preview(schedule._spec(), after, count))

    async def events(self, *, after: str | None = None, queues: Sequence[str] = (), kinds: Sequence[str] = (), events: Sequence[str] = (), limit: int = 1000) -> tuple[list[Event], str]:
        """A page of what happened to jobs, in the order of commits, and the cursor to go on ``after``: that one, ``"start"`` or ``"now"``. :meth:`follow_events` reads page after page.

        Raises :class:`windlass.errors.EventsExpired` when events behind the cursor were removed, or it is of another store.
        """
        page = await self._send(calls.events(after, **calls.event_filter(queues, kinds, events, limit)))
        return page.events, page.next

    def follow_events(self, *, after: str | None = None, queues: Sequence[str] = (), kinds: Sequence[str] = (), events: Sequence[str] = (), limit: int = 1000) -> Events:
        """All that happened to jobs behind the cursor ``after`` (``"start"`` by default, or ``"now"``) and all that will: :class:`windlass.Events`. ``limit``: how many are asked for at a time."""
        return Events(self._connection, after, **calls.event_filter(queues, kinds, events, limit))

    async def history(self, last: Duration, *, step: Duration | None = None, queue: str | None = None, kind: str | None = None, outcome: str | None = None) -> History:
        """How many jobs ended how in the ``last`` time, up to 30 days, by time, queue and kind. A ``step`` is of whole minutes, by default one.

        Raises :class:`windlass.errors.InvalidOption` for other times, and for more than 100,000 counts.
        """
        return await self._send(calls.history(last, step, queue=queue, kind=kind, outcome=outcome))

    async def timings(self, last: Duration, *, step: Duration | None = None, queue: str | None = None, kind: str | None = None) -> list[Timed]:
        """How long jobs waited and ran in the ``last`` time, up to 30 days, by time, queue and kind, as the workers measured it. A ``step`` is of whole minutes, by default one."""
        return await self._send(calls.timings(last, step, queue=queue, kind=kind))

    async def failures(self, last: Duration, *, queue: str | None = None, kind: str | None = None) -> list[Failure]:
        """Why attempts failed in the ``last`` time, by cause, the most frequent first."""
        return await self._send(calls.failures(last, queue=queue, kind=kind))

    async def mark(self, label: str, actor: str) -> None:
        """Marks this moment, as a deploy does: the dashboard draws it into its charts."""
        return await self._send(calls.mark(label, actor))

    async def marks(self, last: Duration) -> list[Mark]:
        """The marks of the ``last`` time, the newest first."""
        return await self._send(calls.marks(last))

    async def audit(self, *, actor: str | None = None, action: str | None = None, target: str | None = None, since: datetime | None = None, before: str | None = None, limit: int = 100) -> tuple[list[AuditRecord], str | None]:
        """A page of the audit log, the newest entries first, and where the next one goes on ``before``; None when there is none."""
        return await self._send(calls.audit(actor=actor, action=action, target=target, since=since, before=before, limit=limit))

    async def append_audit(self, actor: str, action: str, target: str, *, count: int | None = None, reason: str | None = None, filter: Any = None, outcome: str | None = None) -> None:
        """Notes in the audit log what this program did for somebody, after it was done: calls of a client that does not :meth:`act for somebody <acting_as>` are not in it by themselves."""
        return await self._send(calls.append_audit(actor=actor, action=action, target=target, count=count, reason=reason, filter=filter, outcome=outcome))

    async def settings(self) -> dict[str, Any]:
        """The policy of the store: ``retention_ms``, ``dead_retention_ms``, ``audit_retention_ms``, ``segment_bytes``, ``max_crashes``."""
        return await self._send(calls.settings())

    async def configure(self, *, retention: Duration | None = None, dead_retention: Duration | None = None, audit_retention: Duration | None = None, segment_bytes: int | None = None, max_crashes: int | None = None) -> None:
        """Changes the policy of the store, for all workers on it; what is left out stays."""
        return await self._send(calls.configure(retention, dead_retention, audit_retention, segment_bytes, max_crashes))

    async def retention(self) -> list[RetentionRule]:
        """What is kept of single queues and outcomes."""
        return await self._send(calls.retention())

    async def set_retention(self, rules: Iterable[RetentionRule]) -> None:
        """Sets what is kept, by queue and outcome; a rule without age and count goes."""
        return await self._send(calls.set_retention(rules))

    async def status(self) -> dict[str, Any]:
        """The store and its workers."""
        return await self._send(calls.status())

    async def migrate(self) -> tuple[int, int]:
        """Creates or upgrades the store's schema; gives the versions before and after."""
        return await self._send(calls.migrate())


class SyncClient(_Calling):
    """The same as :class:`Client`, for code without an event loop."""

    def _send(self, call: calls.Call[T]) -> T:
        return call.read(self._connection.call_sync(call.op, call.payload))

    def job(self, id: int) -> JobRecord | None:
        """A job with its errors and what its handlers said of it; ``None`` when there is none."""
        return self._send(calls.job(id))

    def jobs(self, *, state: JobState | None = None, queue: str | None = None, kind: str | None = None, tag: str | None = None, error: str | None = None, args: dict[str, Any] | None = None, after: str | None = None, limit: int = 100) -> JobPage:
        """A page of jobs. Go on with ``after=page.next``."""
        return self._send(calls.jobs(state=state, queue=queue, kind=kind, tag=tag, error=error, args=args, after=after, limit=limit))

    def wait(self, id: int, timeout: Duration = 60) -> JobRecord | None:
        """Waits until a job ends, and gives it as it is then, without the errors of its attempts and what its handlers said: :meth:`job` has these. ``None`` when it has not ended by then.

        Raises :class:`windlass.errors.NotFound` when there is no such job, or its transaction has not committed yet.
        """
        return self._send(calls.wait(id, timeout))

    def result(self, id: int) -> Any:
        """What a job's handler returned; ``None`` when there is nothing."""
        return self._send(calls.result(id))

    def args(self, id: int) -> Any:
        """The args of a job, opened with the app's ``keys`` when they are encrypted: :meth:`job` and :meth:`jobs` show these as they are stored. ``None`` when there is no such job."""
        return self._send(calls.args(id))

    def checkpoint(self, id: int) -> Any:
        """The last checkpoint of a job; ``None`` when there is none."""
        return self._send(calls.checkpoint(id))

    def cancel(self, ids: int | Sequence[int]) -> list[str]:
        """Cancels jobs; running ones are told to stop. For each ``cancelled``, ``running``, ``finished`` or ``not_found``."""
        return self._send(calls.by_id("cancel", ids))

    def retry(self, ids: int | Sequence[int]) -> list[str]:
        """Makes dead, cancelled and retryable jobs available now. For each ``retried``, ``pending``, ``completed``, ``key_taken`` or ``not_found``."""
        return self._send(calls.by_id("retry", ids))

    def delete(self, ids: int | Sequence[int]) -> list[str]:
        """Removes jobs that wait or are dead. For each ``deleted``, ``running``, ``completed`` or ``not_found``."""
        return self._send(calls.by_id("delete", ids))

    def edit(self, ids: int | Sequence[int], **changes: Any) -> list[str]:
        """Changes jobs that do not run: ``delay``, ``at`` or ``now=True``, ``queue``, ``priority``, ``max_attempts``, ``args``. For each ``edited``, ``running``, ``finished``, ``encrypted``, ``expires`` (before it would be due), ``attempts_used`` (it would have none left) or ``not_found``."""
        return self._send(calls.by_id("edit", ids, edit=calls.edit_of(changes)))

    def cancel_where(self, *, ids: Iterable[int] | None = None, state: JobState | None = None, queue: str | None = None, kind: str | None = None, tag: str | None = None, error: str | None = None, args: dict[str, Any] | None = None, everything: bool = False, dry_run: bool = False, at_most: int | None = None, per_second: float | None = None) -> Touched:
        """Cancels all jobs that a filter selects, or those with these ``ids``; those of the whole store only with ``everything=True``. With ``dry_run`` nothing is changed, and you see what would be; ``at_most`` so many are touched, and of these ``per_second`` at most.

        Raises :class:`windlass.errors.InvalidOption` for a filter that selects every job, for one of jobs to which it cannot be done, and for a pace that is none.
        """
        return self._send(calls.select("cancel", {"ids": ids, "state": state, "queue": queue, "kind": kind, "tag": tag, "error": error, "args": args}, everything=everything, dry_run=dry_run, at_most=at_most, per_second=per_second))

    def retry_where(self, *, ids: Iterable[int] | None = None, state: JobState | None = None, queue: str | None = None, kind: str | None = None, tag: str | None = None, error: str | None = None, args: dict[str, Any] | None = None, everything: bool = False, dry_run: bool = False, at_most: int | None = None, per_second: float | None = None) -> Touched:
        """Retries all jobs that a filter selects. Takes and raises the same as :meth:`cancel_where`."""
        return self._send(calls.select("retry", {"ids": ids, "state": state, "queue": queue, "kind": kind, "tag": tag, "error": error, "args": args}, everything=everything, dry_run=dry_run, at_most=at_most, per_second=per_second))

    def delete_where(self, *, ids: Iterable[int] | None = None, state: JobState | None = None, queue: str | None = None, kind: str | None = None, tag: str | None = None, error: str | None = None, args: dict[str, Any] | None = None, everything: bool = False, dry_run: bool = False, at_most: int | None = None, per_second: float | None = None) -> Touched:
        """Removes all jobs that a filter selects. Takes and raises the same as :meth:`cancel_where`."""
        return self._send(calls.select("delete", {"ids": ids, "state": state, "queue": queue, "kind": kind, "tag": tag, "error": error, "args": args}, everything=everything, dry_run=dry_run, at_most=at_most, per_second=per_second))

    def edit_where(self, changes: JobEdit, *, ids: Iterable[int] | None = None, state: JobState | None = None, queue: str | None = None, kind: str | None = None, tag: str | None = None, error: str | None = None, args: dict[str, Any] | None = None, everything: bool = False, dry_run: bool = False, at_most: int | None = None, per_second: float | None = None) -> Touched:
        """Changes all jobs that a filter selects, those that wait; dead and cancelled ones where ``state`` names them and the changes say no time. Takes and raises the same as :meth:`cancel_where`."""
        return self._send(calls.select("edit", {"ids": ids, "state": state, "queue": queue, "kind": kind, "tag": tag, "error": error, "args": args}, edit=calls.edit_of(changes), everything=everything, dry_run=dry_run, at_most=at_most, per_second=per_second))

    def any_available(self, queues: Iterable[str], *, kinds: Iterable[str] | None = None) -> bool:
        """Whether a worker of these queues, which knows these kinds (default: all), would be given a job now, if only to find that it does not know its kind. Cheap."""
        return self._send(calls.any_available(queues, kinds))

    def pause(self, queue: str) -> None:
        """Stops the claiming of a queue's jobs. Running ones go on."""
        return self._send(calls.of_queue("pause", queue))

    def resume(self, queue: str) -> None:
        """Lets a queue go on."""
        return self._send(calls.of_queue("resume", queue))

    def drain_worker(self, worker: int) -> None:
        """Asks a worker to take no more jobs, end what it runs, and go: its `run` returns. `status()` names the workers."""
        return self._send(calls.drain_worker(worker))

    def queues(self, *, search: str | None = None, after: str | None = None, limit: int | None = None) -> list[QueueStats]:
        """All queues with what waits and runs in them, by name; or those with ``search`` in their name, ``after`` a name, ``limit`` at most."""
        return self._send(calls.queues(search, after, limit))

    def queue(self, name: str) -> QueueStats | None:
        """One queue with what waits and runs in it."""
        return self._send(calls.queue(name))

    def limit(self, queue: str, *, concurrency: int | None = None, rate: int | None = None, period: Duration | None = None, burst: int | None = None) -> None:
        """Limits how many of a queue's jobs run at once, and how many start in each ``period``, over all workers. Without limits: takes them away."""
        return self._send(calls.of_queue("limit", queue, limits=calls.limits(concurrency, rate, period, burst)))

    def limit_keys(self, queue: str, *, concurrency: int | None = None, serial: bool = False, weight: int = 1, rate: int | None = None, period: Duration | None = None) -> None:
        """Limits each key of a queue that has no limit of its own, and shares the queue fairly between its keys. ``rate``: so many start in each period, each counted until a period after its end."""
        return self._send(calls.of_queue("limit_keys", queue, limit=calls.key_limit(concurrency, serial, weight, rate, period)))

    def limit_key(self, queue: str, key: str, *, concurrency: int | None = None, serial: bool = False, weight: int = 1, rate: int | None = None, period: Duration | None = None) -> None:
        """Limits one key of a queue."""
        return self._send(calls.of_queue("limit_key", queue, key=key, limit=calls.key_limit(concurrency, serial, weight, rate, period)))

    def unlimit_key(self, queue: str, key: str) -> None:
        """Takes a key's own limit away."""
        return self._send(calls.of_queue("unlimit_key", queue, key=key))

    def unlimit_keys(self, queue: str) -> None:
        """Takes all limits of a queue's keys away."""
        return self._send(calls.of_queue("unlimit_keys", queue))

    def key_limits(self, queue: str) -> dict[str, Any] | None:
        """The limits of a queue's keys; ``None`` when they have none."""
        return self._send(calls.key_limits(queue))

    def schedules(self, *, source: str | None = None, after: str | None = None, limit: int = 100) -> list[ScheduleRecord]:
        """A page of schedules by name. Go on with ``after=`` the last one's name."""
        return self._send(calls.schedules(source, after, limit))

    def schedule(self, name: str) -> ScheduleRecord | None:
        """A schedule by its name."""
        return self._send(calls.schedule(name))

    def put_schedules(self, schedules: Iterable[Schedule], *, source: str = "", prune: bool = False) -> SchedulesPut:
        """Stores schedules that only the running program knows, all or none, beside those that the app declares: :class:`windlass.Schedule`. Those of a ``source`` belong together; with ``prune`` what else is of that source is removed.

        Raises :class:`windlass.errors.InvalidOption` for a schedule that cannot be, and for ``prune`` without a source.
        """
        return self._send(put_schedules(schedules, source, prune))

    def put_schedule_file(self, file: str | PathLike[str], *, prune: bool = False) -> SchedulesPut:
        """Stores the schedules of a TOML file, all or none: those that ``windlass schedules apply`` takes, with the ``source`` that the file names. With ``prune`` what else is of that source is removed.

        Raises :class:`windlass.errors.InvalidOption` for a file that cannot be read, with the line that is wrong, and for ``prune`` where the file names no source.
        """
        return self._send(calls.put_schedule_file(file, prune))

    def pause_schedule(self, name: str) -> None:
        """Stops a schedule until it is resumed."""
        return self._send(calls.of_schedule("pause_schedule", name))

    def resume_schedule(self, name: str) -> None:
        """Lets a schedule go on with its next tick from now on."""
        return self._send(calls.of_schedule("resume_schedule", name))

    def remove_schedule(self, name: str) -> None:
        """Removes a schedule. Jobs that it enqueued stay."""
        return self._send(calls.of_schedule("remove_schedule", name))

    def run_schedule(self, name: str) -> int:
        """Enqueues the job of a schedule now, beside its ticks, and gives the job's id.

        Raises :class:`windlass.errors.NotFound` when there is no such schedule.
        """
        return self._send(calls.run_schedule(name))

    def preview_schedule(self, schedule: Schedule, *, after: datetime | None = None, count: int = 5) -> list[datetime]:
        """The next ticks of a schedule, which need not be stored: what ``app.schedule`` gave, or a :class:`windlass.Schedule`.

        Raises :class:`windlass.errors.InvalidOption` for an expression or a zone that is none.
        """
        return self._send(calls.preview(schedule._spec(), after, count))

    def events(self, *, after: str | None = None, queues: Sequence[str] = (), kinds: Sequence[str] = (), events: Sequence[str] = (), limit: int = 1000) -> tuple[list[Event], str]:
        """A page of what happened to jobs, in the order of commits, and the cursor to go on ``after``: that one, ``"start"`` or ``"now"``. :meth:`follow_events` reads page after page.

        Raises :class:`windlass.errors.EventsExpired` when events behind the cursor were removed, or it is of another store.
        """
        page = self._send(calls.events(after, **calls.event_filter(queues, kinds, events, limit)))
        return page.events, page.next

    def follow_events(self, *, after: str | None = None, queues: Sequence[str] = (), kinds: Sequence[str] = (), events: Sequence[str] = (), limit: int = 1000) -> Events:
        """All that happened to jobs behind the cursor ``after`` (``"start"`` by default, or ``"now"``) and all that will: :class:`windlass.Events`. ``limit``: how many are asked for at a time."""
        return Events(self._connection, after, **calls.event_filter(queues, kinds, events, limit))

    def history(self, last: Duration, *, step: Duration | None = None, queue: str | None = None, kind: str | None = None, outcome: str | None = None) -> History:
        """How many jobs ended how in the ``last`` time, up to 30 days, by time, queue and kind. A ``step`` is of whole minutes, by default one.

        Raises :class:`windlass.errors.InvalidOption` for other times, and for more than 100,000 counts.
        """
        return self._send(calls.history(last, step, queue=queue, kind=kind, outcome=outcome))

    def timings(self, last: Duration, *, step: Duration | None = None, queue: str | None = None, kind: str | None = None) -> list[Timed]:
        """How long jobs waited and ran in the ``last`` time, up to 30 days, by time, queue and kind, as the workers measured it. A ``step`` is of whole minutes, by default one."""
        return self._send(calls.timings(last, step, queue=queue, kind=kind))

    def failures(self, last: Duration, *, queue: str | None = None, kind: str | None = None) -> list[Failure]:
        """Why attempts failed in the ``last`` time, by cause, the most frequent first."""
        return self._send(calls.failures(last, queue=queue, kind=kind))

    def mark(self, label: str, actor: str) -> None:
        """Marks this moment, as a deploy does: the dashboard draws it into its charts."""
        return self._send(calls.mark(label, actor))

    def marks(self, last: Duration) -> list[Mark]:
        """The marks of the ``last`` time, the newest first."""
        return self._send(calls.marks(last))

    def audit(self, *, actor: str | None = None, action: str | None = None, target: str | None = None, since: datetime | None = None, before: str | None = None, limit: int = 100) -> tuple[list[AuditRecord], str | None]:
        """A page of the audit log, the newest entries first, and where the next one goes on ``before``; None when there is none."""
        return self._send(calls.audit(actor=actor, action=action, target=target, since=since, before=before, limit=limit))

    def append_audit(self, actor: str, action: str, target: str, *, count: int | None = None, reason: str | None = None, filter: Any = None, outcome: str | None = None) -> None:
        """Notes in the audit log what this program did for somebody, after it was done: calls of a client that does not :meth:`act for somebody <acting_as>` are not in it by themselves."""
        return self._send(calls.append_audit(actor=actor, action=action, target=target, count=count, reason=reason, filter=filter, outcome=outcome))

    def settings(self) -> dict[str, Any]:
        """The policy of the store: ``retention_ms``, ``dead_retention_ms``, ``audit_retention_ms``, ``segment_bytes``, ``max_crashes``."""
        return self._send(calls.settings())

    def configure(self, *, retention: Duration | None = None, dead_retention: Duration | None = None, audit_retention: Duration | None = None, segment_bytes: int | None = None, max_crashes: int | None = None) -> None:
        """Changes the policy of the store, for all workers on it; what is left out stays."""
        return self._send(calls.configure(retention, dead_retention, audit_retention, segment_bytes, max_crashes))

    def retention(self) -> list[RetentionRule]:
        """What is kept of single queues and outcomes."""
        return self._send(calls.retention())

    def set_retention(self, rules: Iterable[RetentionRule]) -> None:
        """Sets what is kept, by queue and outcome; a rule without age and count goes."""
        return self._send(calls.set_retention(rules))

    def status(self) -> dict[str, Any]:
        """The store and its workers."""
        return self._send(calls.status())

    def migrate(self) -> tuple[int, int]:
        """Creates or upgrades the store's schema; gives the versions before and after."""
        return self._send(calls.migrate())
