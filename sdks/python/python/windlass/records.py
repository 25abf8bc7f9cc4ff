"""What is listed and looked up."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal, TypedDict, TypeVar

from .duration import Duration
from .options import Backoff

JobState = Literal["scheduled", "available", "running", "retryable", "completed", "cancelled", "discarded"]
"""Where a job is in its life."""

_T = TypeVar("_T", bound="_Record")
_FRACTION = re.compile(r"\.(\d{1,6})\d*")


def _time(text: Any) -> Any:
    """A time with its zone; Python 3.10 reads neither Z nor nanoseconds."""
    if not isinstance(text, str):
        return text
    text = _FRACTION.sub(lambda fraction: f".{fraction[1]:0<6}", text)
    return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)


@dataclass(frozen=True)
class _Record:
    @classmethod
    def _read(cls: type[_T], record: dict[str, Any]) -> _T:
        """A record of what the engine tells; fields of newer engines are left out."""
        read = {}
        for known in fields(cls):
            if known.name in record:
                value = record[known.name]
                read[known.name] = _time(value) if known.name.endswith(("_at", "_tick")) or known.name == "at" else value
        return cls(**read)


class Progress(TypedDict):
    """How far a job is."""

    percent: float
    note: str | None


class LogLine(TypedDict):
    """A line of a job's log."""

    at: datetime
    attempt: int
    text: str


class HandlerReport(TypedDict):
    """What the handlers of a job said of it."""

    reported_at: datetime
    attempt: int
    """Which attempt said it last."""
    progress: Progress | None
    checkpoint: Any
    """As it is stored: :meth:`windlass.client.Client.checkpoint` opens one that is encrypted."""
    log: list[LogLine]
    log_dropped: int
    """How many older lines were dropped."""


def _report(said: dict[str, Any] | None) -> Any:
    """With its times."""
    if said is None:
        return None
    log = [{**line, "at": _time(line["at"])} for line in said["log"]]
    return {**said, "reported_at": _time(said["reported_at"]), "log": log}


@dataclass(frozen=True)
class JobRecord(_Record):
    """A job as the store has it."""

    id: int
    state: JobState
    kind: str
    queue: str
    priority: int
    attempt: int
    """Attempts begun so far."""
    max_attempts: int
    args: Any
    enqueued_at: datetime
    crash_count: int = 0
    """How many workers died while they held it."""
    scheduled_at: datetime | None = None
    """When it becomes available, while it waits for that."""
    claimed_at: datetime | None = None
    claimed_by: int | None = None
    """The worker that holds it, or held it last."""
    finished_at: datetime | None = None
    reason: str | None = None
    """Why it was cancelled or discarded."""
    key: str | None = None
    meta: dict[str, Any] | None = None
    tags: list[str] = field(default_factory=list)
    timeout: float | None = None
    """How many seconds an attempt may take, where the job itself says."""
    retry_policy: Backoff | None = None
    """How long its failed attempts wait, where the job itself says."""
    expires_at: datetime | None = None
    cost: int | None = None
    """What a start takes of its queue's rate, where that is more than 1."""
    result: Any = None
    """What its handler returned."""
    errors: list[dict[str, Any]] = field(default_factory=list)
    """Its failed attempts, oldest first: ``attempt``, ``at``, ``error``. Only :meth:`windlass.client.Client.job` has them: empty in lists, and in what ``wait`` gives."""
    report: HandlerReport | None = None
    """What its handlers said: progress, log, checkpoint. Only :meth:`windlass.client.Client.job` has it."""

    @classmethod
    def _read(cls, record: dict[str, Any]) -> JobRecord:
        timeout_ms, policy = record.get("timeout_ms"), record.get("retry_policy")
        timeout = None if timeout_ms is None else timeout_ms / 1000
        said = {"timeout": timeout, "retry_policy": policy and Backoff._read(policy), "report": _report(record.get("report"))}
        return super()._read({**record, **said})


@dataclass(frozen=True)
class JobPage:
    """A page of jobs. It may hold fewer than asked for though more follow."""

    jobs: list[JobRecord]
    next: str | None
    """Where to go on: the ``after`` of the next call; ``None`` when nothing follows."""


