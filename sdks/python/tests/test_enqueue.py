"""Jobs are enqueued, with all that can be said of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from windlass import App, Backoff, Context, Options, Unique
from windlass.errors import InvalidArgs, InvalidName, InvalidOption, NotFound, UniqueConflict


def test_args_are_those_of_the_function(app: App) -> None:
    @app.job("mail.send", queue="mail", max_attempts=5)
    async def send_mail(to: str, template: str = "welcome") -> None: ...

    by_name = send_mail.enqueue_sync(to="a@example.com")
    by_place = asyncio.run(send_mail.enqueue("b@example.com", template="bye"))
    job = app.sync.job(by_name)
    assert job is not None
    assert (job.args, job.kind, job.queue, job.max_attempts, job.state) == ({"to": "a@example.com"}, "mail.send", "mail", 5, "available")
    assert abs(job.enqueued_at - datetime.now(timezone.utc)) < timedelta(minutes=5)
    assert app.sync.job(by_place).args == {"to": "b@example.com", "template": "bye"}  # type: ignore[union-attr]
    assert app.sync.job(4711) is None


def test_args_that_do_not_fit_are_refused_before_anything_is_stored(sqlite: App) -> None:
    @sqlite.job("a")
    def job(ctx: Context, number: int, *, word: str = "x") -> None: ...

    for args, kwargs, says in [
        ((), {}, "missing a required argument: 'number'"),
        ((1, 2), {}, "too many positional"),
        ((1,), {"colour": 1}, "unexpected keyword argument 'colour'"),
        ((float("nan"),), {}, "no JSON"),
        ((object(),), {}, "a object has no JSON form"),
        ((), {"number": "\ud800"}, ""),
    ]:
        with pytest.raises(InvalidArgs) as error:
            job.enqueue_sync(*args, **kwargs)
        assert says in str(error.value)
    assert job.enqueue_sync(2) > 0
    assert [record.args for record in sqlite.sync.jobs().jobs] == [{"number": 2}]


def test_values_have_a_json_form(sqlite: App) -> None:
    @sqlite.job("a")
    def job(**args: object) -> None: ...

    day = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    uuid = UUID("12345678-1234-5678-1234-567812345678")
    id = job.enqueue_sync(at=day, uuid=uuid, amount=Decimal("1.10"), text="ä\u2028😀", big=2**70, none=None, half=0.5, tags={"b", "a"})
    assert sqlite.sync.job(id).args == {  # type: ignore[union-attr]
        "at": "2026-01-02T03:04:05+00:00",
        "uuid": str(uuid),
        "amount": "1.10",
        "text": "ä\u2028😀",
        "big": 2**70,
        "none": None,
        "half": 0.5,
        "tags": ["a", "b"],
    }


class Order(BaseModel):
    id: int
    lines: list[str] = []


@dataclass
class Point:
    x: int
    y: int = 0


def test_a_model_can_be_the_args(app: App) -> None:
    @app.job("ship", args=Order)
    async def ship(order: Order) -> int:
        return order.id

    @app.job("plot", args=Point)
    def plot(point: Point) -> int:
        return point.x + point.y

    ids = [ship.enqueue_sync(Order(id=7, lines=["a"])), *plot.enqueue_many_sync([Point(1, 2), Point(3)])]
    assert [app.sync.job(id).args for id in ids] == [{"id": 7, "lines": ["a"]}, {"x": 1, "y": 2}, {"x": 3, "y": 0}]  # type: ignore[union-attr]
    with pytest.raises(InvalidArgs, match="takes a Order, got a dict"):
        ship.enqueue_sync({"id": 7})  # type: ignore[arg-type]

    async def work() -> None:
        async with app.worker() as worker:
            await worker.until_idle()

    asyncio.run(work())
    assert [app.sync.result(id) for id in ids] == [7, 3, 3]


def test_options_are_kept_and_changed_for_one_job(app: App) -> None:
    @app.job("a", priority=5, tags=["x"], backoff=Backoff("1m", "fixed"), timeout="30s")
    def job(n: int = 0) -> None: ...

    later = datetime.now(timezone.utc) + timedelta(days=1)
    plain, other = job.enqueue_sync(), job.with_options(delay="1h30m", priority=-5, key="acme", meta={"who": "me"}, expires_at=later).enqueue_sync(1)
    first, second = app.sync.job(plain), app.sync.job(other)
    assert first is not None and second is not None
    assert (first.priority, first.tags, first.state) == (5, ["x"], "available")
    assert (second.priority, second.tags, second.state, second.key, second.meta) == (-5, ["x"], "scheduled", "acme", {"who": "me"})
    assert second.scheduled_at is not None
    assert abs(second.scheduled_at - second.enqueued_at - timedelta(hours=1, minutes=30)) < timedelta(seconds=1)
    assert second.expires_at == later
    at = job.with_options(at=later).enqueue_sync()
    assert app.sync.job(at).scheduled_at == later  # type: ignore[union-attr]


def test_wrong_options_are_refused_by_name(sqlite: App) -> None:
    @sqlite.job("a")
    def job() -> None: ...

    for options, says in [
        ({"colour": 1}, "unknown option 'colour'"),
        ({"delay": -1}, "delay must not be negative"),
        ({"delay": "soon"}, "delay must be a length of time such as '90s'"),
        ({"delay": True}, "delay must be a timedelta"),
        ({"at": datetime(2031, 1, 1)}, "at must have a time zone"),
        ({"at": "2031-01-01"}, "at must be a datetime"),
        ({"priority": 101}, "101"),
        ({"priority": 1.5}, "priority: invalid type: floating point `1.5`, expected a whole number"),
        ({"queue": 5}, "queue: invalid type: integer `5`, expected a string"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"tags": "x"}, "tags must be a list"),
        ({"delay": 5, "at": datetime.now(timezone.utc)}, "exclude each other"),
        ({"unique": Unique("a"), "idempotency_key": "b"}, "a unique job takes no idempotency_key"),
    ]:
        with pytest.raises(InvalidOption) as error:
            job.with_options(**options).enqueue_sync()
        assert says in str(error.value), options
    with pytest.raises(InvalidName):
        job.with_options(queue="").enqueue_sync()
    assert sqlite.sync.jobs().jobs == []


@dataclass
class Rates:
    by_id: dict[Any, str]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({1: "a", "1": "b"}, "value: 2 keys are '1' as text"),
        ([{"deep": {True: "a", "true": "b"}}], "value.deep: 2 keys are 'true' as text"),
        ({None: "a", "null": "b"}, "2 keys are 'null' as text"),
        ({-1.5: "a", "-1.5": "b"}, "2 keys are '-1.5' as text"),
        (Rates({7: "a", "7": "b"}), "value.by_id: 2 keys are '7' as text"),
    ],
)
def test_keys_that_are_the_same_as_text_are_refused(sqlite: App, value: Any, says: str) -> None:
    """One of their values would be lost, and nobody would know which."""

    @sqlite.job("a")
    def job(value: Any) -> None: ...

    with pytest.raises(InvalidArgs) as error:
        job.enqueue_sync(value)
    assert says in str(error.value)
    kept = {1: "a", "2": "b", 2.5: "c", None: 'd "1": "1":', "1.": {"1": 1}}
    assert sqlite.sync.args(job.enqueue_sync(kept)) == {"value": {"1": "a", "2": "b", "2.5": "c", "null": 'd "1": "1":', "1.": {"1": 1}}}


def test_tags_that_can_be_read_once_are_those_of_each_job(sqlite: App) -> None:
    @sqlite.job("a")
    def job() -> None: ...

    tagged = job.with_options(tags=(tag for tag in "xy"))
    assert [sqlite.sync.job(tagged.enqueue_sync()).tags for _ in range(2)] == [["x", "y"]] * 2  # type: ignore[union-attr]


def test_many_are_stored_in_one_call_all_or_none(app: App) -> None:
    @app.job("a")
    def job(n: int) -> None: ...

    async def enqueue() -> list[int]:
        return await job.enqueue_many({"n": n} for n in range(1_000))

    ids = asyncio.run(enqueue())
    assert len(set(ids)) == 1_000 and ids == sorted(ids)
    with pytest.raises(InvalidArgs):
        job.enqueue_many_sync([{"n": 1}, {"m": 2}])
    assert job.enqueue_many_sync([]) == []
    assert app.sync.queues()[0].available == 1_000


def test_a_unique_job_is_stored_once_and_a_key_makes_a_call_safe_to_repeat(app: App) -> None:
    @app.job("a", unique=Unique(fields=["user"]))
    def job(user: int, n: int = 0) -> None: ...

    first = job.enqueue_sync(user=1)
    assert job.enqueue_sync(user=1, n=2) == first != job.enqueue_sync(user=2)
    assert job.enqueue_many_sync([{"user": 1}, {"user": 2}])[0] == first
    with pytest.raises(UniqueConflict):
        job.with_options(unique=Unique(fields=["user"], on_conflict="error")).enqueue_sync(user=1)
    once = job.with_options(unique=None, idempotency_key="k")
    assert once.enqueue_sync(user=9) == once.enqueue_sync(user=9)


def of_a_module() -> None: ...


def test_kinds_need_names_that_other_processes_know(sqlite: App) -> None:
    with pytest.raises(InvalidName, match="name the job, as in @app.job"):

        @sqlite.job
        def local() -> None: ...

    with pytest.raises(InvalidName, match="name the job"):
        sqlite.job(lambda: None)

    @sqlite.job("twice")
    def one() -> None: ...

    with pytest.raises(InvalidName, match="one and .*other"):

        @sqlite.job("twice")
        def other() -> None: ...

    assert sqlite.job(of_a_module).kind == "test_enqueue.of_a_module"




def test_what_a_client_does_for_somebody_is_noted(app: App) -> None:
    @app.job("a", queue="q")
    def job(n: int) -> None: ...

    ids = job.enqueue_many_sync([{"n": n} for n in range(2)])
    anna = app.sync.acting_as("anna")
    assert anna.cancel(ids[0]) == ["cancelled"] and anna.job(ids[0]).state == "cancelled"  # type: ignore[union-attr]
    anna.delete_where(queue="q", dry_run=True)
    assert asyncio.run(app.client.acting_as("ben").delete_where(queue="q")).done == 2
    app.sync.limit("q", concurrency=3)
    entries, _ = app.sync.audit()
    assert [(entry.actor, entry.via, entry.action, entry.count) for entry in entries] == [("ben", "sdk", "jobs.delete", 2), ("anna", "sdk", "jobs.cancel", 1)]
    for nobody in ("", " ", None):
        with pytest.raises(InvalidOption, match="who acts must be named"):
            app.sync.acting_as(nobody)  # type: ignore[arg-type]


def test_a_client_changes_what_is_there(app: App) -> None:
    @app.job("a", queue="q")
    def job(n: int) -> None: ...

    client = app.sync
    ids = job.enqueue_many_sync([{"n": n} for n in range(4)])
    assert client.cancel(ids[0]) == ["cancelled"] and client.cancel([ids[0], 4711]) == ["finished", "not_found"]
    assert client.retry([ids[0]]) == ["retried"]
    assert client.edit(ids[1], delay="1h", priority=3, args={"n": 9}) == ["edited"]
    assert client.job(ids[1]).args == {"n": 9}  # type: ignore[union-attr]
    assert client.edit(ids[1], now=True) == ["edited"]
    with pytest.raises(InvalidOption, match="unknown change 'colour'"):
        client.edit(ids[1], colour=1)
    assert client.delete_where(queue="q", dry_run=True).selected == 4
    with pytest.raises(InvalidOption, match="selects every job"):
        client.delete_where()
    client.pause("q")
    assert client.queues()[0].paused
    client.resume("q")
    with pytest.raises(NotFound):
        client.pause("nowhere")
    with pytest.raises(NotFound, match="no worker 4711"):
        client.drain_worker(4711)
    client.limit("q", concurrency=3, rate=100, period="1m", burst=10)
    assert client.queues()[0].limits == {"concurrency": 3, "rate": {"count": 100, "period_ms": 60_000, "burst": 10}}
    client.limit("q")
    assert client.queues()[0].limits == {}
    assert [queue.name for queue in client.queues(search="Q", limit=1)] == ["q"] and client.queues(after="q") == []
    client.append_audit("anna", "jobs.delete", "q", count=4, reason="a test")
    client.append_audit("ben", "queues.pause", "q")
    [entry], before = client.audit(limit=1)
    assert (entry.actor, entry.via, entry.outcome, entry.at.tzinfo is not None, before is not None) == ("ben", "sdk", "done", True, True)
    [entry], before = client.audit(before=before, since=entry.at - timedelta(days=1))
    assert (entry.action, entry.count, entry.reason, before) == ("jobs.delete", 4, "a test", None)
    with pytest.raises(InvalidOption, match="not the id of an audit entry"):
        client.audit(before="7")
    assert client.queue("q") == client.queues()[0] and client.queue("nowhere") is None
    client.limit_keys("q", concurrency=2)
    client.limit_key("q", "acme", serial=True, weight=3)
    client.limit_key("q", "post", rate=100, period=timedelta(minutes=1))
    limits = client.key_limits("q")
    assert limits is not None and limits["default"]["concurrency"] == 2 and limits["named"]["acme"] == {"serial": True, "weight": 3}
    assert limits["named"]["post"] == {"rate": {"count": 100, "period_ms": 60_000}, "weight": 1}
    client.unlimit_key("q", "acme")
    client.unlimit_keys("q")
    assert client.key_limits("q") is None
    events, cursor = client.events(kinds=["a"], events=["enqueued"])
    assert [event.id for event in events] == ids
    assert client.events(after=cursor, kinds=["a"], events=["enqueued"])[0] == []
    first = client.jobs(queue="q", limit=3)
    assert len(first.jobs) == 3 and first.next is not None
    assert len(client.jobs(queue="q", limit=3, after=first.next).jobs) == 1
    assert client.delete_where(queue="q").done == 4
    assert isinstance(client.status()["schema_version"], int)


def test_args_may_have_any_name(sqlite: App) -> None:
    @sqlite.job("a")
    def job(**args: object) -> None: ...

    id = job.enqueue_sync(self=1, connection=2, args=3, kwargs=4)
    assert sqlite.sync.job(id).args == {"self": 1, "connection": 2, "args": 3, "kwargs": 4}  # type: ignore[union-attr]
    assert job(self=1) is None


def test_options_are_written_once_for_many_enqueues(sqlite: App, monkeypatch: pytest.MonkeyPatch) -> None:
    @sqlite.job("a", queue="mail", priority=3)
    def job(n: int) -> None: ...

    written: list[str] = []
    spec = Options._spec
    monkeypatch.setattr(Options, "_spec", lambda self, kind: written.append(kind) or spec(self, kind))
    ids = [job.enqueue_sync(n) for n in range(3)]
    assert len(written) == 1
    other = job.with_options(priority=5)
    ids += [other.enqueue_sync(3), job.enqueue_sync(4)]
    assert [sqlite.sync.job(id).priority for id in ids] == [3, 3, 3, 5, 3]  # type: ignore[union-attr]

    meta = {"at": 1}
    with_meta = job.with_options(meta=meta)
    first = with_meta.enqueue_sync(5)
    meta["at"] = 2  # it is the caller's, and may change
    assert [sqlite.sync.job(id).meta for id in (first, with_meta.enqueue_sync(6))] == [{"at": 1}, {"at": 2}]  # type: ignore[union-attr]
