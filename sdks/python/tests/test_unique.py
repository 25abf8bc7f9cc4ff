"""Unique jobs: what becomes of them and of those that had their keys."""

from __future__ import annotations

import asyncio
import copy
import pickle
from dataclasses import replace
from typing import Any

import pytest
from worked import record

from windlass import App, EnqueuedUnique, Job, Unique
from windlass.errors import InvalidOption, UniqueConflict


def notify(app: App, **unique: Any) -> Job[Any]:
    @app.job("notify")
    def notify(user: int, text: str = "") -> None: ...

    return notify.with_options(unique=Unique(fields=["user"], **unique))


def test_what_became_of_the_conflict_is_told(app: App) -> None:
    kept = notify(app)
    first = kept.enqueue_unique_sync(user=1)
    assert first == EnqueuedUnique(first.id, None)
    assert kept.enqueue_unique_sync(user=1, text="again") == EnqueuedUnique(first.id, "kept")
    replaced = notify(app, on_conflict="replace", max_wait="1m").with_options(delay="1h")
    assert [replaced.enqueue_unique_sync(user=2, text=text).conflict for text in ("old", "new")] == [None, "replaced"]
    extended = notify(app, on_conflict="extend", window="1h")
    assert [extended.enqueue_unique_sync(user=3).conflict for _ in range(2)] == [None, "extended"]
    with pytest.raises(UniqueConflict):
        notify(app, on_conflict="error").enqueue_unique_sync(user=1)


def test_a_unique_job_may_expire_after_a_time(app: App) -> None:
    job = notify(app).with_options(expires_in="1h")
    first = job.enqueue_unique_sync(user=1)
    assert (job.enqueue_unique_sync(user=1).conflict, record(app, first.id).expires_at is not None) == ("kept", True)
    [second] = job.enqueue_many_unique_sync([{"user": 2}])
    assert record(app, second.id).expires_at is not None


def test_the_same_is_awaited(app: App) -> None:
    job = notify(app)

    async def main() -> tuple[EnqueuedUnique, list[EnqueuedUnique]]:
        first = await job.enqueue_unique(user=1)
        return first, await job.enqueue_many_unique({"user": user} for user in (1, 2, 2))

    first, (one, two, three) = asyncio.run(main())
    assert (one, two.conflict, three) == (EnqueuedUnique(first.id, "kept"), None, EnqueuedUnique(two.id, "kept"))
    assert job.enqueue_many_unique_sync([{"user": 2, "text": "x"}]) == [EnqueuedUnique(two.id, "kept")]
    assert record(app, two.id).args == {"user": 2}
    assert job.enqueue_many_unique_sync([]) == []


def test_what_is_not_unique_is_refused(sqlite: App) -> None:
    @sqlite.job("a")
    def plain() -> None: ...

    for enqueue in (plain.enqueue_unique_sync, lambda: plain.enqueue_many_unique_sync([{}])):
        with pytest.raises(InvalidOption, match=r"say what makes a job of kind 'a' unique, as in \.with_options"):
            enqueue()
    with pytest.raises(InvalidOption, match="takes no idempotency_key"):
        notify(sqlite).with_options(idempotency_key="k").enqueue_unique_sync(user=1)
    assert sqlite.sync.jobs().jobs == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"key": "a", "max_wait": 5}, r"max_wait goes with on_conflict='replace', got on_conflict='keep'"),
        ({"key": "a", "window": 5, "until": "started"}, "window and until='started' exclude each other"),
        ({"key": "a", "fields": ["b"]}, "key and fields exclude each other"),
        ({"key": None}, "unique: key is None, by which nothing is unique: leave unique out where that is meant, or key for all of the args"),
        ({"fields": None}, "unique: fields is None, by which nothing is unique"),
    ],
)
def test_pairs_that_cannot_be_are_refused_by_their_own_names(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        Unique(**options)


def test_a_definition_may_be_copied_and_shown() -> None:
    """Whatever of it was not said stays so."""
    for unique in (Unique(), Unique("a"), Unique(fields=["user"])):
        copied = replace(unique, scope="queue")
        assert replace(copied, scope="kind") == unique == copy.deepcopy(unique) == pickle.loads(pickle.dumps(unique))
        assert copied._spec() == unique._spec() | {"unique_in": "queue"}
    assert repr(Unique("a")).startswith("Unique(key='a', fields=not said, scope='kind'")
