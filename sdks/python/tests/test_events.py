"""What happened to jobs: read as it comes, and counted."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import datetime, timedelta, timezone

import pytest

from windlass import App, Event, EventPage, Job
from windlass.errors import InvalidOption


@pytest.fixture
def job(app: App) -> Job[[int]]:
    @app.job("a", queue="q")
    def job(n: int = 0) -> None: ...

    return job


def test_all_events_come_page_after_page(app: App, job: Job[[int]]) -> None:
    ids = job.enqueue_many_sync([{"n": n} for n in range(5)])
    events = app.sync.follow_events(queues=["q"], events=["enqueued"], limit=2)
    assert events.position is None
    read = [next(events) for _ in range(3)]
    assert [event.id for event in read] == ids[:3] and events.position == read[-1].cursor

    async def rest() -> list[int]:
        found: list[int] = []
        async for event in app.client.follow_events(after=read[-1].cursor, kinds=["a"], events=["enqueued"], limit=1):
            found.append(event.id)
            if len(found) == 2:
                break
        return found

    assert asyncio.run(rest()) == ids[3:]
    with pytest.raises(InvalidOption):
        next(app.sync.follow_events(after="no cursor"))
    for lists in ({"queues": "q"}, {"kinds": "a"}, {"events": "enqueued"}):  # which would be as many names as it has letters
        for ask in (app.sync.events, app.sync.follow_events, app.client.follow_events):
            with pytest.raises(InvalidOption, match="must be a list of names"):
                ask(**lists)


def test_pages_say_whether_more_follows(app: App, job: Job[[int]]) -> None:
    ids = job.enqueue_many_sync([{"n": n} for n in range(3)])
    events = app.sync.follow_events(limit=2)
    first = next(events)
    page = events.page_sync()
    assert ([first.id, *(event.id for event in page.events)], page.more, page.next == events.position) == (ids[:2], True, True)

    async def rest() -> list[EventPage]:
        events = app.client.follow_events(after=page.next)
        pages = [await events.page()]
        while pages[-1].more:
            pages.append(await events.page())
        return pages

    pages = asyncio.run(rest())
    assert [event.id for page in pages for event in page.events] == ids[2:]
    assert app.sync.events(after=page.next) == (pages[0].events, pages[0].next), "as ever"


def test_an_iteration_waits_for_what_comes(app: App, job: Job[[int]]) -> None:
    async def main() -> tuple[int, Event]:
        events = app.client.follow_events(after="now")
        assert (await events.page()).events == []
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(events), 0.1)
        id = await job.enqueue(1)
        return id, await asyncio.wait_for(anext(events), 60)

    id, event = asyncio.run(main())
    assert (event.id, event.event) == (id, "enqueued")
    timer = threading.Timer(0.1, job.enqueue_sync, [2])
    timer.start()
    for event in app.sync.follow_events(after=event.cursor):
        assert event.id > id
        break
    timer.join()


def test_history_has_times_and_says_until_when(sqlite: App) -> None:
    @sqlite.job("a", queue="q")
    async def job() -> None: ...

    async def main() -> None:
        id = await job.enqueue()
        async with sqlite.worker():
            await sqlite.client.wait(id)
            until = time.monotonic() + 60
            while not (history := await sqlite.client.history("1h")).counts and time.monotonic() < until:
                await asyncio.sleep(0.1)
        [count] = history.counts
        assert (count.queue, count.kind, count.outcome, count.count, history.step) == ("q", "a", "completed", 1, 60)
        assert abs(count.at - datetime.now(timezone.utc)) < timedelta(minutes=5)
        assert abs(history.counted_until - datetime.now(timezone.utc)) < timedelta(minutes=5)

    asyncio.run(main())
    assert sqlite.sync.history("1h", step="2m", outcome="failed").counts == []


def test_timings_failures_and_marks(sqlite: App) -> None:
    @sqlite.job("good", queue="q")
    async def good() -> None: ...

    @sqlite.job("bad", queue="q", max_attempts=1)
    async def bad() -> None:
        raise KeyError("city")

    async def main() -> int:
        ids = [await good.enqueue(), await bad.enqueue()]
        async with sqlite.worker():
            for id in ids:
                await sqlite.client.wait(id)
        await sqlite.client.mark("release 7", "ci")
        return ids[1]

    failed = asyncio.run(main())
    timed = {each.kind: each for each in sqlite.sync.timings("1d", step="1d", queue="q")}
    assert set(timed) == {"good", "bad"} and timed["good"].run.count == timed["good"].wait.count == 1
    assert timed["bad"].run.p99_ms is not None and timed["bad"].run.p99_ms < 60_000
    [failure] = sqlite.sync.failures("1d")
    assert (failure.last_job, failure.count, failure.kind) == (failed, 1, "bad")
    assert "city" in failure.sample
    assert [(mark.label, mark.actor) for mark in sqlite.sync.marks("1h")] == [("release 7", "ci")]
    with pytest.raises(InvalidOption, match="label of a mark is empty"):
        sqlite.sync.mark(" ", "ci")
