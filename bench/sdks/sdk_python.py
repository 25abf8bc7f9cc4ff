"""One measurement of the Python package: `python sdk_python.py drain async|sync|batch JOBS` or `enqueue TASKS BATCH JOBS`, on $BENCH_URL.

Prints one JSON object. A drain counts from the making of the worker until all jobs are settled, and checks that each ran once.
"""

import asyncio
import json
import os
import sys
import time
from typing import Any

from windlass import App

CONCURRENCY, BATCH = 1_000, 500
app = App(os.environ["BENCH_URL"] + "?migrate=auto")
ran: list[int] = []


@app.job("bench.async")
async def as_task(id: int) -> None:
    ran.append(id)


@app.job("bench.sync")
def in_thread(id: int) -> None:
    ran.append(id)


@app.batch("bench.batch", max_size=BATCH)
async def together(jobs: list[dict[str, int]]) -> None:
    ran.extend(job["id"] for job in jobs)


HANDLERS: dict[str, Any] = {"async": as_task, "sync": in_thread, "batch": together}


async def drain(how: str, jobs: int) -> float:
    await fill(HANDLERS[how], 10_000, range(jobs))
    began = time.perf_counter()
    async with app.worker(queues={"default": CONCURRENCY}, threads=2) as worker:
        await worker.until_idle()
        took = time.perf_counter() - began
    if len(ran) != jobs or len(set(ran)) != jobs:
        raise SystemExit(f"{jobs} jobs, {len(ran)} runs of {len(set(ran))}")
    queue = (await app.client.queues())[0]
    if queue.available or queue.running or queue.scheduled or queue.retryable:
        raise SystemExit(f"the store says {queue}")
    return took


async def fill(job: Any, batch: int, ids: range) -> None:
    for first in range(ids.start, ids.stop, batch):
        await job.enqueue_many([{"id": id} for id in range(first, min(first + batch, ids.stop))])


async def enqueue(tasks: int, batch: int, jobs: int) -> float:
    await as_task.enqueue(id=0)  # connects, and makes the tables
    shares = [range(jobs * n // tasks, jobs * (n + 1) // tasks) for n in range(tasks)]

    async def client(ids: range) -> None:
        if batch > 1:
            return await fill(as_task, batch, ids)
        for id in ids:
            await as_task.enqueue(id=id)

    began = time.perf_counter()
    await asyncio.gather(*(client(share) for share in shares))
    return time.perf_counter() - began


async def main(verb: str, *words: str) -> None:
    jobs = int(words[-1])
    took = await (drain(words[0], jobs) if verb == "drain" else enqueue(int(words[0]), int(words[1]), jobs))
    print(json.dumps({"per_second": jobs / took}))


asyncio.run(main(*sys.argv[1:]))
