"""Every call of a client as data: the operation, what it takes, and how its answer is read. Both clients stand on these."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from os import PathLike, fspath
from typing import Any, Callable, Generic, TypeVar

from .args import encode
from .duration import Duration, millis
from .errors import InvalidOption
from .history import History
from .options import instant
from .records import AuditRecord, EnqueuedUnique, EventPage, JobPage, JobRecord, QueueStats, ScheduleRecord, SchedulesPut, Touched
from .retention import RetentionRule
from .timings import Failure, Mark, Timed

T = TypeVar("T")


@dataclass
class Call(Generic[T]):
    """One call."""

    op: str
    payload: str
    read: Callable[[Any], T]


def _given(**fields: Any) -> str:
    return encode({name: value for name, value in fields.items() if value is not None})


def _nothing(_: Any) -> None:
    return None


def _job(record: Any) -> JobRecord | None:
    return None if record is None else JobRecord._read(record)


def job(id: int) -> Call[JobRecord | None]:
    return Call("job", _given(id=id), _job)


def wait(id: int, timeout: Duration) -> Call[JobRecord | None]:
    return Call("wait", _given(id=id, timeout_ms=millis(timeout, "timeout")), _job)


def names(option: str, given: Iterable[str]) -> list[str]:
    """The names that an option lists."""
    if isinstance(given, str):  # which would be as many names as it has letters
        raise InvalidOption(f"{option} must be a list of names, as in [{given!r}], got {given!r}")
    return list(given)


def any_available(queues: Iterable[str], kinds: Iterable[str] | None) -> Call[bool]:
    return Call("any_available", _given(queues=names("queues", queues), kinds=None if kinds is None else names("kinds", kinds)), bool)


def result(id: int) -> Call[Any]:
    return Call("result", _given(id=id), lambda value: value)


def args(id: int) -> Call[Any]:
    return Call("args", _given(id=id), lambda value: value)


def settings() -> Call[dict[str, Any]]:
    return Call("settings", "{}", dict)


def configure(
    retention: Duration | None, dead_retention: Duration | None, audit_retention: Duration | None, segment_bytes: int | None, max_crashes: int | None
) -> Call[None]:
    times = {"retention": retention, "dead_retention": dead_retention, "audit_retention": audit_retention}
    spans = {f"{name}_ms": millis(time, name) for name, time in times.items() if time is not None}
    return Call("configure", _given(**spans, segment_bytes=segment_bytes, max_crashes=max_crashes), _nothing)


def retention() -> Call[list[RetentionRule]]:
    return Call("retention", "{}", lambda rules: [RetentionRule._read(rule) for rule in rules])


def set_retention(rules: Iterable[RetentionRule]) -> Call[None]:
    return Call("set_retention", _given(rules=[rule._spec() for rule in rules]), _nothing)


def checkpoint(id: int) -> Call[Any]:
    return Call("checkpoint", _given(id=id), lambda value: value)


def jobs(**filter: Any) -> Call[JobPage]:
    return Call(
        "jobs", _given(**filter), lambda page: JobPage([JobRecord._read(job) for job in page["jobs"]], page["next"])
    )


def by_id(op: str, ids: int | Sequence[int], **more: Any) -> Call[list[str]]:
    return Call(op, _given(ids=_ids(op, ids), **more), lambda answer: list(answer["replies"]))


def _ids(op: str, ids: Any) -> list[int]:
    if isinstance(ids, Mapping):  # whose keys would be taken for ids
        raise InvalidOption(f"{op} takes the id of a job, or a list of ids, got {ids!r}; what is to be found is for {op}_where, as in {op}_where(kind='mail.send')")
    if isinstance(ids, (str, bytes)) or not isinstance(ids, (int, Iterable)):
        raise InvalidOption(f"{op} takes the id of a job, or a list of ids, got {ids!r}")
    return [ids] if isinstance(ids, int) else list(ids)


def select(op: str, filter: dict[str, Any], **more: Any) -> Call[Touched]:
    said = {name: value for name, value in filter.items() if value is not None}
    if "ids" in said:
        said["ids"] = _ids(op, said["ids"])
    return Call(op, _given(filter=said, **more), Touched._read)


def edit_of(changes: Mapping[str, Any]) -> dict[str, Any]:
    """What to change, as the engine takes it."""
    edit: dict[str, Any] = {}
    for name, value in changes.items():
        if name == "delay":
            edit["delay_ms"] = millis(value, name)
        elif name == "at":
            edit["scheduled_at"] = instant(value, name)
        elif name in ("now", "queue", "priority", "max_attempts", "args"):
            edit[name] = value
        else:
            raise InvalidOption(f"unknown change {name!r}; known are at, args, delay, max_attempts, now, priority, queue")
    return edit


def of_queue(op: str, queue: str, **more: Any) -> Call[None]:
    return Call(op, _given(queue=queue, **more), _nothing)


def drain_worker(worker: int) -> Call[None]:
    return Call("drain_worker", _given(worker=worker), _nothing)


def limits(concurrency: int | None, rate: int | None, period: Duration | None, burst: int | None) -> dict[str, Any]:
    if rate is None and (burst is not None or period is not None):  # which by themselves would lift all limits
        raise InvalidOption("period and burst say more of a rate: say how many start in it, as in rate=100, period='1m', burst=20")
    limits: dict[str, Any] = {}
    if concurrency is not None:
        limits["concurrency"] = concurrency
    if rate is not None:
        if period is None:
            raise InvalidOption(f"a rate needs a period, the time in which {rate} may start, as in rate={rate}, period='1m'")
        limits["rate"] = {"count": rate, "period_ms": millis(period, "period")}
        if burst is not None:
            limits["rate"]["burst"] = burst
    return limits


def key_limit(concurrency: int | None, serial: bool, weight: int, rate: int | None, period: Duration | None) -> dict[str, Any]:
    return {"serial": serial, "weight": weight, **limits(concurrency, rate, period, None)}


def key_limits(queue: str) -> Call[dict[str, Any] | None]:
    return Call("key_limits", _given(queue=queue), lambda limits: limits)


def queue(name: str) -> Call[QueueStats | None]:
    if not isinstance(name, str):  # which would be that of all queues
        raise InvalidOption(f"queue takes the name of a queue, got {name!r}; queues() lists all")
    read: Callable[[Any], QueueStats | None] = lambda queues: QueueStats._read(queues[0]) if queues else None
    return Call("queues", _given(name=name), read)


def queues(search: str | None, after: str | None, limit: int | None) -> Call[list[QueueStats]]:
    return Call("queues", _given(search=search, after=after, limit=limit), lambda queues: [QueueStats._read(queue) for queue in queues])


def status() -> Call[dict[str, Any]]:
    return Call("status", "{}", dict)


def migrate() -> Call[tuple[int, int]]:
    return Call("migrate", "{}", lambda report: (report["from"], report["to"]))


def schedules(source: str | None, after: str | None, limit: int) -> Call[list[ScheduleRecord]]:
    read: Callable[[Any], list[ScheduleRecord]] = lambda page: [ScheduleRecord._read(one) for one in page["schedules"]]
    return Call("schedules", _given(source=source, after=after, limit=limit), read)


def schedule(name: str) -> Call[ScheduleRecord | None]:
    read: Callable[[Any], ScheduleRecord | None] = lambda one: None if one is None else ScheduleRecord._read(one)
    return Call("schedule", _given(name=name), read)


def put_schedule_file(file: str | PathLike[str], prune: bool) -> Call[SchedulesPut]:
    if not isinstance(file, (str, PathLike)):
        raise InvalidOption(f"put_schedule_file takes the path of a TOML file, got {file!r}")
    return Call("put_schedule_file", _given(file=fspath(file), prune=prune), SchedulesPut._read)


def of_schedule(op: str, name: str) -> Call[None]:
    return Call(op, _given(name=name), _nothing)


def run_schedule(name: str) -> Call[int]:
    return Call("run_schedule", _given(name=name), lambda answer: int(answer["id"]))


def preview(spec: dict[str, Any], after: datetime | None, count: int) -> Call[list[datetime]]:
    payload = _given(schedule=spec, after=after and instant(after, "after"), count=count)
    read: Callable[[Any], list[datetime]] = lambda ticks: [
        datetime.fromisoformat(tick[:-1] + "+00:00" if tick.endswith("Z") else tick) for tick in ticks
    ]
    return Call("preview_schedule", payload, read)


def events(after: str | None, **filter: Any) -> Call[EventPage]:
    return Call("events", _given(**{"from": after}, **filter), EventPage._read)


def event_filter(queues: Iterable[str], kinds: Iterable[str], events: Iterable[str], limit: int) -> dict[str, Any]:
    """Which events are asked for."""
    return {"queues": names("queues", queues), "kinds": names("kinds", kinds), "events": names("events", events), "limit": limit}


def history(last: Duration, step: Duration | None, **filter: Any) -> Call[History]:
    step_ms = None if step is None else millis(step, "step")
    return Call("history", _given(last_ms=millis(last, "last"), step_ms=step_ms, **filter), History._read)


def timings(last: Duration, step: Duration | None, **filter: Any) -> Call[list[Timed]]:
    step_ms = None if step is None else millis(step, "step")
    read: Callable[[Any], list[Timed]] = lambda told: [Timed._read(timed) for timed in told["timed"]]
    return Call("timings", _given(last_ms=millis(last, "last"), step_ms=step_ms, **filter), read)


def failures(last: Duration, **filter: Any) -> Call[list[Failure]]:
    read: Callable[[Any], list[Failure]] = lambda told: [Failure._read(failure) for failure in told["failures"]]
    return Call("failures", _given(last_ms=millis(last, "last"), **filter), read)


def mark(label: str, actor: str) -> Call[None]:
    return Call("mark", _given(label=label, actor=actor), _nothing)


def marks(last: Duration) -> Call[list[Mark]]:
    read: Callable[[Any], list[Mark]] = lambda told: [Mark._read(mark) for mark in told["marks"]]
    return Call("marks", _given(last_ms=millis(last, "last")), read)


def audit(*, since: datetime | None, **filter: Any) -> Call[tuple[list[AuditRecord], str | None]]:
    read: Callable[[Any], tuple[list[AuditRecord], str | None]] = lambda page: (
        [AuditRecord._read(entry) for entry in page["entries"]],
        page["next"],
    )
    return Call("audit", _given(since=since and instant(since, "since"), **filter), read)


def append_audit(**entry: Any) -> Call[None]:
    return Call("append_audit", f'{{"entries":[{_given(**entry)}]}}', _nothing)


def enqueue(job: str, args: str, idempotency_key: str | None) -> Call[list[int]]:
    return Call("enqueue", f'{{"job":{job},"args":{args}{_under(idempotency_key)}}}', lambda answer: list(answer["ids"]))


def _under(idempotency_key: str | None) -> str:
    return "" if idempotency_key is None else f',"idempotency_key":{encode(idempotency_key)}'


def enqueue_unique(job: str, args: str) -> Call[list[EnqueuedUnique]]:
    read: Callable[[Any], list[EnqueuedUnique]] = lambda answer: [EnqueuedUnique._read(one) for one in answer["jobs"]]
    return Call("enqueue_unique", f'{{"job":{job},"args":{args}}}', read)


def enqueue_sql(job: str, args: str, idempotency_key: str | None) -> Call[list[dict[str, Any]]]:
    return Call("enqueue_sql", f'{{"job":{job},"args":{args}{_under(idempotency_key)}}}', list)
