"""Schedules: jobs that are enqueued again and again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from .args import encode
from .calls import Call
from .duration import Duration, millis
from .errors import InvalidOption
from .job import Job
from .options import instant
from .records import SchedulesPut


@dataclass(frozen=True)
class Schedule:
    """A job at the ticks of a cron expression (``"30 6 * * MON-FRI"``, six fields with seconds first), an alias (``"@daily"``) or an interval
    (``"every 90s"``)."""

    name: str
    cron: str
    job: Job[...]
    args: Any = None
    zone: str = "UTC"
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    jitter: Duration = 0
    overlap: Literal["allow", "skip", "queue_one"] = "allow"
    """What happens at a tick while the job before has not ended."""
    missed: Literal["none", "last"] | int = "last"
    """Which ticks fire that nobody was there to fire in time; a number: so many at most."""

    def _spec(self) -> dict[str, Any]:
        if not isinstance(self.job, Job):
            raise InvalidOption(f"schedule {self.name!r}: its job must be what @app.job made of a function, got {self.job!r}")
        job = self.job.options._spec(self.job.kind)  # without a trace: its jobs are not of the call that declares it
        handler = self.job.handler
        job["args"] = handler.model.check(self.args) if handler.model else handler.args_of((), self.job._named(self.args or {}))
        if self.job.options.delay is not None or self.job.options.at is not None:
            raise InvalidOption(f"schedule {self.name!r}: its ticks say when its job runs, so the job takes no delay or time")
        if self.job.options.expires_at is not None:
            raise InvalidOption(f"schedule {self.name!r}: from that time on all of its jobs would be late; say expires_in, which each of them begins anew")
        if self.job.options.idempotency_key is not None:
            raise InvalidOption(f"schedule {self.name!r}: each tick fires once by itself, so the job takes no idempotency_key")
        spec: dict[str, Any] = {
            "name": self.name,
            "cron": self.cron,
            "zone": self.zone,
            "jitter_ms": millis(self.jitter, "jitter"),
            "overlap": self.overlap,
            "missed": {"all": self.missed} if isinstance(self.missed, int) else self.missed,
            "job": job,
        }
        for name, time in (("starts_at", self.starts_at), ("ends_at", self.ends_at)):
            if time is not None:
                spec[name] = instant(time, name)
        return spec


def put_schedules(schedules: Iterable[Schedule], source: str, prune: bool) -> Call[SchedulesPut]:
    """The call that stores them."""
    if prune and not source:
        raise InvalidOption("prune=True removes what else is of a source, so say which one: put_schedules(schedules, source='shop', prune=True)")
    if isinstance(schedules, Schedule):
        raise InvalidOption(f"put_schedules takes a list of schedules, got the one named {schedules.name!r}")
    payload = encode({"schedules": [schedule._spec() for schedule in schedules], "source": source, "prune": prune})
    return Call("put_schedules", payload, SchedulesPut._read)
