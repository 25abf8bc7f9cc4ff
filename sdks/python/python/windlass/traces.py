"""Traces of jobs by OpenTelemetry: ``App(url, traces=Traces())``. Needs the package ``opentelemetry-api``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable

from opentelemetry import trace
from opentelemetry.context import Context as Spans
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ._loading import __version__
from .args import encode
from .duration import Duration, seconds
from .handler import Ended, failure

if TYPE_CHECKING:
    from . import _native

_W3C = TraceContextTextMapPropagator()
_MOST_META_BYTES = 8192
_NOTHING = Spans()


class Traces:
    """Spans of enqueues and attempts, tied together by the W3C trace context in the jobs' meta: docs/guide/traces.md. Jobs that take several
    at a time (:meth:`windlass.App.batch`) have spans of their enqueues only."""

    def __init__(self, provider: TracerProvider | None = None, *, child_within: Duration = 60) -> None:
        """
        :param provider: Where spans go; by default to the program's.
        :param child_within: How soon after its enqueue a first attempt has to begin to be a part of the sender's trace. Later ones, and
            retries, are traces of their own with a link; with 0 all are.
        """
        self._tracer: trace.Tracer = trace.get_tracer("windlass", __version__, provider)
        self._child_within: float = seconds(child_within, "child_within") if child_within else 0

    @contextmanager
    def _sending(self, queue: str, kind: str, count: int = 1) -> Iterator[None]:
        """Around a call that enqueues."""
        facts = _facts("send", queue) | ({"windlass.job.kind": kind} if count == 1 else {"messaging.batch.message_count": count})
        with self._tracer.start_as_current_span(
            f"send {queue}", kind=SpanKind.PRODUCER, attributes=facts, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR, str(error)))
                raise

    def _carry(self, spec: dict[str, Any]) -> None:
        """Has a job carry the current span, where that is recorded. A job is never refused for its trace."""
        meta = spec.get("meta") or {}
        if "traceparent" in meta or not trace.get_current_span().get_span_context().trace_flags.sampled:
            return
        carrier: dict[str, Any] = {}
        _W3C.inject(carrier)
        whole = carrier | dict(meta)
        if len(encode(whole).encode()) <= _MOST_META_BYTES:
            spec["meta"] = whole

    @contextmanager
    def _attempt(self, job: _native.Job) -> Iterator[Callable[[Ended | None], None]]:
        """Around an attempt: to be told what became of it."""
        facts = _facts("process", job.queue) | {
            "messaging.message.id": str(job.id), "windlass.job.kind": job.kind, "windlass.job.attempt": job.attempt,
        }
        texts = {name: text for name, text in (job.meta or {}).items() if isinstance(text, str)}  # meta is whatever somebody wrote
        remote = _W3C.extract(texts, _NOTHING)
        sender = trace.get_current_span(remote).get_span_context()
        waited = abs(time.time() - job.enqueued_at_ms / 1000)
        is_child = sender.is_valid and job.attempt == 1 and waited <= self._child_within
        span = self._tracer.start_span(
            f"process {job.queue}", remote if is_child else _NOTHING, SpanKind.CONSUMER, facts, [Link(sender)] if sender.is_valid else None
        )
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield lambda ended: _tell(span, ended)
            except Exception as error:
                _tell(span, failure(error), f"{type(error).__name__}: {error}")
                raise


def _facts(operation: str, queue: str) -> dict[str, str | int]:
    return {
        "messaging.system": "windlass", "messaging.operation.name": operation, "messaging.operation.type": operation,
        "messaging.destination.name": queue,
    }


def _tell(span: Span, ended: Ended | None, error: str | None = None) -> None:
    word, _, text = ended or ("complete", None, None)
    span.set_attribute("windlass.job.outcome", word)
    if word in ("retry", "discard"):
        span.set_attribute("error.type", word)
        span.set_status(Status(StatusCode.ERROR, ((error or text or "").splitlines() or [""])[0]))
