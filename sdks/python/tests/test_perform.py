"""Handlers by themselves, without a store."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from windlass import App, Cancel, Context, Discard, Retry
from windlass.errors import InvalidArgs, InvalidOption, Unsupported
from windlass.testing import Perform, TestJobs

app = App("postgres://nobody@127.0.0.1:1/nowhere")  # what no handler by itself reaches
jobs = TestJobs(app)
colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


@dataclass
class Row:
    n: int


@app.job("import", queue="slow", priority=3, max_attempts=5, tags=["x"], key="acme", meta={"who": "me"})
def import_(ctx: Context, parts: int) -> list[Any]:
    assert Context.current() is ctx
    colour.set("red")
    for part in range(ctx.last_checkpoint_sync() or 0, parts):
        ctx.progress(100 * part / parts, f"part {part}")
        ctx.log(f"part {part}")
        ctx.checkpoint_sync(part + 1)
        if ctx.cancelled:
            raise Cancel(ctx.cancelled)
    return [ctx.id, ctx.kind, ctx.queue, ctx.priority, ctx.attempt, ctx.is_last_attempt, ctx.tags, ctx.key, ctx.meta, ctx.args_json]


@app.job("ask")
async def ask(n: int) -> str:
    ctx = Context.current()
    if n < 0:
        raise ValueError("negative")
    await ctx.checkpoint({"n": n})
    await asyncio.sleep(0)
    return f"{ctx.kind} {await ctx.last_checkpoint()}"


@app.batch("index")
async def index(events: list[dict[str, int]]) -> list[Any] | None:
    if events[0]["n"] == 7:
        raise Discard("all of them")
    return None if events[0]["n"] == 8 else [Discard("odd") if event["n"] % 2 else threading.get_ident() for event in events]


@app.batch("rows", args=Row)
def rows(found: list[Row]) -> list[int]:
    return [row.n for row in found][:2]


FACTS = [1, "import", "slow", 3, 1, False, ["x"], "acme", {"who": "me"}, '{"parts":2}']


def test_a_handler_has_a_context() -> None:
    assert jobs.perform(import_, parts=2) == FACTS
    assert jobs.perform(import_.with_options(queue="fast", max_attempts=1), 2)[2:6] == ["fast", 3, 1, True]
    assert jobs.perform(ask, n=1) == "ask {'n': 1}"
    assert colour.get() == "none"
    with pytest.raises(ValueError, match="negative"):
        jobs.perform(ask, n=-1)
    with pytest.raises(InvalidArgs):
        jobs.perform(ask, m=1)
    with pytest.raises(InvalidOption, match="inside a handler"):
        Context.current()


def test_the_same_on_the_running_event_loop() -> None:
    async def main() -> None:
        assert await jobs.perform_async(import_, parts=2) == FACTS
        assert await jobs.perform_async(ask, n=1) == jobs.perform(ask, n=1) == "ask {'n': 1}"
        assert (await jobs.perform_batch_async(index, [{"n": 2}]))[0] == threading.get_ident() != jobs.perform_batch(index, [{"n": 2}])[0]
        assert await jobs.perform_batch_async(rows, [Row(1), Row(2)]) == [1, 2]
        assert await jobs.perform_batch_async(index, [{"n": 7}]) == [Discard("all of them")]
        with pytest.raises(InvalidOption, match="inside a handler"):
            Context.current()

    asyncio.run(main())
    assert colour.get() == "none"


def test_an_attempt_may_come_after_others_and_tells_what_was_said() -> None:
    third = Perform(import_, attempt=3, checkpoint=1)
    assert third.run(parts=3)[4] == 3
    assert (third.progress, third.log, third.checkpoint) == ((100 * 2 / 3, "part 2"), ["part 1", "part 2"], 3)
    told = Perform(import_, cancelled="timeout")
    assert asyncio.run(told.run_async(parts=3)) == Cancel("timeout") and told.checkpoint == 1


def test_a_batch_says_what_becomes_of_each() -> None:
    assert jobs.perform_batch(index, [{"n": 1}, {"n": 2}]) == [Discard("odd"), threading.get_ident()]
    assert jobs.perform_batch(index, [{"n": 8}, {"n": 2}]) == [None, None]
    assert jobs.perform_batch(index, [{"n": 7}, {"n": 2}]) == [Discard("all of them")] * 2
    assert jobs.perform_batch(rows, [Row(1), Row(2)]) == [1, 2]
    [one, _, three] = jobs.perform_batch(rows, [Row(1), Row(2), Row(3)])
    assert one == three == Retry("rows must return None, or a list of one outcome for each of 3 jobs; got 2")
    wrongs: list[tuple[Callable[[], Any], str]] = [
        (lambda: jobs.perform(index, n=1), "use perform_batch"),
        (lambda: jobs.perform_batch(ask, [{"n": 1}]), "use perform$"),
        (lambda: jobs.perform_batch(index, []), "at least one job"),
    ]
    for wrong, says in wrongs:
        with pytest.raises(InvalidOption, match=says):
            wrong()


def test_what_makes_no_sense_is_refused_as_in_a_worker(sqlite: App) -> None:
    @sqlite.job("a")
    def wrong(ctx: Context, how: str) -> Any:
        if how == "progress":
            ctx.progress(101)
        if how == "complete":
            ctx.complete_in_sync(object())
        return asyncio.sleep(0)

    with pytest.raises(InvalidOption, match="progress must be 0 to 100"):
        jobs.perform(wrong, how="progress")
    with pytest.raises(Unsupported, match="enqueue the job and drain"):
        jobs.perform(wrong, how="complete")
    assert "a is no async function and returned a coroutine" in str(jobs.perform(wrong, how="coroutine"))


def test_a_context_by_itself_says_all_that_others_say() -> None:
    @app.job("every")
    def every(ctx: Context) -> dict[str, Any]:
        return {name: getattr(ctx, name) for name, member in vars(Context).items() if isinstance(member, property)}

    assert jobs.perform(every)["expires_at"] is None
    soon = jobs.perform(every.with_options(expires_in="1h"))
    assert soon["expires_at"] - soon["enqueued_at"] == timedelta(hours=1)
    at = datetime(2100, 1, 1, tzinfo=timezone.utc)
    assert jobs.perform(every.with_options(expires_at=at))["expires_at"] == at
