"""Jobs are run: as tasks, in threads and in batches, and end as their handlers say."""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from worked import drain, record

from windlass import App, Cancel, Context, Discard, JobRecord, RetentionRule, Retry, Snooze, Unique
from windlass.errors import InvalidOption

LONG = 60


def test_what_a_handler_returns_is_the_result(app: App) -> None:
    @app.job("async")
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return n * 2

    @app.job("sync")
    def triple(n: int) -> dict[str, int]:
        return {"n": n * 3}

    @app.job("nothing")
    async def nothing() -> None: ...

    ids = [double.enqueue_sync(4), triple.enqueue_sync(4), nothing.enqueue_sync()]
    stats = asyncio.run(drain(app))
    assert [record(app, id).result for id in ids] == [8, {"n": 12}, None]
    assert (stats["completed"], stats["running"]) == (3, 0)
    assert app.sync.result(ids[0]) == 8


@pytest.mark.parametrize("is_async", [True, False])
def test_outcomes_are_returned_or_raised(app: App, is_async: bool) -> None:
    outcomes = {
        "cancel": Cancel("not wanted"),
        "discard": Discard("never"),
        "retry": Retry("later", after="1h"),
        "snooze": Snooze("1h"),
    }

    def say(how: str, raises: bool) -> Any:
        if raises:
            raise outcomes[how]
        return outcomes[how]

    async def say_async(how: str, raises: bool) -> Any:
        return say(how, raises)

    job = app.job("say")(say_async if is_async else say)
    ids = [(how, job.enqueue_sync(how=how, raises=raises)) for how in outcomes for raises in (True, False)]
    asyncio.run(drain(app))
    states = {"cancel": "cancelled", "discard": "discarded", "retry": "retryable", "snooze": "scheduled"}
    for how, id in ids:
        job_record = record(app, id)
        assert job_record.state == states[how]
        if how in ("cancel", "discard"):
            assert job_record.reason == str(outcomes[how])
        if how == "retry":
            assert job_record.errors[0]["error"] == "later"


@pytest.mark.parametrize("is_async", [True, False])
def test_whatever_a_handler_raises_is_a_failed_attempt(app: App, is_async: bool) -> None:
    def fail(how: str) -> None:
        if how == "exit":
            raise SystemExit(3)
        if how == "interrupt":
            raise KeyboardInterrupt
        if how == "generator":
            raise GeneratorExit
        if how == "group":
            raise RuntimeError("outer") from ValueError("inner")
        raise TypeError("a handler's own")

    async def fail_async(how: str) -> None:
        fail(how)

    job = app.job("fail", max_attempts=2)(fail_async if is_async else fail)
    ids = [job.enqueue_sync(how=how) for how in ("exit", "interrupt", "generator", "group", "type")]
    asyncio.run(asyncio.wait_for(drain(app, grace_period=0.1), 20))
    errors = [record(app, id).errors[0]["error"] for id in ids]
    assert [error.strip().splitlines()[-1] for error in errors] == ["SystemExit: 3", "KeyboardInterrupt", "GeneratorExit", "RuntimeError: outer", "TypeError: a handler's own"]
    assert "ValueError: inner" in errors[3] and "in fail" in errors[3]
    assert {record(app, id).state for id in ids} == {"retryable"}


def test_args_that_do_not_fit_are_discarded(sqlite: App) -> None:
    @sqlite.job("a")
    def sent(**args: Any) -> None: ...

    ids = sent.enqueue_many_sync([{"n": 1}, {"m": 1}, {"n": 1, "m": 1}, {}])

    del sqlite.jobs["a"]

    @sqlite.job("a")
    async def job(n: int) -> int:
        return n

    asyncio.run(drain(sqlite))
    assert [record(sqlite, id).state for id in ids] == ["completed", "discarded", "discarded", "discarded"]
    assert "the args do not fit" in str(record(sqlite, ids[1]).reason)


