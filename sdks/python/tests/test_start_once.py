"""A worker starts once and as a whole, or not at all: an engine that nobody takes jobs from would hold them for as long as the process lives."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from worked import record

from windlass import App
from windlass.errors import InvalidOption


def test_two_starts_at_once_are_one(app: App) -> None:
    @app.job("a")
    async def job(n: int) -> None: ...

    async def main() -> list[Any]:
        ids = await job.enqueue_many([{"n": n} for n in range(100)])
        worker = app.worker(lease=2)
        started = await asyncio.gather(worker.start(), worker.start(), worker.run(), return_exceptions=True)
        for id in ids:
            assert await app.client.wait(id, 60) is not None
        await worker.close()
        return started

    first, *others = asyncio.run(main())
    assert first is None and [type(error) for error in others] == [InvalidOption] * 2, others
    assert "the worker was started before" in str(others[0])
    assert app.sync.queues()[0].completed == 100


def test_a_start_that_fails_on_its_way_holds_no_job(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the system has no thread left."""

    @app.job("task")
    async def in_task() -> None: ...

    @app.job("thread")
    def in_thread() -> None: ...

    begin = threading.Thread.start

    def few(thread: threading.Thread) -> None:
        if thread.name == "windlass-job-1":
            raise RuntimeError("can't start new thread")
        begin(thread)

    async def main() -> None:
        ids = [await in_task.enqueue(), await in_thread.enqueue()]
        failing = app.worker(lease=60)
        with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="can't start new thread"):
            patch.setattr(threading.Thread, "start", few)
            await failing.start()
        with pytest.raises(InvalidOption, match="the worker is not started"):
            failing.stop()
        async with app.worker():  # the jobs are there for it, long before the other one's lease is over
            for id in ids:
                assert await app.client.wait(id, 30) is not None
        for id in ids:
            assert (record(app, id).state, record(app, id).attempt, record(app, id).crash_count) == ("completed", 1, 0)

    asyncio.run(main())
