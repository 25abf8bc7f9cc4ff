"""A worker process: connects, says "ready", works from "go" on stdin until SIGTERM, which stops it gracefully."""

import asyncio
import sys
from types import SimpleNamespace

import jobs
from marks import Marks


def options(settings: SimpleNamespace) -> dict:
    """Concurrency 1 is Procrastinate's default; the tuned 20 is the winner of a sweep, its pool has a connection for each.

    Now and then a worker misses the notification of a job that comes in while it finds the queue empty, and the job waits
    for the next poll, 5 s by default: for latency it polls more often.
    """
    if settings.command == "work":
        return {"concurrency": settings.concurrency}
    if settings.command == "drain" and not settings.tuned:
        return {}
    if settings.command == "latency":
        return {"concurrency": 20, "fetch_job_polling_interval": 0.05}
    return {"concurrency": 20}


async def serve(settings: SimpleNamespace, folder: str, size: int) -> None:
    jobs.marks = Marks(folder, size, times=settings.command == "latency")
    jobs.sleep_seconds = settings.sleep_ms / 1000
    async with jobs.app.open_async():
        print("ready", flush=True)
        if sys.stdin.readline() == "go\n":
            await jobs.app.run_worker_async(**options(settings))


def run(settings: SimpleNamespace, folder: str, size: int) -> None:
    asyncio.run(serve(settings, folder, size))
