"""How many jobs of each queue a worker runs at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .errors import InvalidOption

if TYPE_CHECKING:
    from .job import Job

_PLACES = 10
_MOST = 1_000  # threads or processes: a machine has not many more


def checked(queues: Mapping[str, int]) -> dict[str, int]:
    """What the user gave."""
    if not isinstance(queues, Mapping):
        raise InvalidOption(f"queues must say how many jobs of each run at once, as in {{'default': 10}}, got {queues!r}")
    for queue, places in queues.items():
        if not isinstance(places, int) or isinstance(places, bool) or places < 1:
            raise InvalidOption(f"queue {queue!r} must run at least 1 job at once, got {places!r}")
    if not queues:
        raise InvalidOption("name at least one queue, with how many of its jobs run at once: queues={'default': 10}")
    return dict(queues)


def at_least_one(count: int | None, what: str, most: int = _MOST) -> None:
    """Refuses what is no number of threads or processes."""
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise InvalidOption(f"{what} must be at least 1, got {count!r}")
    if count is not None and count > most:
        raise InvalidOption(f"{what} must be at most {most}, got {count!r}")


def of_jobs(jobs: Iterable[Job[...]], processes: int) -> dict[str, int]:
    """All queues that jobs name, each with as many places as its jobs have a use for."""
    by_queue: dict[str, list[Job[...]]] = {}
    for job in jobs:
        by_queue.setdefault(_queue(job), []).append(job)
    return {queue: _of_queue(its, processes) for queue, its in by_queue.items()} or {"default": _PLACES}


def _of_queue(jobs: list[Job[...]], processes: int) -> int:
    if all(job.in_child for job in jobs):
        return processes  # what it took beyond that would wait for a child here, while another worker may have one that is free
    return _PLACES


def _queue(job: Job[...]) -> str:
    return job.options.queue or "default"
