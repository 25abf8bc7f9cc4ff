"""Measures Celery with its Redis broker by the contract of bench/peers."""

import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "measuring"))

import figures
from clients import in_parts, timed_clients
from fleet import Fleet, options
from marks import AllMarks
from settings import read_settings, tell
from store import Store

MOST_MIXED_JOBS = 4_000_000


def enqueue(settings) -> tuple[dict, dict]:
    took = timed_clients(settings.jobs, settings.clients, lambda: connect(settings))
    Store(settings.url).expect(settings.jobs)
    call = "delay" if settings.batch == 1 else "apply_async within Producer.batch"
    used = {"client_processes": settings.clients, "batch": settings.batch, "call": call}
    return used, {"enqueued_per_second": settings.jobs / took, "enqueued_seconds": took}


def connect(settings):
    """A client, with a connection of its own, ready to enqueue ids."""
    store = Store(settings.url)
    store.connect()

    def enqueue_ids(ids: range) -> None:
        if settings.batch == 1:
            for job_id in ids:
                store.enqueue_one(job_id)
        else:
            for part in in_parts(ids, settings.batch):
                store.enqueue(part)

    return enqueue_ids


def work(settings) -> tuple[dict, dict]:
    """The scenarios with worker processes; each ends with a check of the marks and of the broker."""
    jobs = {"mixed": MOST_MIXED_JOBS, "latency": figures.WARM_UP + getattr(settings, "samples", 0)}
    size = jobs.get(settings.command) or settings.jobs
    store = Store(settings.url)
    if settings.command in ("drain", "work"):
        began = time.monotonic()
        store.seed(size)
        seeded = time.monotonic() - began
    with tempfile.TemporaryDirectory() as folder:
        fleet, marks = Fleet(settings, folder, size), AllMarks(folder, size)
        try:
            if settings.command == "mixed":
                fleet.go()
                found, size = figures.fed(marks, settings, store.enqueue, store.unfinished)
            elif settings.command == "latency":
                fleet.go()
                found = figures.latency(marks, settings, store.enqueue_one)
                figures.wait_for_store(store.unfinished)
            else:
                found = figures.drained(marks, size, fleet.go, store.unfinished)
                found["enqueued_per_second"] = size / seeded
            fleet.stop()
        finally:
            fleet.kill()
        marks.check(size)
        store.expect(0)
    tuned = {"task_acks_late": True, "worker_prefetch_multiplier": 128}
    defaults = {"task_acks_late": False, "worker_prefetch_multiplier": 4, "pool": "prefork, a process for each CPU"}
    used = tuned if settings.tuned else defaults
    return {**used, "processes": settings.processes, "worker_options": " ".join(options(settings))}, found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: run enqueue|drain|work|latency|mixed; got {sys.argv[1:]}")
    settings = read_settings(sys.argv[1])
    tell(version("celery"), *(enqueue if settings.command == "enqueue" else work)(settings))
