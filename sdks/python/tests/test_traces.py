"""Spans of enqueues and attempts, and how they belong together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import child_jobs
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from worked import drain, record

from windlass import App, Discard, Schedule
from windlass.connection import Connection
from windlass.errors import InvalidOption
from windlass.traces import Traces

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Recorded:
    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(**options)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("test")

    def named(self, name: str) -> list[ReadableSpan]:
        spans = self.exporter.get_finished_spans()
        found = [span for span in spans if span.name == name]
        assert found, [span.name for span in spans]
        return found

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def parent(span: ReadableSpan) -> int | None:
    return span.parent and span.parent.span_id


@pytest.mark.parametrize("is_async", [True, False])
def test_an_attempt_is_a_part_of_the_trace_that_enqueued_it(made: Callable[..., App], recorded: Recorded, is_async: bool) -> None:
    app = made(traces=Traces(recorded.provider))

    async def on_loop() -> None:
        with recorded.tracer.start_as_current_span("read file"):
            await asyncio.sleep(0)

    def in_thread() -> None:
        recorded.tracer.start_span("read file").end()

    resize = app.job("resize", queue="images")(on_loop if is_async else in_thread)
    with recorded.tracer.start_as_current_span("GET /upload"):
        id = resize.enqueue_sync()
    asyncio.run(drain(app))
    request, send, process, read = map(recorded.one, ("GET /upload", "send images", "process images", "read file"))
    assert (send.kind, process.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
    assert [parent(send), parent(process), parent(read)] == [ids(request)[1], ids(send)[1], ids(process)[1]]
    assert {ids(span)[0] for span in (request, send, process, read)} == {ids(request)[0]}
    assert [link.context.span_id for link in process.links] == [ids(send)[1]]
    assert dict(process.attributes or {}) == {
        "messaging.system": "windlass",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "images",
        "messaging.message.id": str(id),
        "windlass.job.kind": "resize",
        "windlass.job.attempt": 1,
        "windlass.job.outcome": "complete",
    }
    assert process.status.status_code is trace.StatusCode.UNSET


@pytest.mark.parametrize("is_async", [True, False])
def test_a_retry_is_a_trace_of_its_own_with_a_link(made: Callable[..., App], recorded: Recorded, is_async: bool) -> None:
    app = made(traces=Traces(recorded.provider))

    async def on_loop() -> None:
        raise OSError("no disk\nat all")

    def in_thread() -> None:
        raise OSError("no disk\nat all")

    fails = app.job("fails", max_attempts=2)(on_loop if is_async else in_thread)
    id = fails.enqueue_sync()
    asyncio.run(drain(app))
    app.sync.retry(id)
    asyncio.run(drain(app))
    send = recorded.one("send default")
    first, second = recorded.named("process default")
    assert (parent(first), parent(second)) == (ids(send)[1], None)
    assert [link.context.span_id for link in second.links] == [ids(send)[1]]
    for span in (first, second):
        assert (span.status.status_code, span.status.description) == (trace.StatusCode.ERROR, "OSError: no disk")
    assert [(span.attributes or {})["error.type"] for span in (first, second)] == ["retry", "retry"]
    assert [(span.attributes or {})["windlass.job.attempt"] for span in (first, second)] == [1, 2]


def test_outcomes_are_told(made: Callable[..., App], recorded: Recorded) -> None:
    app = made(traces=Traces(recorded.provider, child_within=0))

    @app.job("never")
    async def never() -> Discard:
        return Discard("no such image")

    never.enqueue_sync()
    asyncio.run(drain(app))
    span = recorded.one("process default")
    assert (span.attributes or {})["windlass.job.outcome"] == "discard" and span.status.description == "no such image"
    assert span.parent is None and len(span.links) == 1


def test_jobs_of_a_batch_share_a_span(made: Callable[..., App], recorded: Recorded) -> None:
    app = made(traces=Traces(recorded.provider))

    @app.job("one")
    async def one(n: int) -> None: ...

    stored = asyncio.run(one.enqueue_many({"n": n} for n in range(3)))
    send = recorded.one("send default")
    assert (send.attributes or {})["messaging.batch.message_count"] == 3
    for id in stored:
        assert f"{ids(send)[1]:016x}" in (record(app, id).meta or {})["traceparent"]
    assert one.enqueue_many_sync([]) == [] and recorded.one("send default")


def test_what_nobody_records_is_not_carried(made: Callable[..., App]) -> None:
    app = made(traces=Traces(Recorded(sampler=ALWAYS_OFF).provider))

    @app.job("one")
    async def one() -> None: ...

    assert record(app, one.enqueue_sync()).meta is None


def test_no_job_is_refused_for_its_trace(made: Callable[..., App], recorded: Recorded) -> None:
    app = made(traces=Traces(recorded.provider))

    @app.job("one")
    async def one() -> None: ...

    full = {"x": "x" * 8170}
    assert record(app, one.with_options(meta=full).enqueue_sync()).meta == full
    own = {"traceparent": TRACEPARENT}
    assert record(app, one.with_options(meta=own).enqueue_sync()).meta == own
    odd = one.with_options(meta={"traceparent": 5, "tracestate": [7]}).enqueue_sync()  # whoever enqueues may have written that
    asyncio.run(drain(app))
    assert record(app, odd).state == "completed", record(app, odd)
    with pytest.raises(InvalidOption):
        one.with_options(priority=1000).enqueue_sync()
    assert recorded.named("send default")[-1].status.status_code is trace.StatusCode.ERROR


def test_child_processes_have_spans(store: str, recorded: Recorded, tmp_path: Path) -> None:
    app, lent = child_jobs.app, Connection(store)
    app.connection._lend(lent)
    app.traces = Traces(recorded.provider)
    try:
        child_jobs.facts.enqueue_sync(4)
        asyncio.run(drain(app))
    finally:
        app.traces = None
        app.connection._lend(None)
        lent.close()
    assert (recorded.one("process default").attributes or {})["windlass.job.outcome"] == "complete"


def test_a_schedule_is_of_no_trace(sqlite: App, recorded: Recorded) -> None:
    """Its jobs would all be of the request that declared it, and each declaration another one."""
    app = App(sqlite.connection.url, traces=Traces(recorded.provider))

    @app.job("a")
    async def job() -> None: ...

    replies = []
    for _ in range(2):
        with recorded.tracer.start_as_current_span("a request"):
            replies += app.sync.put_schedules([Schedule("nightly", "@daily", job)]).replies
    assert replies == ["created", "unchanged"]
    nightly = app.sync.schedule("nightly")
    assert nightly is not None and "traceparent" not in repr(nightly.definition)
    app.close()
