"""Handlers that hold what others need: an event loop that stands still, threads that never come back."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest
from windlass import App, Context, _pool, _watch
from windlass._pool import Pool
from worked import record

LONG = 60.0
LEASE = 1.0


def said(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [text for text in caplog.messages if words in text]


@pytest.mark.parametrize("batched", [False, True])
def test_a_loop_that_stands_still_for_three_leases_loses_no_job(
    sqlite: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, batched: bool
) -> None:
    """Nothing runs twice, also where others would take what is lost, and it is said once which job held it, and where."""
    monkeypatch.setattr(_watch, "LOOK", 0.02)
    monkeypatch.setattr(_watch, "PATIENCE", 0.3)
    caplog.set_level(logging.INFO, "windlass")
    runs: list[str] = []

    if batched:

        @sqlite.batch("holds")
        async def together(args: list[Any]) -> None:
            runs.append("holds")
            time.sleep(3 * LEASE)
    else:

        @sqlite.job("holds")
        async def holds() -> None:
            runs.append("holds")
            time.sleep(3 * LEASE)

    @sqlite.job("beside")
    async def beside() -> None:
        runs.append("beside")
        await asyncio.sleep(0.1)

    other = App(sqlite.connection.url)

    @other.job("holds")
    async def again() -> None:
        runs.append("holds again")

    @other.job("beside")
    async def beside_again() -> None:
        runs.append("beside again")

    async def main() -> list[int]:
        async with sqlite.worker(queues={"default": 2}, lease=LEASE) as worker:
            ids = [await beside.enqueue(), await sqlite.jobs["holds"].enqueue()]
            while len(runs) < 2:
                await asyncio.sleep(0.001)
            await worker.until_idle()
        return ids

    def elsewhere() -> None:
        async def work() -> None:
            while "holds" not in runs:
                await asyncio.sleep(0.01)
            async with other.worker(queues={"default": 2}, lease=LEASE):
                await asyncio.to_thread(over.wait, LONG)

        asyncio.run(work())

    over = threading.Event()
    rescuer = threading.Thread(target=elsewhere)
    rescuer.start()
    ids = asyncio.run(main())
    over.set()
    rescuer.join(LONG)
    assert sorted(runs) == ["beside", "holds"]
    assert [(job.state, job.attempt, job.crash_count) for job in (record(sqlite, id) for id in ids)] == [("completed", 1, 0)] * 2
    [warning] = said(caplog, "the event loop stands still")
    assert ("a batch of 1 jobs (holds) holds it" if batched else f"job {ids[1]} (holds) holds it") in warning
    assert "time.sleep(3 * LEASE)" in warning
    assert len(said(caplog, "the event loop goes on after")) == 1
    other.close()


def test_a_loop_that_goes_on_is_not_spoken_of(sqlite: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_watch, "LOOK", 0.01)

    @sqlite.job("a")
    async def a() -> None:
        await asyncio.sleep(0.2)

    async def main() -> None:
        async with sqlite.worker() as worker:
            await a.enqueue()
            await worker.until_idle()
            watch = worker._watch
        watch._thread.join(LONG)
        assert not watch._thread.is_alive()

    asyncio.run(main())
    assert not said(caplog, "the event loop")


def test_a_thread_that_never_comes_back_is_replaced(app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pool, "LOOK", 0.05)
    free = threading.Event()

    @app.job("stuck", timeout=0.05, max_attempts=1)
    def stuck() -> str:
        free.wait(LONG)
        return "late"

    @app.job("next")
    def after(ctx: Context) -> str:
        return threading.current_thread().name

    async def main() -> list[int]:
        ids = [await stuck.enqueue()]
        async with app.worker(queues={"default": 1}, threads=1) as worker:
            ids.append(await after.enqueue())
            done = await app.client.wait(ids[1], timeout=LONG)
            assert done is not None and done.state == "completed"
            assert not free.is_set()
            free.set()
            while len(worker._pools[0]._all()) > 1:
                await asyncio.sleep(0.01)
        return ids

    ids = asyncio.run(main())
    assert record(app, ids[1]).result == "windlass-job-1"
    failed = record(app, ids[0])
    assert failed.state == "discarded" and failed.errors[0]["error"].startswith("timeout after 50ms")
    [warning] = said(caplog, "keeps its thread")
    assert f"job {ids[0]} (stuck) keeps its thread windlass-job-0 though its time is over (timeout)" in warning


class FakeDesk:
    """Gives one job, which is taken away at once, and then no more."""

    jobs: list[Any] = []

    def next(self, completed: Any = None, other: Any = None) -> Any:
        return self.jobs.pop() if self.jobs else None

    def is_dropped(self) -> bool:
        return True

    def reason(self) -> str | None:
        return "timeout"


class FakeJob:
    def __init__(self, id: int) -> None:
        self.id, self.kind = id, "stuck"


def test_no_more_threads_are_replaced_than_there_are(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pool, "LOOK", 0.01)
    free = threading.Event()
    desk: Any = FakeDesk
    desk.jobs = [FakeJob(n) for n in range(10)]

    class Stuck:
        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None: ...

        def run(self, desk: Any, job: Any) -> None:
            free.wait(LONG)

    runner: Any = Stuck
    pool = Pool(2, desk, runner, "test")
    while not said(caplog, "no further thread takes the place"):
        time.sleep(0.01)
    threads = [seat.thread for seat in pool._all()]
    assert len(threads) == 4 and len(said(caplog, "another thread takes its place")) == 2
    free.set()
    assert pool.join(LONG)
    assert not any(thread is not None and thread.is_alive() for thread in threads)


def test_batches_that_never_come_back_keep_as_many_threads_as_the_worker_has(app: App, caplog: pytest.LogCaptureFixture) -> None:
    """Beyond that a batch waits until one returns, and when its time is over meanwhile no attempt is used up."""
    free = threading.Event()
    runs: list[int] = []

    @app.batch("holds", max_size=1, timeout=0.05, max_attempts=1)
    def holds(args: list[Any]) -> None:
        runs.append(args[0]["n"])
        if args[0]["n"] < 2:
            free.wait(LONG)

    async def main() -> None:
        ids = [await holds.enqueue(n=n) for n in range(2)]
        async with app.worker(queues={"default": 1}, threads=2) as worker:
            for id in ids:
                stopped = await app.client.wait(id, timeout=LONG)
                assert stopped is not None and stopped.state == "discarded"
            third = await holds.enqueue(n=2)
            while worker.stats["snoozed"] < 1:
                assert runs == [0, 1]
                await asyncio.sleep(0.01)
            free.set()
            done = await app.client.wait(third, timeout=LONG)
            assert done is not None and (done.state, done.attempt) == ("completed", 1)

    asyncio.run(main())
    assert runs == [0, 1, 2]
    assert len(said(caplog, "keeps its thread though its jobs were taken away")) == 2
    assert len(said(caplog, "no further batch begins")) == 1
