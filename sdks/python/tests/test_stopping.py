"""How workers and their handlers are stopped, and what becomes of the jobs that they had."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from worked import record

from windlass import App, Around, Context

LONG = 60


def test_a_late_end_has_no_effect(sqlite: App) -> None:
    """Its job is taken away while the handler swallows the cancellation; what it hands in later is refused, and the next attempt counts."""
    attempts: list[int] = []
    free = asyncio.Event()

    @sqlite.job("stubborn", timeout=0.05)
    async def stubborn(ctx: Context) -> int:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    pass  # it will not stop
            return 1
        return 2

    async def main() -> int:
        async with sqlite.worker() as worker:
            id = await stubborn.with_options().enqueue()
            while worker.stats["retried"] == 0:
                await asyncio.sleep(0.01)
            free.set()
            await sqlite.client.retry(id)
            await sqlite.client.wait(id, LONG)
            return id

    id = asyncio.run(main())
    assert attempts == [1, 2] and record(sqlite, id).result == 2


def test_an_app_that_is_closed_leaves_its_workers_their_store(app: App) -> None:
    """What runs is settled, and more is taken: the connections of a worker close with it."""
    started, free = asyncio.Event(), asyncio.Event()

    @app.job("a")
    async def job(n: int) -> None:
        started.set()
        await free.wait()

    async def main() -> list[int]:
        async with app.worker() as worker:
            ids = await job.enqueue_many([{"n": n} for n in range(30)])
            await asyncio.wait_for(started.wait(), LONG)
            app.close()
            app.close()
            free.set()
            ids.append(await job.enqueue(n=30))  # by connections of its own
            await asyncio.wait_for(worker.until_idle(), LONG)
            assert worker.stats["settled"] == 31
        return ids

    ids = asyncio.run(main())
    assert [(record(app, id).state, record(app, id).attempt) for id in ids] == [("completed", 1)] * 31


def test_the_connections_of_a_closed_app_end_with_its_worker(postgres: str) -> None:
    app = App(postgres)

    @app.job("a")
    async def job() -> None: ...

    async def main() -> None:
        async with app.worker():
            app.close()

    asyncio.run(main())
    with psycopg.connect(postgres, autocommit=True) as connection:
        left = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        deadline = time.monotonic() + LONG
        while connection.execute(left).fetchone() != (0,):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_stop_lets_running_jobs_end_and_gives_the_others_back(app: App) -> None:
    started, free = asyncio.Event(), asyncio.Event()

    @app.job("a")
    async def job(n: int) -> None:
        started.set()
        await free.wait()

    async def main() -> None:
        job.enqueue_many_sync([{"n": n} for n in range(10)])
        worker = app.worker(queues={"default": 2})
        await worker.start()
        await started.wait()
        worker.stop()
        asyncio.get_running_loop().call_later(0.05, free.set)
        await worker.wait()

    asyncio.run(main())
    [queue] = app.sync.queues()
    # What had been lent and not begun comes back as due at once.
    assert queue.running == 0 and queue.completed in (1, 2) and queue.available + queue.scheduled == 10 - queue.completed
    assert all(job.attempt == 0 for job in app.sync.jobs().jobs if job.state != "completed")


def test_a_job_that_outlives_the_grace_period_goes_back(app: App) -> None:
    started = asyncio.Event()
    reasons: list[str | None] = []

    @app.job("a")
    async def job(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(LONG)
        finally:
            reasons.append(ctx.cancelled)

    async def main() -> int:
        id = await job.enqueue()
        async with app.worker(grace_period=0.05):
            await started.wait()
        return id

    id = asyncio.run(main())
    back = record(app, id)
    assert reasons == ["shutdown"] and (back.state, back.attempt, back.errors) == ("available", 0, [])


def test_a_worker_that_is_forgotten_holds_no_jobs(sqlite: App) -> None:
    started = asyncio.Event()

    @sqlite.job("a")
    async def job(n: int) -> None:
        if n == 0:
            started.set()
            await asyncio.sleep(LONG)

    async def forgets() -> None:
        await job.enqueue_many([{"n": n} for n in range(5)])
        await sqlite.worker(queues={"default": 1}).start()
        await started.wait()

    asyncio.run(forgets())
    gc.collect()

    async def main() -> None:
        ids = [record.id for record in sqlite.sync.jobs().jobs if record.args["n"] > 0]
        async with sqlite.worker(grace_period=0.1):  # the first job runs here, too, and would go on
            assert all([await sqlite.client.wait(id, LONG) for id in ids])

    asyncio.run(main())


@pytest.mark.parametrize("batched", [False, True])
def test_a_loop_that_is_closed_under_a_worker_fails_no_job(sqlite: App, caplog: pytest.LogCaptureFixture, batched: bool) -> None:
    """What nobody cancelled is thrown away with the worker."""
    started = asyncio.Event()

    async def never_ends() -> None:
        started.set()
        await asyncio.sleep(LONG)

    if batched:

        @sqlite.batch("a", max_size=1)
        async def batch(args: list[dict[str, Any]]) -> None:
            await never_ends()
    else:

        @sqlite.job("a")
        async def job() -> None:
            await never_ends()

    async def begins() -> int:
        id = await sqlite.jobs["a"].enqueue()
        await sqlite.worker(queues={"default": 1}).start()
        await started.wait()
        return id

    loop = asyncio.new_event_loop()
    id = loop.run_until_complete(begins())
    loop.close()
    gc.collect()
    assert not [said for said in caplog.messages if "failed" in said]
    assert record(sqlite, id).errors == []


def test_an_abort_hands_running_jobs_back_at_once(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of handlers that never end."""
    monkeypatch.setattr("windlass.worker.FAREWELL", 0.2)  # they are waited for in vain
    started, free = threading.Barrier(2), threading.Event()

    @app.job("async")
    async def in_a_task() -> None:
        try:
            await asyncio.sleep(LONG)
        finally:
            await asyncio.sleep(LONG)

    @app.job("sync")
    def in_a_thread() -> None:
        started.wait(LONG)
        free.wait(LONG)

    async def main() -> list[int]:
        ids = [await in_a_task.enqueue(), await in_a_thread.enqueue()]
        worker = app.worker(grace_period=LONG)
        await worker.start()
        await asyncio.to_thread(started.wait, LONG)
        while worker.stats["running"] < 2:
            await asyncio.sleep(0.01)
        worker.abort()
        ended = asyncio.create_task(worker.wait())
        while not worker._ended.done():
            await asyncio.sleep(0.01)
        back = [record(app, id) for id in ids]
        assert [(job.state, job.attempt, job.errors) for job in back] == [("available", 0, [])] * 2
        free.set()
        await ended
        return ids

    asyncio.run(main())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks tell who cancelled them from Python 3.11 on")
