"""Middleware runs around every handler, wherever that runs, and sees what became of its job."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from programs import app_of, with_jobs
from windlass import App, Around, Cancel, Complete, Context, Discard, Outcome, Retry, Snooze
from windlass.errors import InvalidOption
from worked import drain, record

OUTCOMES: dict[str, Any] = {"complete": 7, "cancel": Cancel("no"), "discard": Discard("bad"), "retry": Retry("again"), "snooze": Snooze("1h")}


def defined(app: App, how: str) -> None:
    def work(n: str) -> Any:
        if n == "fails":
            raise ValueError("no route")
        if n == "later":
            raise Retry("the gateway is down", after="1h") from ConnectionError("refused")
        return OUTCOMES[n]

    if how == "task":

        @app.job("a")
        async def in_a_task(n: str) -> Any:
            return work(n)
    elif how == "thread":

        @app.job("a")
        def in_a_thread(n: str) -> Any:
            return work(n)
    elif how == "any":

        @app.handle_any
        async def anything(ctx: Context, args: Any) -> Any:
            return work(args["n"])
    else:

        @app.batch("a", max_size=100)
        async def together(args: list[dict[str, str]]) -> list[Any]:
            if any(one["n"] == "fails" for one in args):
                raise ValueError("no route")
            return [work(one["n"]) for one in args]


@pytest.mark.parametrize("how", ["task", "thread", "batch", "any"])
def test_it_sees_every_end_and_the_first_is_the_outermost(sqlite: App, how: str) -> None:
    seen: list[str] = []
    told: dict[str, Outcome] = {}

    @sqlite.middleware
    def outer(ctx: Context) -> Around:
        assert how == "batch" or Context.current().id == ctx.id
        seen.append("outer begins")
        outcome = yield
        told[str(ctx.tags[0])] = outcome
        seen.append("outer ends")

    @sqlite.middleware
    def inner(ctx: Context) -> Around:
        seen.append("inner begins")
        yield
        seen.append("inner ends")

    defined(sqlite, how)
    other = App(sqlite.connection.url)

    @other.declare("a")
    def sent(n: str) -> None: ...

    for n in [*OUTCOMES, "fails"]:
        sent.with_options(tags=[n], max_attempts=2).enqueue_sync(n=n)
        asyncio.run(drain(sqlite, queues={"default": 1}))
        assert seen == ["outer begins", "inner begins", "inner ends", "outer ends"], n
        seen.clear()
    assert {n: told[n] for n in OUTCOMES} == {**OUTCOMES, "complete": Complete(7)}
    failed = told["fails"]
    assert isinstance(failed, Retry) and isinstance(failed.__cause__, ValueError) and "no route" in failed.error
    states = {job.tags[0]: job.state for job in sqlite.sync.jobs().jobs}
    wanted = {"cancel": "cancelled", "discard": "discarded", "retry": "retryable", "snooze": "scheduled", "fails": "retryable"}
    assert states == {"complete": "completed", **wanted}
    other.close()


@pytest.mark.parametrize("how", ["task", "thread", "batch", "any"])
def test_it_may_change_the_outcome_and_leave_the_handler_out(sqlite: App, how: str) -> None:
    @sqlite.middleware
    def around(ctx: Context) -> Around:
        if ctx.tags == ["out"]:
            return Cancel("left out")
        outcome = yield
        if ctx.tags == ["fails"]:
            assert isinstance(outcome, Retry) and isinstance(outcome.__cause__, ValueError)
            return Discard("not again")
        return Complete("another") if ctx.tags == ["changed"] else None

    defined(sqlite, how)
    other = App(sqlite.connection.url)

    @other.declare("a")
    def sent(n: str) -> None: ...

    def sending(tag: str, n: str) -> int:
        id = sent.with_options(tags=[tag]).enqueue_sync(n=n)
        asyncio.run(drain(sqlite, queues={"default": 1}))
        return id

    jobs = [record(sqlite, sending(*one)) for one in [("out", "fails"), ("fails", "fails"), ("changed", "complete"), ("kept", "complete")]]
    assert [(job.state, job.reason or job.result) for job in jobs] == [
        ("cancelled", "left out"), ("discarded", "not again"), ("completed", "another"), ("completed", 7)
    ]  # fmt: skip
    other.close()


def test_it_runs_around_child_processes_in_a_thread_of_the_worker(tmp_path: Path) -> None:
    with_jobs(
        tmp_path,
        """
        import os
        from windlass import App, Discard

        FOLDER = os.path.dirname(os.path.abspath(__file__))
        app = App(f"sqlite:{FOLDER}/jobs.db?synchronous=normal")

        @app.job("child", process=True)
        def child(n: int) -> dict:
            if n == 2:
                raise ValueError("no route")
            return {"n": n}
        """,
    )
    import sys

    sys.path.insert(0, str(tmp_path))
    try:
        import jobs  # type: ignore[import-not-found]

        app: App = jobs.app
        seen: list[Outcome] = []

        @app.middleware
        def around(ctx: Context) -> Around:
            assert threading.current_thread().name.startswith("windlass-child")
            outcome = yield
            seen.append(outcome)
            return Discard("not again") if isinstance(outcome, Retry) else None

        ids = [jobs.child.enqueue_sync(n=1), jobs.child.enqueue_sync(n=2)]
        asyncio.run(drain(app, processes=1))
        assert seen[0] == Complete({"n": 1}) and isinstance(seen[1], Retry) and "no route" in seen[1].error
        assert (record(app, ids[0]).result, record(app, ids[1]).state) == ({"n": 1}, "discarded")
        app.close()
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("jobs", None)


def test_it_is_told_of_a_job_that_is_stopped_and_dropped_with_one_that_is_taken_away(sqlite: App) -> None:
    begun = asyncio.Event()
    seen: list[Any] = []

    @sqlite.middleware
    def around(ctx: Context) -> Around:
        try:
            seen.append((yield))
        finally:
            seen.append("over")

    @sqlite.job("a")
    async def forever() -> None:
        begun.set()
        await asyncio.sleep(3600)

    async def main() -> None:
        async with sqlite.worker(grace_period=0) as worker:
            id = await forever.enqueue()
            await begun.wait()
            await sqlite.client.cancel(id)
            await worker.until_idle()
            [outcome, over] = seen
            assert isinstance(outcome, Retry) and isinstance(outcome.__cause__, asyncio.CancelledError) and over == "over"
            seen.clear()
            begun.clear()
            await forever.enqueue()
            await begun.wait()

    asyncio.run(main())
    assert seen == ["over"]


def test_what_it_does_wrong_fails_the_attempt_and_is_said(sqlite: App) -> None:
    wrong: list[Any] = []

    @sqlite.middleware
    def around(ctx: Context) -> Any:
        yield from wrong[0](ctx)
        return None

    def raises(ctx: Context) -> Any:
        raise ValueError("its own")
        yield

    def twice(ctx: Context) -> Any:
        yield
        yield

    def before(ctx: Context) -> Any:
        return
        yield

    @sqlite.job("a")
    async def a() -> None: ...

    for one, words in [(raises, "ValueError: its own"), (twice, "it yielded twice"), (before, "it returned without an outcome and did not yield")]:
        wrong[:] = [one]
        id = a.enqueue_sync()
        asyncio.run(drain(sqlite))
        assert words in record(sqlite, id).errors[0]["error"]
    with pytest.raises(InvalidOption, match="not_one must be a generator function"):

        @sqlite.middleware
        def not_one(ctx: Context) -> None: ...  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["task", "thread", "batch", "any"])
def test_an_outcome_that_is_raised_from_an_error_is_that_outcome(sqlite: App, caplog: pytest.LogCaptureFixture, how: str) -> None:
    """As in ``except ConnectionError as error: raise Retry("the gateway is down", after="1h") from error``: its words and its delay are those of the job."""
    seen: list[Outcome] = []

    @sqlite.middleware
    def around(ctx: Context) -> Around:
        seen.append((yield))
        if ctx.tags == ["again"]:
            raise Retry("the middleware waits", after="2h") from OSError("a lock")
        return None

    defined(sqlite, how)
    other = App(sqlite.connection.url)

    @other.declare("a")
    def sent(n: str) -> None: ...

    for tag, words, hours in [("once", "the gateway is down", 1), ("again", "the middleware waits", 2)]:
        id = sent.with_options(tags=[tag]).enqueue_sync(n="later")
        asyncio.run(drain(sqlite, queues={"default": 1}))
        job = record(sqlite, id)
        assert (job.state, job.errors[0]["error"]) == ("retryable", words), job
        assert job.scheduled_at is not None and job.scheduled_at - job.enqueued_at > timedelta(hours=hours - 0.5)
    assert seen == [Retry("the gateway is down", after="1h")] * 2
    assert not [said for said in caplog.messages if "failed" in said], "nothing was raised but an outcome"
    other.close()
