"""The user's side: one app, one task. The worker has parsed the args when it calls the task."""

import os
import time
from functools import cache

from celery import Celery
from marks import Marks

app = Celery("bench", broker=os.environ["BENCH_URL"])
app.conf.task_ignore_result = True
if os.environ.get("PEER_TUNED") == "1":
    app.conf.task_acks_late = True  # by default a job is lost with its worker
    app.conf.worker_prefetch_multiplier = 128
sleep_seconds = float(os.environ.get("PEER_SLEEP_SECONDS", "0"))


@cache
def marks() -> Marks:
    """Made by the first task, so each process of a prefork pool has its own."""
    return Marks(os.environ["PEER_FOLDER"], int(os.environ["PEER_SIZE"]), times=os.environ["PEER_TIMES"] == "1")


@app.task(name="bench")
def bench(id: int) -> None:
    marks().started(id)
    if sleep_seconds:
        time.sleep(sleep_seconds)
    marks().handled(id)
