"""What is done to all jobs that a filter selects, or to many by their ids."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from worked import record

from windlass import App
from windlass.errors import InvalidOption


@pytest.fixture
def ids(app: App) -> list[int]:
    @app.job("a", queue="q")
    def job(n: int) -> None: ...

    return job.enqueue_many_sync([{"n": n} for n in range(4)])


def test_all_that_a_filter_selects_is_edited(app: App, ids: list[int]) -> None:
    assert app.sync.edit_where({"priority": 7}, args={"n": 1}).done == 1
    assert asyncio.run(app.client.edit_where({"queue": "bulk", "delay": "1h"}, queue="q", at_most=2)).done == 2
    jobs = [record(app, id) for id in ids]
    assert [job.priority for job in jobs] == [0, 7, 0, 0]
    assert sorted((job.queue, job.state) for job in jobs) == [("bulk", "scheduled")] * 2 + [("q", "available")] * 2
    assert app.sync.edit_where({"now": True}, queue="bulk", dry_run=True).dry_run
    assert app.sync.edit(ids[0], args=None) == ["edited"] and record(app, ids[0]).args is None  # a value, as when a job is enqueued
    with pytest.raises(InvalidOption, match="unknown change 'colour'"):
        app.sync.edit_where({"colour": 1}, queue="q")  # type: ignore[typeddict-unknown-key]
    with pytest.raises(InvalidOption, match="the edit changes nothing"):
        app.sync.edit_where({}, queue="q")


def test_many_are_named_by_their_ids(app: App, ids: list[int]) -> None:
    assert app.sync.cancel(ids[0]) == ["cancelled"]
    would = app.sync.cancel_where(ids=[*ids, 4711], dry_run=True)
    assert (would.selected, would.done, would.left, would.dry_run) == (5, 3, 2, True)
    assert asyncio.run(app.client.edit_where({"priority": 7}, ids=ids, at_most=2)).done == 2
    assert app.sync.retry_where(ids=ids).done == 1
    assert [record(app, id).priority for id in ids] == [7, 7, 0, 0]
    assert app.sync.cancel_where(ids=ids, per_second=1000).done == 4
    assert app.sync.delete_where(ids=(id for id in ids)).done == 4
    assert app.sync.delete_where(ids=[]).selected == 0
    with pytest.raises(InvalidOption, match="ids name the jobs by themselves"):
        app.sync.cancel_where(ids=ids, queue="q")
    with pytest.raises(InvalidOption, match="takes the id of a job, or a list of ids"):
        app.sync.cancel_where(ids="12")  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", ["cancel", "retry", "delete", "edit"])
@pytest.mark.parametrize("is_async", [True, False])
def test_everything_has_to_be_meant(sqlite: App, is_async: bool, verb: str) -> None:
    @sqlite.job("a")
    def job() -> None: ...

    job.enqueue_many_sync([{}] * 3)
    if verb == "retry":
        sqlite.sync.cancel_where(everything=True)

    def touch(**options: Any) -> int:
        changes = [{"priority": 1}] if verb == "edit" else []
        called = getattr(sqlite.client if is_async else sqlite.sync, f"{verb}_where")(*changes, **options)
        touched: Any = asyncio.run(called) if is_async else called
        return int(touched.done)

    with pytest.raises(InvalidOption, match="the filter selects every job"):
        touch()
    assert (touch(everything=True, dry_run=True), touch(everything=True)) == (3, 3)


def test_a_pace_is_kept(sqlite: App) -> None:
    @sqlite.job("a")
    def job() -> None: ...

    job.enqueue_many_sync([{}] * 4)
    began = time.monotonic()
    assert sqlite.sync.cancel_where(kind="a", per_second=3).done == 4
    assert time.monotonic() - began > 0.9
    for pace in (0, -1):
        with pytest.raises(InvalidOption, match="per_second must be more than 0"):
            asyncio.run(sqlite.client.delete_where(kind="a", per_second=pace))