def test_odd_returns_are_told_kindly(sqlite: App) -> None:
    @sqlite.job("coroutine")
    def coroutine() -> Any:
        return asyncio.sleep(0)

    @sqlite.job("no.json")
    async def no_json() -> Any:
        return object()

    @sqlite.job("generator")
    def generator() -> Any:
        return (n for n in range(3))

    async def numbers() -> AsyncIterator[int]:
        yield 1

    @sqlite.job("async.generator")
    async def async_generator() -> Any:
        return numbers()

    ids = [job.enqueue_sync() for job in (coroutine, no_json, generator, async_generator)]
    asyncio.run(drain(sqlite))
    assert "is no async function and returned a coroutine" in record(sqlite, ids[0]).errors[0]["error"]
    assert "cannot be stored" in str(record(sqlite, ids[1]).reason)
    assert "generator returned a generator, from which nobody takes anything" in record(sqlite, ids[2]).errors[0]["error"]
    assert "async_generator returned a async_generator" in record(sqlite, ids[3]).errors[0]["error"]


def test_the_context_tells_and_speaks(app: App) -> None:
    seen: dict[str, Any] = {}

    @app.job("async", tags=["x"], key="acme", meta={"who": "me"})
    async def in_a_task(ctx: Context, n: int) -> str:
        assert Context.current() is ctx
        before = await ctx.last_checkpoint()
        ctx.progress(50, "half")
        ctx.log(f"attempt {ctx.attempt}")
        if before is None:
            await ctx.checkpoint({"n": n})
            raise Retry("again", after=0)
        seen["async"] = (ctx.kind, ctx.queue, ctx.attempt, ctx.max_attempts, ctx.tags, ctx.key, ctx.meta, ctx.is_last_attempt, ctx.cancelled, before)
        return ctx.args_json

    @app.job("sync")
    def in_a_thread(n: int) -> None:
        ctx = Context.current()
        if ctx.last_checkpoint_sync() is None:
            ctx.checkpoint_sync([1.5])
            raise Retry(after=0)
        seen["sync"] = (ctx.last_checkpoint_sync(), ctx.cancelled)

    ids = [in_a_task.enqueue_sync(7), in_a_thread.enqueue_sync(7)]
    asyncio.run(drain(app))
    assert seen["async"] == ("async", "default", 2, 20, ["x"], "acme", {"who": "me"}, False, None, {"n": 7})
    assert seen["sync"] == ([1.5], None)
    job = record(app, ids[0])
    assert job.result == '{"n":7}' and job.report is not None
    assert [line["text"] for line in job.report["log"]] == ["attempt 1", "attempt 2"]
    assert app.sync.checkpoint(ids[0]) == {"n": 7}
    with pytest.raises(InvalidOption, match="inside a handler"):
        Context.current()


def test_batches_take_what_is_there(app: App) -> None:
    sizes: list[int] = []

    @app.batch("async", max_size=4)
    async def index(jobs: list[Any]) -> list[Any]:
        sizes.append(len(jobs))
        return [Discard("odd") if job["n"] % 2 else job["n"] for job in jobs]

    @app.batch("sync", max_size=100)
    def wrong(jobs: list[Any]) -> list[Any]:
        return [None] * (len(jobs) + 1)

    @app.batch("fails")
    async def fails(jobs: list[Any]) -> None:
        raise ValueError("all of them")

    ids = index.enqueue_many_sync([{"n": n} for n in range(50)])
    [one, two] = wrong.enqueue_many_sync([{"n": 1}, {"n": 2}])
    failed = fails.enqueue_many_sync([{"n": 1}, {"n": 2}])
    asyncio.run(drain(app, queues={"default": 100}))
    # What is there may be less than what comes.
    assert 1 < max(sizes) <= 4 and sum(sizes) == 50
    assert [(record(app, id).state, record(app, id).result) for id in ids[:3]] == [("completed", 0), ("discarded", None), ("completed", 2)]
    assert "one outcome for each of " in record(app, one).errors[0]["error"]
    assert {record(app, id).state for id in (two, *failed)} == {"retryable"}
    assert "ValueError: all of them" in record(app, failed[1]).errors[0]["error"]


