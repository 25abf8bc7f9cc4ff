"""What newcomers write that cannot be: each is refused where it stands, and told what to write instead."""

from __future__ import annotations

import asyncio
import functools
import warnings
from datetime import datetime, timezone
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windlass import App, Context, Schedule, Unique
from windlass.errors import InvalidArgs, InvalidName, InvalidOption, NotFound, WindlassError


class Callable_:
    def __call__(self) -> None: ...


def generator() -> Any:
    yield 1


async def async_generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (generator, "generator is a generator function, which runs only while somebody takes what it yields"),
        (async_generator, "async_generator is a generator function"),
        (Callable_(), "got a Callable_; where it is to call something else, decorate a function"),
        (functools.partial(print, 1), "got a partial"),
        (classmethod(generator), "got a classmethod"),
        (5, "got a int"),
    ],
)  # fmt: skip
def test_what_is_no_function_of_a_job(sqlite: App, function: Any, says: str) -> None:
    for decorate in (sqlite.job("a"), sqlite.batch("b"), sqlite.declare("c"), sqlite.handle_any):
        with pytest.raises(InvalidOption) as error:
            decorate(function)
        assert says in str(error.value)
    assert not sqlite.jobs


def test_a_job_of_a_job(sqlite: App) -> None:
    @sqlite.job("a")
    def job() -> None: ...

    with pytest.raises(InvalidOption, match="takes a function, got a Job"):
        sqlite.job("b")(job)  # type: ignore[call-overload]


@pytest.fixture
def wrong(sqlite: App) -> dict[str, Callable[[], object]]:
    @sqlite.job("a")
    def job(n: int, word: str = "") -> None: ...

    many: Any = job.enqueue_many_sync
    some: Any = sqlite.sync
    one: Any = sqlite.worker

    async def inside() -> None:
        sqlite.run_worker()

    schedule: Any = Schedule("nightly", "@daily", "a")  # type: ignore[arg-type]
    late, once = job.with_options(expires_at=datetime.now(timezone.utc)), job.with_options(idempotency_key="k")
    return {
        "one dict for many": lambda: many({"n": 1}),
        "a text for many": lambda: many("n"),
        "plain values for many": lambda: many([1, 2]),
        "a list of queues": lambda: one(["default"]),
        "a queue": lambda: one("default"),
        "threads": lambda: one({"default": 1}, threads="3"),
        "processes": lambda: one({"default": 1}, processes=1.5),
        "many threads": lambda: one({"default": 1}, threads=1_000_000),
        "queue": lambda: some.queue(None),
        "queues as a text": lambda: some.any_available("mail"),
        "a running loop": lambda: asyncio.run(inside()),
        "a kind as the job": lambda: some.put_schedules([schedule]),
        "a job that expires at a time": lambda: some.put_schedules([Schedule("nightly", "@daily", late, args={"n": 1})]),
        "a job with an idempotency key": lambda: some.put_schedules([Schedule("nightly", "@daily", once, args={"n": 1})]),
        "an id as text": lambda: some.job("1"),
        "a state": lambda: some.jobs(state="runing"),
        "an unknown job": lambda: some.wait(4711),
        "no filter": lambda: some.cancel_where(),
        "nothing for many": lambda: many(None),
        "one schedule": lambda: some.put_schedules(schedule),
        "a time as a worker's backoff": lambda: one({"default": 1}, backoff="1m"),
        "one field": lambda: Unique(fields="user"),
        "no number of seconds": lambda: some.wait(1, timeout=float("inf")),
        "more attempts than fit": lambda: job.with_options(max_attempts=1_000_000).enqueue_sync(1),
        "a key that is no text": lambda: job.with_options(idempotency_key="\ud800").enqueue_sync(1),
        "keys for ids": lambda: some.cancel({1: 2}),
        "keys for ids of a filter": lambda: some.retry_where(ids={1: 2}),
        "no key": lambda: job.with_options(idempotency_key=None),
        "an actor that is no text": lambda: sqlite.sync.acting_as("\ud800").pause("a"),
    }


