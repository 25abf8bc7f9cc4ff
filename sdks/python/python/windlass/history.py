"""How many jobs ended in which way."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .records import _Record, _time


@dataclass(frozen=True)
class Count(_Record):
    """How many jobs ended in one way within one step of time."""

    at: datetime
    """When the step begins."""
    queue: str | None
    """``None``: not told apart, since that minute had too many counters."""
    kind: str | None
    """``None`` as of ``queue``, or since so much completed that not each job was looked at."""
    outcome: str
    """An event that ends an attempt or a job, such as ``completed``, ``failed``, ``discarded``."""
    count: int
    """Of ``failed`` these are attempts: a job may be among them several times, and among the ``discarded`` as well."""


@dataclass(frozen=True)
class History:
    """What was counted: docs/guide/history.md."""

    step: float
    """How many seconds each count is of."""
    counted_until: datetime
    """What ended before this is counted; what ended later may be in part."""
    counts: list[Count]
    """By time, queue, kind and outcome; there are none of 0."""

    @classmethod
    def _read(cls, told: dict[str, Any]) -> History:
        return cls(told["step_ms"] / 1000, _time(told["counted_until"]), [Count._read(count) for count in told["counts"]])
