"""Measures Procrastinate by the contract of bench/peers."""

import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "measuring"))

import figures
import worker
from clients import in_parts, timed_clients
from fleet import Fleet
from jobs import POOL_SIZE
from marks import AllMarks
from settings import read_settings, tell
from store import Store

MOST_MIXED_JOBS = 4_000_000


def enqueue(settings) -> tuple[dict, dict]:
    store = Store(settings.url)
    store.create()
    store.close()
    took = timed_clients(settings.jobs, settings.clients, lambda: connect(settings))
    store = Store(settings.url)
    store.expect(settings.jobs, "todo")
    store.close()
    call = "defer" if settings.batch == 1 else "batch_defer"
    used = {"client_processes": settings.clients, "batch": settings.batch, "call": call}
    return used, {"enqueued_per_second": settings.jobs / took, "enqueued_seconds": took}


def connect(settings):
    """A client, with a connection of its own, ready to enqueue ids."""
    store = Store(settings.url)

    def enqueue_ids(ids: range) -> None:
        if settings.batch == 1:
            for job_id in ids:
                store.enqueue_one(job_id)
        else:
            for part in in_parts(ids, settings.batch):
                store.enqueue(part)
        store.close()

    return enqueue_ids


def work(settings) -> tuple[dict, dict]:
    """The scenarios with worker processes; each ends with a check of the marks and of the store."""
    jobs = {"mixed": MOST_MIXED_JOBS, "latency": figures.WARM_UP + getattr(settings, "samples", 0)}
    size = jobs.get(settings.command) or settings.jobs
    store = Store(settings.url)
    store.create()
    if settings.command in ("drain", "work", "serial"):
        began = time.monotonic()
        store.enqueue_serial(size, settings.keys) if settings.command == "serial" else store.seed(size)
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
            else:
                found = figures.drained(marks, size, fleet.go, store.unfinished)
                found["enqueued_per_second"] = size / seeded
            fleet.stop()
        finally:
            fleet.kill()
        marks.check(size)
        store.expect(size, "succeeded")
    store.close()
    defaults = {"concurrency": 1, "fetch_job_polling_interval": 5.0, "listen_notify": True, "delete_jobs": "never"}
    return {**defaults, "processes": settings.processes, "pool_size": POOL_SIZE, **worker.options(settings)}, found


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "worker":
        worker.run(read_settings(sys.argv[2]), folder=sys.argv[3], size=int(sys.argv[4]))
    elif len(sys.argv) == 2:
        settings = read_settings(sys.argv[1])
        tell(version("procrastinate"), *(enqueue if settings.command == "enqueue" else work)(settings))
    else:
        sys.exit(f"usage: run enqueue|drain|work|serial|latency|mixed; got {sys.argv[1:]}")
