"""What the store keeps of jobs that ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .duration import Duration, millis


@dataclass(frozen=True)
class RetentionRule:
    """What is kept of the jobs of one queue that ended in one way: ``RetentionRule("discarded", queue="mail", age="30d")``."""

    outcome: Literal["completed", "cancelled", "discarded"]
    queue: str | None = None
    """``None``: every queue that has no rule of its own."""
    age: Duration | None = None
    """How long they are kept; in seconds where the store tells of it."""
    count: int | None = None
    """How many are kept, those that ended last; not for completed jobs."""

    def _spec(self) -> dict[str, Any]:
        spec = {"queue": self.queue, "outcome": self.outcome, "age_ms": None if self.age is None else millis(self.age, "age"), "count": self.count}
        return {name: value for name, value in spec.items() if value is not None}

    @classmethod
    def _read(cls, rule: dict[str, Any]) -> RetentionRule:
        age_ms = rule.get("age_ms")
        return cls(rule["outcome"], rule.get("queue"), None if age_ms is None else age_ms / 1000, rule.get("count"))
