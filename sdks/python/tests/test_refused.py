"""What newcomers write that cannot be: each is refused where it stands, and told what to write instead."""

from __future__ import annotations

import asyncio
import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windlass import App, Schedule
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
    return {
        "one dict for many": lambda: many({"n": 1}),
        "a text for many": lambda: many("n"),
        "plain values for many": lambda: many([1, 2]),
        "a list of queues": lambda: one(["default"]),
        "a queue": lambda: one("default"),
        "threads": lambda: one({"default": 1}, threads="3"),
        "processes": lambda: one({"default": 1}, processes=1.5),
        "a running loop": lambda: asyncio.run(inside()),
        "a kind as the job": lambda: some.put_schedules([schedule]),
        "an id as text": lambda: some.job("1"),
        "a state": lambda: some.jobs(state="runing"),
        "an unknown job": lambda: some.wait(4711),
        "no filter": lambda: some.cancel_where(),
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
        ("a running loop", InvalidOption, "await app.worker().run()"),
        ("a kind as the job", InvalidOption, "schedule 'nightly': its job must be what @app.job made of a function, got 'a'"),
        ("an id as text", InvalidOption, 'id: invalid type: string "1", expected a whole number'),
        ("a state", InvalidOption, "state: unknown variant `runing`, expected one of `scheduled`"),
        ("an unknown job", NotFound, "4711"),
        ("no filter", InvalidOption, "say that everything is meant"),
    ],
)  # fmt: skip
def test_each_says_what_to_write(wrong: dict[str, Callable[[], object]], what: str, kind: type[WindlassError], says: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no coroutine is left behind
        with pytest.raises(kind) as error:
            wrong[what]()
    assert says in str(error.value)


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
