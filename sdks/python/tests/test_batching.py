"""Batches as in the other languages: the first job waits for others, and a batch takes one place of its queue."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from windlass import App
from windlass.errors import InvalidOption
from windlass.testing import TestJobs
from worked import drain, record

LONG = 60.0


async def claimed(worker: Any, count: int) -> None:
    while worker.stats["claimed"] < count:
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_batch_takes_one_place_and_its_first_job_waits_for_others(app: App, is_async: bool) -> None:
    sizes: list[int] = []
    options: Any = dict(max_size=3, wait="10m")

    if is_async:

        @app.batch("row", **options)
        async def in_a_task(rows: list[Any]) -> None:
            sizes.append(len(rows))
    else:

        @app.batch("row", **options)
        def in_a_thread(rows: list[Any]) -> None:
            sizes.append(len(rows))

    async def main() -> list[int]:
        job = app.jobs["row"]
        async with app.worker(queues={"default": 1}) as worker:
            ids = [await job.enqueue()]
            await claimed(worker, 1)
            ids += await job.enqueue_many([{}, {}])
            for id in ids:
                done = await app.client.wait(id, timeout=LONG)
                assert done is not None and done.state == "completed"
        return sizes

    assert asyncio.run(main()) == [3]


def test_a_batch_that_is_not_full_begins_when_it_has_waited(sqlite: App) -> None:
    sizes: list[int] = []

    @sqlite.batch("row", wait="50ms")
    async def row(rows: list[Any]) -> None:
        sizes.append(len(rows))

    ids = row.enqueue_many_sync([{}, {}])
    asyncio.run(drain(sqlite, queues={"default": 1}))
    assert sum(sizes) == 2 and record(sqlite, ids[0]).state == "completed"


def test_batches_that_run_hold_as_many_places_as_there_are(sqlite: App) -> None:
    """Two of four jobs each, and the job of another kind that needs a place waits."""
    both, free = threading.Barrier(3), threading.Event()
    order: list[str] = []

    @sqlite.batch("row", max_size=4, wait="10m")
    def row(rows: list[Any]) -> None:
        both.wait(LONG)
        free.wait(LONG)
        order.append(f"{len(rows)} rows")

    @sqlite.job("mail")
    async def mail() -> None:
        order.append("mail")

    async def main() -> None:
        async with sqlite.worker(queues={"default": 2}) as worker:
            await row.enqueue_many([{}] * 8)
            await asyncio.to_thread(both.wait, LONG)
            await mail.enqueue()
            while worker.stats["ready"] < 1:
                await asyncio.sleep(0.005)
            assert worker.stats["running"] == 8 and not order
            free.set()
            await worker.until_idle()

    asyncio.run(main())
    assert sorted(order) == ["4 rows", "4 rows", "mail"] and order[0] == "4 rows"


def test_a_drain_waits_for_nobody(sqlite: App) -> None:
    sizes: list[int] = []

    @sqlite.batch("row", max_size=100, wait="10m")
    async def row(rows: list[Any]) -> None:
        sizes.append(len(rows))

    row.enqueue_many_sync([{}, {}])
    assert TestJobs(sqlite).drain()["completed"] == 2 == sum(sizes)


def test_batches_that_cannot_be_are_refused(sqlite: App) -> None:
    for options, words in [
        ({"max_size": 0}, "max_size must be 1 to 10000, got 0"),
        ({"max_size": 10_001}, "max_size must be 1 to 10000, got 10001"),
        ({"wait": "11m"}, "wait must be at most 10 minutes, .* got '11m'"),
        ({"wait": -1}, "wait must not be negative, got -1"),
    ]:
        with pytest.raises(InvalidOption, match=words):
            sqlite.batch("row", **options)  # type: ignore[arg-type]
