"""Jobs and schedules as the store tells of them."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from worked import drain, record

from windlass import App, Backoff, Schedule
from windlass.errors import InvalidOption


def test_a_job_tells_its_options(app: App) -> None:
    @app.job("a", timeout="90s", backoff=Backoff("1m", "linear", max="1h"), cost=3)
    async def own() -> None: ...

    @app.job("b")
    async def plain() -> None: ...

    job, other = record(app, own.enqueue_sync()), record(app, plain.enqueue_sync())
    assert (job.timeout, job.cost, job.claimed_by) == (90, 3, None)
    assert job.retry_policy is not None and (job.retry_policy.base, job.retry_policy.growth, job.retry_policy.max) == (60, "linear", 3600)
    assert (other.timeout, other.retry_policy, other.cost) == (None, None, None)
    assert [job.timeout for job in app.sync.jobs(kind="a").jobs] == [90], "in lists, too"


def test_the_worker_that_holds_a_job_is_told(app: App) -> None:
    @app.job("a")
    async def job() -> int | None:
        [found] = (await app.client.jobs(state="running")).jobs
        return found.claimed_by

    id = job.enqueue_sync()
    asyncio.run(drain(app))
    [worker] = app.sync.status()["workers"]
    assert record(app, id).result == worker["id"] > 0


def test_a_schedule_is_previewed(app: App) -> None:
    @app.job("report")
    async def report(day: str = "today") -> None: ...

    after = datetime(2026, 6, 1, tzinfo=timezone.utc)
    nightly = Schedule("nightly", "30 2 * * *", report, zone="Europe/Berlin")
    ticks = [datetime(2026, 6, day, 0, 30, tzinfo=timezone.utc) for day in (1, 2, 3)]
    assert app.sync.preview_schedule(nightly, after=after, count=3) == ticks
    assert asyncio.run(app.client.preview_schedule(nightly, after=after, count=3)) == ticks
    assert len(app.sync.preview_schedule(app.schedule("often", "every 90s", report))) == 5
    assert app.sync.schedules() == [], "nothing is stored"
    with pytest.raises(InvalidOption, match="minute"):
        app.sync.preview_schedule(Schedule("bad", "61 * * * *", report))


def test_schedules_are_put_at_run_time(app: App) -> None:
    @app.job("report")
    async def report(customer: int) -> None: ...

    def of(customer: int, cron: str = "@daily") -> Schedule:
        return Schedule(f"report/{customer}", cron, report, {"customer": customer})

    first = app.sync.put_schedules([of(1), of(2)], source="customers")
    assert (first.replies, first.removed) == (["created", "created"], [])
    again = asyncio.run(app.client.put_schedules([of(1), of(2, "@hourly")], source="customers"))
    assert again.replies == ["unchanged", "changed"]
    assert app.sync.put_schedules([of(3)]).replies == ["created"], "beside those of the source"
    pruned = app.sync.put_schedules([of(1)], source="customers", prune=True)
    assert (pruned.replies, pruned.removed) == (["unchanged"], ["report/2"])
    assert [schedule.name for schedule in app.sync.schedules()] == ["report/1", "report/3"]
    with pytest.raises(InvalidOption, match="say which one: put_schedules"):
        app.sync.put_schedules([], prune=True)
    with pytest.raises(InvalidOption, match="say which one: put_schedules"):
        asyncio.run(app.client.put_schedules([], prune=True))


def test_schedules_are_put_from_a_file(app: App, tmp_path: Path) -> None:
    file = tmp_path / "schedules.toml"
    entry = '[[schedule]]\nname = "{}"\ncron = "@daily"\nkind = "report"\nargs = {{ customer = 7 }}\n'
    file.write_text('source = "shop"\n' + entry.format("a") + entry.format("b"))
    first = app.sync.put_schedule_file(file)
    assert (first.names, first.replies, first.removed) == (["a", "b"], ["created", "created"], [])
    file.write_text('source = "shop"\n' + entry.format("b"))
    again = asyncio.run(app.client.put_schedule_file(str(file), prune=True))
    assert (again.names, again.replies, again.removed) == (["b"], ["unchanged"], ["a"])
    assert record(app, app.sync.run_schedule("b")).args == {"customer": 7}
    file.write_text(entry.format("c"))
    with pytest.raises(InvalidOption, match="prune needs to know whose schedules it has"):
        app.sync.put_schedule_file(file, prune=True)
    file.write_text(entry.format("c").replace("@daily", "61 * * * *"))
    with pytest.raises(InvalidOption, match='schedules.toml: line 1: schedule "c": the minute'):
        app.sync.put_schedule_file(file)
    with pytest.raises(InvalidOption, match="cannot be read"):
        app.sync.put_schedule_file(tmp_path / "another.toml")
    with pytest.raises(InvalidOption, match="takes the path of a TOML file, got 5"):
        app.sync.put_schedule_file(5)  # type: ignore[arg-type]
    assert [schedule.name for schedule in app.sync.schedules()] == ["b"]


def test_a_schedule_tells_when_it_fires(app: App) -> None:
    @app.job("report")
    async def report() -> None: ...

    app.schedule("often", "every 1h", report, overlap="queue_one")

    async def main() -> None:
        async with app.worker():
            # Until the worker has looked at it, it is due at once.
            while not (often := await app.client.schedule("often")) or often.due_at != often.next_tick:
                await asyncio.sleep(0.05)
            assert often.next_tick is not None
            assert (often.last_enqueued_at, often.queued_tick) == (None, None)

    asyncio.run(asyncio.wait_for(main(), 60))
    app.sync.run_schedule("often")
    often = app.sync.schedule("often")
    assert often is not None and often.last_enqueued_at is not None
    assert abs(often.last_enqueued_at - datetime.now(timezone.utc)) < timedelta(minutes=5)