@dataclass(frozen=True)
class EnqueuedUnique(_Record):
    """What came of a unique job."""

    id: int
    """The job that has the key now."""
    conflict: Literal["kept", "replaced", "extended"] | None = None
    """``None``: the key was free. Else another had it: it was ``kept``, and this one is not stored; or ``replaced`` by this one; or kept and
    its window ``extended``."""


@dataclass(frozen=True)
class QueueStats(_Record):
    """A queue. Large counts may be estimates: see ``estimates``."""

    name: str
    paused: bool
    available: int
    running: int
    scheduled: int
    retryable: int
    completed: int
    cancelled: int
    discarded: int
    limits: dict[str, Any] = field(default_factory=dict)
    oldest_available_at: datetime | None = None
    """Since when the job that waits longest could have started."""
    estimates: list[str] = field(default_factory=list)
    """The states whose counts are estimates."""
    keyed: bool = False
    """Whether its keys have limits, or had."""
    no_handler: int = 0
    """How many of the available jobs wait for a worker that knows their kind."""
    oldest_no_handler_at: datetime | None = None


@dataclass(frozen=True)
class AuditRecord(_Record):
    """An entry of the audit log: who changed what."""

    id: str
    at: datetime
    actor: str
    via: str
    """How: ``sdk`` for a program, ``cli``, or by what the server knew them."""
    action: str
    target: str
    outcome: str
    """``done``, or the code of the error or of the refusal."""
    role: str | None = None
    filter: Any = None
    reason: str | None = None
    count: int | None = None
    """How many jobs were touched."""
    request_id: str | None = None


@dataclass(frozen=True)
class ScheduleRecord(_Record):
    """A schedule."""

    name: str
    source: str
    """Who declared it."""
    definition: dict[str, Any]
    paused: bool
    next_tick: datetime | None = None
    due_at: datetime | None = None
    """When there is something to do: the next tick, later by the schedule's jitter; ``None`` for never."""
    last_tick: datetime | None = None
    last_job: int | None = None
    last_enqueued_at: datetime | None = None
    """When that was enqueued."""
    last_run: str | None = None
    """What became of its last job: ``unfinished``, a state, or ``forgotten``."""
    queued_tick: datetime | None = None
    """With ``overlap="queue_one"``: a tick that waits for the end of the last job."""
    error: str | None = None
    """Why it never fires."""


@dataclass(frozen=True)
class SchedulesPut(_Record):
    """What became of schedules that were stored."""

    names: list[str]
    """Theirs, in order."""
    replies: list[str]
    """For each ``created``, ``changed`` or ``unchanged``."""
    removed: list[str]
    """The names of those that a ``prune`` removed."""


@dataclass(frozen=True)
class Event(_Record):
    """Something that happened to a job."""

    cursor: str
    """Keep it to go on behind this event."""
    event: str
    """``enqueued``, ``started``, ``completed``, ``failed``, ``retried``, ``snoozed``, ``cancelled``, ``discarded``, ``rescued``, ``returned``, ``deleted``."""
    id: int
    at: datetime
    queue: str
    kind: str
    attempt: int
    worker: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class EventPage:
    """A page of events. It may be empty though more follow, where the filters left all of it out."""

    events: list[Event]
    next: str
    """Where to go on: behind the last event, or later."""
    more: bool
    """Whether there may be more at once."""

    @classmethod
    def _read(cls, page: dict[str, Any]) -> EventPage:
        return cls([Event._read(event) for event in page["events"]], page["next"], page["more"])


class JobEdit(TypedDict, total=False):
    """What to change of jobs."""

    now: bool
    """Available now; or ``delay``, or ``at``."""
    delay: Duration
    at: datetime
    queue: str
    priority: int
    max_attempts: int
    args: Any


@dataclass(frozen=True)
class Touched(_Record):
    """How many jobs a call with a filter touched."""

    selected: int
    done: int
    """Cancelled, retried, edited or deleted; in a dry run, as all here, those that would be."""
    asked: int = 0
    """Running ones whose workers were asked to stop them."""
    encrypted: int = 0
    left: int = 0
    """Those that had moved on."""
    dry_run: bool = False
