"""The user's side: one app, one task. The worker has parsed the args when it calls the task."""

import asyncio
import os

import procrastinate
from marks import Marks

POOL_SIZE = 20
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=os.environ["BENCH_URL"], min_size=1, max_size=POOL_SIZE)
)
marks: Marks | None = None
sleep_seconds = 0.0


@app.task(name="bench")
async def bench(id: int) -> None:
    marks.started(id)
    if sleep_seconds:
        await asyncio.sleep(sleep_seconds)
    marks.handled(id)
