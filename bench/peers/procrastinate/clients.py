"""Concurrent clients that enqueue: tasks of one event loop, each with a connection of the pool at hand."""

import asyncio
import time

import jobs


def enqueue_concurrently(count: int, clients: int, batch: int) -> float:
    """The seconds it took, connecting excluded."""
    return asyncio.run(timed(count, clients, batch))


async def timed(count: int, clients: int, batch: int) -> float:
    async with jobs.app.open_async():
        await jobs.app.check_connection_async()
        began = time.monotonic()
        shares = (range(count * i // clients, count * (i + 1) // clients) for i in range(clients))
        await asyncio.gather(*(client(share, batch) for share in shares))
        return time.monotonic() - began


async def client(ids: range, batch: int) -> None:
    if batch == 1:
        for job_id in ids:
            await jobs.bench.defer_async(id=job_id)
        return
    for start in range(ids.start, ids.stop, batch):
        part = range(start, min(ids.stop, start + batch))
        await jobs.bench.batch_defer_async(*({"id": job_id} for job_id in part))
