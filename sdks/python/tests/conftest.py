"""Each test has a store of its own: an SQLite file, and where there is a server (``scripts/with-postgres``) a database."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from windlass import App

SERVER = os.environ.get("WINDLASS_TEST_POSTGRES")


@pytest.fixture(scope="session", autouse=True)
def no_store_of_the_environment() -> None:
    os.environ.pop("WINDLASS_STORE", None)


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> None:
    """By the programs of tests, which inherit that it is ignored where a shell began this in the background, as scripts/with-postgres does."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def programs_end_with_their_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever happens in it: one that went on would take from the next tests what they need."""
    begun: list[subprocess.Popen[Any]] = []
    begin = subprocess.Popen.__init__

    def noted(program: subprocess.Popen[Any], *args: Any, **options: Any) -> None:
        begin(program, *args, **options)
        begun.append(program)

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    yield
    for program in begun:
        program.kill()  # nothing to those that have ended
        program.wait()


@contextmanager
def database(template: str) -> Iterator[str]:
    """The URL of a database that is made as a copy of another one, and goes again."""
    if not SERVER:
        pytest.skip("needs a server: scripts/with-postgres")
    import psycopg

    name = f"python_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(SERVER, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    yield SERVER.rsplit("/", 1)[0] + f"/{name}"
    with psycopg.connect(SERVER, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def bare() -> Iterator[str]:
    """The URL of a fresh database that knows nothing of Windlass."""
    with database("template1") as url:
        yield url


@pytest.fixture(scope="session")
def template() -> Iterator[str]:
    """The name of a database that was migrated, and that nobody uses: to copy it takes 50 ms, and a migration 280."""
    with database("template1") as url:
        app = App(url)
        app.sync.migrate()
        app.close()
        yield url.rsplit("/", 1)[1]


@pytest.fixture
def postgres(template: str) -> Iterator[str]:
    """The URL of a fresh database that was migrated."""
    with database(template) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a fresh store that was migrated, or needs no migration."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres"))
    return f"sqlite:{tmp_path}/jobs.db?synchronous=normal"


@pytest.fixture
def app(store: str) -> Iterator[App]:
    app = App(store, name="tests")
    yield app
    app.close()


@pytest.fixture
def made(store: str) -> Iterator[Callable[..., App]]:
    """Makes apps with options of their own on the same store."""
    apps: list[App] = []

    def make(**options: Any) -> App:
        app = App(store, **options)
        apps.append(app)
        return app

    yield make
    for app in apps:
        app.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[App]:
    """An app on SQLite alone, for what is no matter of the store."""
    app = App(f"sqlite:{tmp_path}/jobs.db?synchronous=normal")
    yield app
    app.close()