@pytest.mark.parametrize("kind", ["single", "batch"])
def test_who_cancels_all_tasks_fails_no_job(sqlite: App, kind: str) -> None:
    """As the end of an event loop does. A handler that raises CancelledError by itself has failed."""
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.sleep(LONG)

    @sqlite.job("single")
    async def single() -> None:
        await work()

    @sqlite.batch("batch")
    async def batch(jobs: list[Any]) -> None:
        await work()

    @sqlite.job("itself")
    async def itself() -> None:
        raise asyncio.CancelledError

    async def main() -> tuple[int, int]:
        ids = await itself.enqueue(), await sqlite.jobs[kind].enqueue()
        async with sqlite.worker(queues={"default": 2}) as worker:
            await started.wait()
            while worker.stats["retried"] == 0:
                await asyncio.sleep(0.01)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            worker.stop()
        return ids

    failed, stopped = (record(sqlite, id) for id in asyncio.run(main()))
    assert (failed.state, failed.errors[0]["error"]) == ("retryable", "stopped: the handler was cancelled")
    assert (stopped.attempt, stopped.errors) == (0, []) and stopped.state in ("available", "scheduled"), stopped


@pytest.mark.parametrize("kind", ["single", "batch", "layered"])
def test_a_handler_that_cancels_its_own_task_has_failed(made: Callable[..., App], kind: str) -> None:
    """It would do so again at once, for ever, if that used up no attempt."""
    app, runs = made(), 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(LONG)

    if kind == "batch":

        @app.batch("a", max_attempts=1)
        async def batch(jobs: list[Any]) -> None:
            await work()
    else:

        @app.job("a", max_attempts=1)
        async def single() -> None:
            await work()

    if kind == "layered":

        @app.middleware
        def around(ctx: Context) -> Around:
            yield

    id = app.jobs["a"].enqueue_sync()

    async def main() -> None:
        async with app.worker() as worker:
            await app.client.wait(id, timeout=5)
            worker.stop()

    asyncio.run(main())
    job = record(app, id)
    assert (runs, job.state, [error["error"] for error in job.errors]) == (1, "discarded", ["stopped: the handler was cancelled"])


def test_a_shutdown_of_many_jobs_looks_at_each_once(sqlite: App) -> None:
    """It tells all of them at once, within the second that they have for it."""
    looks = 0

    class Running:
        def __init__(self, number: int) -> None:
            self.number = number

        @property
        def ticket(self) -> int:
            nonlocal looks
            looks += 1
            return self.number

    class Task:
        def cancel(self) -> None: ...

    @sqlite.job("a")
    async def job() -> None: ...

    worker: Any = sqlite.worker()
    jobs = [Running(number) for number in range(1_000)]
    worker._tasks = {job: Task() for job in jobs}
    worker._tell([(job.number, "shutdown") for job in reversed(jobs)])
    assert [worker._reasons[job] for job in jobs] == ["shutdown"] * 1_000
    assert looks <= 3_000
