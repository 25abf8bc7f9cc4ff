"""Batches that are handed in the contexts of their jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from worked import drain, record

from windlass import App, Context
from windlass.errors import InvalidOption
from windlass.testing import TestJobs


@dataclass
class Row:
    n: int


@pytest.mark.parametrize("is_async", [True, False])
def test_a_batch_has_the_context_of_each_job(app: App, is_async: bool) -> None:
    def work(contexts: list[Context], args: list[dict[str, int]]) -> list[Any]:
        for ctx, each in zip(contexts, args, strict=True):
            ctx.log(f"n is {each['n']}")
            ctx.progress(50)
        return [[ctx.id, ctx.attempt, ctx.key, ctx.meta, ctx.tags, ctx.args_json, ctx.cancelled] for ctx in contexts]

    @app.batch("async", max_size=10)
    async def in_a_task(contexts: list[Context], args: list[dict[str, int]]) -> list[Any]:
        await contexts[0].checkpoint(args[0]["n"])
        assert await contexts[0].last_checkpoint() == args[0]["n"]
        return work(contexts, args)

    @app.batch("sync", max_size=10)
    def in_a_thread(contexts: Sequence[Context], args: list[dict[str, int]]) -> list[Any]:
        contexts[0].checkpoint_sync(args[0]["n"])
        return work(list(contexts), args)

    job = (in_a_task if is_async else in_a_thread).with_options(key="acme", meta={"who": "me"}, tags=["x"])
    ids = job.enqueue_many_sync([{"n": n} for n in range(3)])
    asyncio.run(drain(app))
    for n, id in enumerate(ids):
        done = record(app, id)
        assert [*done.result[:5], done.result[5].replace(" ", ""), done.result[6]] == [id, 1, "acme", {"who": "me"}, ["x"], f'{{"n":{n}}}', None]
        assert [line["text"] for line in done.report["log"]] == [f"n is {n}"]  # type: ignore[index]
    assert app.sync.checkpoint(ids[0]) == 0


def test_contexts_are_of_the_jobs_whose_args_fit(sqlite: App) -> None:
    @sqlite.batch("rows", args=Row, max_size=10)
    async def rows(contexts: list[Context], found: list[Row]) -> list[list[int]]:
        return [[ctx.id, row.n] for ctx, row in zip(contexts, found, strict=True)]

    ids = rows.enqueue_many_sync([Row(1), Row(2), Row(3)])
    sqlite.sync.edit(ids[1], args={"m": 2})
    asyncio.run(drain(sqlite))
    assert [record(sqlite, id).result for id in ids] == [[ids[0], 1], None, [ids[2], 3]]
    assert record(sqlite, ids[1]).state == "discarded"


def test_a_context_of_a_batch_says_that_its_job_was_cancelled(sqlite: App) -> None:
    begun = asyncio.Event()

    @sqlite.batch("slow", max_size=10)
    async def slow(contexts: list[Context], args: list[Any]) -> list[Any]:
        begun.set()
        while not any(ctx.cancelled for ctx in contexts):
            await asyncio.sleep(0.01)
        return [ctx.cancelled for ctx in contexts]

    async def main() -> list[int]:
        ids = await slow.enqueue_many([{}, {}])
        async with sqlite.worker() as worker:
            await begun.wait()
            await sqlite.client.cancel(ids[0])
            await worker.until_idle()
        return ids

    _, second = asyncio.run(main())
    assert record(sqlite, second).result is None and record(sqlite, second).state == "completed"


def test_jobs_of_a_batch_complete_in_the_users_transaction(postgres: str) -> None:
    app = App(postgres)

    @app.batch("pay", max_size=10)
    def pay(contexts: list[Context], args: list[Any]) -> None:
        with psycopg.connect(postgres) as connection:
            for ctx in contexts:
                ctx.complete_in_sync(connection)

    ids = pay.enqueue_many_sync([{}, {}])
    asyncio.run(drain(app))
    assert [record(app, id).state for id in ids] == ["completed", "completed"]
    app.close()


def test_a_batch_by_itself_has_them_too(sqlite: App) -> None:
    @sqlite.batch("index", queue="events")
    async def index(contexts: list[Context], args: list[dict[str, int]]) -> list[Any]:
        return [[ctx.id, ctx.queue, each["n"]] for ctx, each in zip(contexts, args, strict=True)]

    wanted = [[1, "events", 7], [2, "events", 8]]
    assert TestJobs(sqlite).perform_batch(index, [{"n": 7}, {"n": 8}]) == wanted
    assert asyncio.run(TestJobs(sqlite).perform_batch_async(index, [{"n": 7}, {"n": 8}])) == wanted


def test_a_batch_of_contexts_alone_is_refused(sqlite: App) -> None:
    with pytest.raises(InvalidOption, match="behind them it must take the list of their args"):

        @sqlite.batch("alone")
        async def alone(contexts: list[Context]) -> None: ...