@pytest.mark.parametrize(
    ("what", "kind", "says"),
    [
        ("one dict for many", InvalidArgs, "a list with the args of each job, got {'n': 1}"),
        ("a text for many", InvalidArgs, "got 'n'"),
        ("plain values for many", InvalidArgs, "named, as in {'n': ..., 'word': ...}, got 1"),
        ("a list of queues", InvalidOption, "as in {'default': 10}, got ['default']"),
        ("a queue", InvalidOption, "as in {'default': 10}, got 'default'"),
        ("threads", InvalidOption, "threads must be at least 1, got '3'"),
        ("processes", InvalidOption, "processes must be at least 1, got 1.5"),
        ("many threads", InvalidOption, "threads must be at most 1000, got 1000000"),
        ("queue", InvalidOption, "queue takes the name of a queue, got None; queues() lists all"),
        ("queues as a text", InvalidOption, "queues must be a list of names, as in ['mail'], got 'mail'"),
        ("a running loop", InvalidOption, "await app.worker().run()"),
        ("a kind as the job", InvalidOption, "schedule 'nightly': its job must be what @app.job made of a function, got 'a'"),
        ("a job that expires at a time", InvalidOption, "schedule 'nightly': from that time on all of its jobs would be late; say expires_in"),
        ("a job with an idempotency key", InvalidOption, "schedule 'nightly': each tick fires once by itself, so the job takes no idempotency_key"),
        ("an id as text", InvalidOption, 'id: invalid type: string "1", expected a whole number'),
        ("a state", InvalidOption, "state: unknown variant `runing`, expected one of `scheduled`"),
        ("an unknown job", NotFound, "4711"),
        ("no filter", InvalidOption, "say that everything is meant"),
        ("nothing for many", InvalidArgs, "a list with the args of each job, got None"),
        ("one schedule", InvalidOption, "a list of schedules, got the one named 'nightly'"),
        ("a time as a worker's backoff", InvalidOption, "backoff must be a Backoff, as in backoff=Backoff('1m'), got '1m'"),
        ("one field", InvalidOption, "as in Unique(fields=['user']), got 'user'"),
        ("no number of seconds", InvalidOption, "timeout must be a finite length of time, got inf"),
        ("more attempts than fit", InvalidOption, "max_attempts: invalid value: integer `1000000`, expected a whole number of at most 65535"),
        ("a key that is no text", InvalidArgs, "half of a surrogate pair is no text"),
        ("keys for ids", InvalidOption, "cancel takes the id of a job, or a list of ids, got {1: 2}; what is to be found is for cancel_where, as in"),
        ("keys for ids of a filter", InvalidOption, "retry takes the id of a job, or a list of ids, got {1: 2}"),
        ("no key", InvalidOption, "idempotency_key is None: leave it out where a repeated call is to enqueue once more"),
        ("an actor that is no text", InvalidArgs, "half of a surrogate pair is no text"),
    ],
)  # fmt: skip
def test_each_says_what_to_write(wrong: dict[str, Callable[[], object]], what: str, kind: type[WindlassError], says: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no coroutine is left behind
        with pytest.raises(kind) as error:
            wrong[what]()
    assert says in str(error.value)


def test_a_context_that_is_handed_in_by_its_name(sqlite: App) -> None:
    """It would never be: each attempt would fail."""

    def job(*, ctx: Context, n: int) -> None: ...

    with pytest.raises(InvalidOption, match="the Context is handed in by its place, so ctx must stand before the \\*"):
        sqlite.job("a")(job)


def test_a_name_with_nul_is_told_so(postgres: str) -> None:
    app = App(postgres)
    with pytest.raises(InvalidArgs, match="a text contains NUL, which PostgreSQL cannot read; remove it"):
        app.sync.pause("a\0b")
    with pytest.raises(InvalidName, match="invalid kind"):
        app.sync.jobs(kind="a\0b")
    with pytest.raises(InvalidArgs, match="args contain NUL"):
        app.sync.jobs(args={"a": "\0"})
    app.close()


def test_a_kind_is_a_text(sqlite: App) -> None:
    kind: Any = {"queue": "mail"}
    with pytest.raises(InvalidName, match=r"the kind of .*job must be a text such as 'mail.send', got {'queue': 'mail'}"):

        @sqlite.job(kind)
        def job() -> None: ...


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql+asyncpg://me@host/shop", "leave out +asyncpg: Windlass brings its own driver"),
        ("postgresql+psycopg://me:secret@host/shop", "leave out +psycopg"),
        ("mysql://me@host/shop", "use sqlite:FILE or postgres://user@host/database"),
        ("jobs.db", "use sqlite:FILE"),
        ("sqlite::memory:", "loses every job; name a file"),
        ("sqlite:/none/of/these/jobs.db", "create /none/of/these first"),
        ("sqlite:///jobs.db", "may mean two files; write sqlite:jobs.db for one in this folder, or sqlite:/jobs.db"),
        ("sqlite:~/jobs.db", "only shells know what ~ is"),
        ("sqlite:jobs.db?synchronus=off", "unknown parameter"),
    ],
)  # fmt: skip
def test_a_url_that_names_no_store(url: str, says: str) -> None:
    app = App(url)
    with pytest.raises(InvalidOption) as error:
        app.sync.queues()
    assert says in str(error.value) and "secret" not in str(error.value)


def test_a_url_of_two_slashes_names_a_file_of_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = App("sqlite://jobs.db")
    app.sync.migrate()
    app.close()
    assert (tmp_path / "jobs.db").exists()