def test_nothing_leaks_from_one_job_to_the_next(sqlite: App) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    seen: list[int] = []

    @sqlite.job("async")
    async def in_a_task(n: int) -> None:
        seen.append(variable.get())
        variable.set(n)

    @sqlite.job("sync")
    def in_a_thread(n: int) -> None:
        seen.append(variable.get())
        variable.set(n)

    for job in (in_a_task, in_a_thread):
        job.enqueue_many_sync([{"n": n} for n in range(1, 501)])
    variable.set(0)
    asyncio.run(drain(sqlite, threads=2))
    assert seen == [0] * 1_000


def test_a_drained_worker_ends_what_it_runs_and_goes(app: App) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.job("waits")
    async def waits() -> None:
        started.set()
        await go.wait()

    async def main() -> JobRecord | None:
        async with app.worker(lease=5) as worker:
            id = await waits.enqueue()
            await started.wait()
            (live,) = [each for each in (await app.client.status())["workers"] if each["live"]]
            await app.client.drain_worker(live["id"])
            go.set()
            await worker.wait()
            return await app.client.job(id)

    ended = asyncio.run(main())
    assert ended is not None and ended.state == "completed"


def test_a_running_job_is_cancelled(app: App) -> None:
    started = asyncio.Event()
    stopped: list[str | None] = []

    @app.job("async")
    async def sleeps(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            stopped.append(ctx.cancelled)
            raise

    in_thread = threading.Event()

    @app.job("sync")
    def looks(ctx: Context) -> None:
        in_thread.set()
        while ctx.cancelled is None:
            time.sleep(0.01)
        stopped.append(ctx.cancelled)
        raise Cancel("as told")

    async def main() -> list[JobRecord | None]:
        async with app.worker(lease=5):
            ids = [await sleeps.enqueue(), await looks.enqueue()]
            await started.wait()
            await asyncio.to_thread(in_thread.wait)
            assert await app.client.cancel(ids) == ["running", "running"]
            return [await app.client.wait(id, LONG) for id in ids]

    ended = asyncio.run(main())
    assert [job.state for job in ended if job] == ["cancelled", "cancelled"]
    assert stopped == ["cancelled", "cancelled"]


def test_a_job_that_takes_too_long_times_out(app: App) -> None:
    @app.job("slow", timeout=0.05, max_attempts=1)
    async def slow() -> None:
        await asyncio.sleep(LONG)

    async def main() -> JobRecord | None:
        async with app.worker():
            return await app.client.wait(await slow.enqueue(), LONG)

    job = asyncio.run(main())
    assert job is not None and job.state == "discarded" and "timeout" in str(job.reason)


def test_a_blocked_event_loop_keeps_its_lease(app: App) -> None:
    runs: list[int] = []

    @app.job("a")
    async def blocks(ctx: Context) -> None:
        runs.append(ctx.attempt)
        time.sleep(3.5)  # three leases

    async def main() -> JobRecord | None:
        async with app.worker(lease=1):
            return await app.client.wait(await blocks.enqueue(), LONG)

    job = asyncio.run(main())
    assert runs == [1] and job is not None and job.state == "completed"


def test_limits_and_keys_hold_for_python_handlers(app: App) -> None:
    running, most = 0, 0

    @app.job("a")
    async def job(n: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    async def main() -> None:
        await job.enqueue_many([{"n": n} for n in range(60)])
        await app.client.limit("default", concurrency=3)
        await drain(app, queues={"default": 50})

    asyncio.run(main())
    assert 1 <= most <= 3 and app.sync.queues()[0].completed == 60


def test_schedules_are_declared_by_the_worker_and_removed_when_they_are_gone(app: App) -> None:
    @app.job("report", queue="reports")
    async def report(day: str = "today") -> None: ...

    app.schedule("nightly", "30 2 * * *", report, {"day": "yesterday"}, zone="Europe/Berlin", overlap="skip", missed=3)
    app.schedule("often", "every 90s", report)
    asyncio.run(drain(app))
    [nightly, often] = app.sync.schedules()
    assert (nightly.name, nightly.definition["args"], nightly.definition["missed"]) == ("nightly", {"day": "yesterday"}, {"all": 3})
    id = app.sync.run_schedule("nightly")
    assert app.sync.schedule("nightly").last_job == id  # type: ignore[union-attr]
    app.sync.pause_schedule("often")
    assert app.sync.schedule("often").paused  # type: ignore[union-attr]
    app._schedules.pop()
    asyncio.run(drain(app))
    assert [schedule.name for schedule in app.sync.schedules()] == ["nightly"]
    with pytest.raises(InvalidOption, match="minute"):
        app.schedule("bad", "61 * * * *", report)
        asyncio.run(app.declare_schedules())


def test_a_wrong_worker_is_refused(sqlite: App) -> None:
    for queues, says in [({}, "name at least one queue"), ({"a": 0}, "at least 1 job"), ({"a": True}, "at least 1 job")]:
        with pytest.raises(InvalidOption, match=says):
            sqlite.worker(queues)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="has no jobs"):
        asyncio.run(drain(sqlite))
    with pytest.raises(InvalidOption, match="not started"):
        sqlite.worker().stop()

    @sqlite.job("a")
    def job() -> None: ...

    with pytest.raises(InvalidOption, match="threads must be at least 1"):
        sqlite.worker(threads=0)

    async def twice() -> None:
        async with sqlite.worker() as worker:
            await worker.start()

    with pytest.raises(InvalidOption, match="started before"):
        asyncio.run(twice())


def test_large_args_come_in_parts_and_a_kept_job_keeps_no_bytes(sqlite: App) -> None:
    kept: list[Context] = []

    @sqlite.job("big", unique=None)
    async def big(ctx: Context, text: str) -> int:
        kept.append(ctx)
        return len(text)

    ids = [big.enqueue_sync(text="x" * 1_000_000) for _ in range(5)]
    asyncio.run(drain(sqlite))
    assert [record(sqlite, id).result for id in ids] == [1_000_000] * 5
    with pytest.raises(ValueError, match="its args are gone"):
        kept[0].args_json


def test_unique_jobs_run_again_after_their_end(app: App) -> None:
    @app.job("a", unique=Unique())
    async def job(n: int) -> None: ...

    first = job.enqueue_sync(1)
    assert job.enqueue_sync(1) == first
    asyncio.run(drain(app))
    assert job.enqueue_sync(1) != first


def test_one_job_of_a_batch_is_cancelled_and_the_others_go_on(sqlite: App) -> None:
    started, free = asyncio.Event(), asyncio.Event()

    @sqlite.batch("index")
    async def index(jobs: list[Any]) -> list[Any]:
        if len(jobs) < 2:  # a batch is what is there
            return [Snooze("10ms")]
        started.set()
        await free.wait()
        return [job["n"] for job in jobs]

    async def main() -> list[int]:
        ids = await index.enqueue_many([{"n": 1}, {"n": 2}])
        async with sqlite.worker(lease=5) as worker:
            await started.wait()
            assert await sqlite.client.cancel(ids[0]) == ["running"]
            while not worker._reasons:
                await asyncio.sleep(0.01)
            free.set()
            await worker.until_idle()
        return ids

    ids = asyncio.run(main())
    assert (record(sqlite, ids[1]).state, record(sqlite, ids[1]).result, record(sqlite, ids[1]).attempt) == ("completed", 2, 1)


def test_jobs_of_unknown_kinds_wait_for_a_worker_that_knows_them(app: App) -> None:
    other = App(app.connection._url)

    @other.job("unknown")
    async def unknown() -> None: ...

    @app.job("known")
    async def known() -> None: ...

    ids = [unknown.enqueue_sync(), known.enqueue_sync()]
    asyncio.run(drain(app))
    waits = record(app, ids[0])
    assert (waits.state, waits.attempt, record(app, ids[1]).state) == ("available", 0, "completed")
    asyncio.run(drain(other))
    assert record(app, ids[0]).state == "completed"
    other.close()


def test_one_unreadable_job_never_fails_its_batch(app: App) -> None:
    @dataclass
    class Point:
        n: int

    seen: list[int] = []

    @app.batch("points", args=Point)
    async def points(jobs: list[Point]) -> list[int]:
        seen.extend(job.n for job in jobs)
        return [job.n for job in jobs]

    other = App(app.connection.url)

    @other.job("points")
    def anything(**args: Any) -> None: ...

    ids = anything.enqueue_many_sync([{"n": 1}, {"m": 2}, {"n": 3}])
    asyncio.run(drain(app))
    assert [record(app, id).state for id in ids] == ["completed", "discarded", "completed"]
    assert "the args do not fit" in str(record(app, ids[1]).reason) and sorted(seen) == [1, 3]
    other.close()


def test_the_policy_of_the_store_is_read_and_changed(app: App) -> None:
    before = app.sync.settings()
    app.sync.configure(retention="2d", max_crashes=5)
    assert app.sync.settings() == before | {"retention_ms": 172_800_000, "max_crashes": 5}
    rules = [RetentionRule("discarded", queue="mail", age="30d", count=1000), RetentionRule("completed", age="1h")]
    app.sync.set_retention(rules)
    kept = {(rule.queue, rule.outcome): (rule.age, rule.count) for rule in asyncio.run(app.client.retention())}
    assert kept == {("mail", "discarded"): (2_592_000, 1000), (None, "completed"): (3600, None)}
    app.sync.set_retention([RetentionRule("completed")])
    assert [rule.outcome for rule in app.sync.retention()] == ["discarded"]
    with pytest.raises(InvalidOption):
        app.sync.configure(max_crashes=1)


def test_a_worker_is_listed_with_what_it_runs(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.job("any")
    async def run() -> None: ...

    monkeypatch.setenv("WINDLASS_APP_VERSION", "2.4.0")

    async def listed(**options: Any) -> tuple[Any, ...]:
        async with app.worker(**options):
            worker = (await app.client.status())["workers"][0]
        return tuple(worker[field] for field in ("program", "app_version", "engine", "memory_bytes", "jobs_per_second"))

    program, version, engine, memory, rate = asyncio.run(listed())
    assert (program, version) == (os.path.basename(sys.argv[0]), "2.4.0")
    # Nothing before its first heartbeat, which the store may ask for at once.
    assert (memory is None or memory > 2**20) and not rate
    assert engine.startswith("Python ")
    assert asyncio.run(listed(program="shop", app_version="2.4.1"))[:2] == ("shop", "2.4.1")
    with pytest.raises(InvalidOption, match="app_version of a worker must be without control characters"):
        asyncio.run(listed(app_version="a\nb"))


def test_what_is_no_text_in_a_log_line_costs_no_attempt(sqlite: App) -> None:
    """Names of files may have halves of surrogate pairs."""

    @sqlite.job("a")
    def job(ctx: Context) -> None:
        ctx.log("imports bad\udcff.csv")
        ctx.progress(50, "bad\udcff.csv")

    id = job.enqueue_sync()
    asyncio.run(drain(sqlite))
    done = record(sqlite, id)
    assert done.state == "completed" and done.report is not None
    progress = done.report["progress"]
    assert "imports bad" in done.report["log"][0]["text"] and progress is not None and str(progress["note"]).startswith("bad")
    assert done.report["log"][0]["at"].tzinfo is not None and done.report["reported_at"] >= done.enqueued_at
