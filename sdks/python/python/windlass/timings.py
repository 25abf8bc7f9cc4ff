"""How long jobs wait and run, why attempts fail, and what happened beside them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .records import _Record, _time


@dataclass(frozen=True)
class Quantiles(_Record):
    """How many durations there are, and what 50, 95 and 99 percent of them do not exceed, in ms, off by an eighth at most; ``None`` where there are none."""

    count: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class Timed:
    """How long the jobs of a queue and kind waited and ran within one step of time."""

    at: datetime
    """When the step begins."""
    queue: str | None
    """``None``: not told apart."""
    kind: str | None
    """``None``: not told apart."""
    wait: Quantiles
    """From when a job was available until its attempt began; of those that were from their enqueue on."""
    run: Quantiles
    """Of attempts."""

    @classmethod
    def _read(cls, told: dict[str, Any]) -> Timed:
        return cls(_time(told["at"]), told["queue"], told["kind"], Quantiles._read(told["wait"]), Quantiles._read(told["run"]))


@dataclass(frozen=True)
class Failure(_Record):
    """Failed attempts with one cause: docs/guide/timings.md."""

    fingerprint: str
    queue: str | None
    """``None``: not told apart."""
    kind: str | None
    """``None``: not told apart."""
    sample: str
    """the line of the error of ``last_job`` that says what it was, cut."""
    last_job: int
    """The newest of the jobs."""
    count: int
    """How many attempts."""
    first_at: datetime
    """The minute, or later the quarter of an hour, in which the first of them failed."""
    last_at: datetime
    """Likewise of the last."""


@dataclass(frozen=True)
class Mark(_Record):
    """Something that happened, as a deploy: a line in the charts of the dashboard."""

    at: datetime
    label: str
    actor: str
