"""How a worker works: by its options in a program and on the command line."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from programs import app_of, with_jobs
from worked import drain, record

from windlass import App, Backoff
from windlass.errors import InvalidOption

LONG = 60


def test_attempts_have_the_time_of_their_worker(sqlite: App) -> None:
    @sqlite.job("slow", max_attempts=1)
    async def slow() -> None:
        await asyncio.sleep(LONG)

    id = slow.enqueue_sync()
    asyncio.run(drain(sqlite, timeout="50ms"))
    assert "timeout" in str(record(sqlite, id).reason)
    with pytest.raises(InvalidOption, match="timeout must be a length of time"):
        sqlite.worker(timeout="soon")


def test_settling_is_pipelined_or_strict(app: App) -> None:
    @app.job("a")
    async def job(n: int) -> None: ...

    specs: list[Any] = [app.worker(settling=how)._spec["strict"] for how in ("pipelined", "strict")]
    assert specs == [False, True]
    job.enqueue_many_sync([{"n": n} for n in range(20)])
    assert asyncio.run(drain(app, settling="strict"))["settled"] == 20
    with pytest.raises(InvalidOption, match="settling must be 'pipelined' or 'strict', got 'loose'"):
        app.worker(settling="loose")


def test_a_queue_of_child_processes_has_as_many_places(sqlite: App) -> None:
    def sum_up() -> None: ...

    for kind, queue in [("a", "sums"), ("b", "sums"), ("c", "mixed")]:
        sqlite.job(kind, queue=queue, process=True)(sum_up_at_the_top)
    sqlite.job("d", queue="mixed")(sum_up)
    assert sqlite.worker()._queues == {"sums": os.cpu_count(), "mixed": 10}
    assert sqlite.worker(processes=3)._queues == {"sums": 3, "mixed": 10}
    assert sqlite.worker({"sums": 7}, processes=3)._queues == {"sums": 7}
    for wrong in (0, -1):
        with pytest.raises(InvalidOption, match="processes must be at least 1"):
            sqlite.worker(processes=wrong)


def sum_up_at_the_top() -> None: ...


JOBS = """
    import asyncio
    from windlass import App

    app = App("sqlite:jobs.db")

    @app.job("slow", max_attempts=1)
    async def slow() -> None:
        await asyncio.sleep(60)
"""


def command(folder: Path, *args: str) -> list[str]:
    return [sys.executable, "-m", "windlass", "worker", "jobs:app", *args]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield with_jobs(tmp_path, JOBS)


def test_the_command_takes_them(folder: Path) -> None:
    app = app_of(folder)
    late, long = app.job("slow", max_attempts=1)(lambda: None).enqueue_many_sync([{}, {}])
    app.sync.edit(long, delay="1h")
    options = ["--name", "one of ours", "--timeout", "100ms", "--lease", "5s", "--grace-period", "100ms"]
    worker = subprocess.Popen(command(folder, *options), cwd=folder, stderr=subprocess.DEVNULL)
    ended = app.sync.wait(late, LONG)
    assert ended is not None and "timeout" in str(ended.reason)
    assert [worker["name"] for worker in app.sync.status()["workers"]] == ["one of ours"]
    own = app.jobs["slow"].with_options(timeout="1h").enqueue_sync()
    until = time.monotonic() + LONG
    while record(app, own).state != "running" and time.monotonic() < until:
        time.sleep(0.01)
    worker.terminate()
    assert worker.wait(LONG / 4) == 0, "the grace period is over before 30 s"
    assert (record(app, own).state, record(app, own).attempt) == ("available", 0)
    app.close()


@pytest.mark.parametrize(("option", "says"), [("--lease", "lease must be"), ("--timeout", "timeout must be"), ("--grace-period", "grace_period must be")])
def test_the_command_refuses_nonsense(folder: Path, option: str, says: str) -> None:
    done = subprocess.run(command(folder, option, "soon"), cwd=folder, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 2 and says in done.stderr, done


def test_what_a_definition_says_holds_for_jobs_of_others_too(app: App) -> None:
    """Its timeout and its backoff, for jobs that say nothing themselves, as those that come by SQL."""

    async def sleeps() -> None:
        await asyncio.sleep(LONG)

    async def together(jobs: list[Any]) -> None:
        await asyncio.sleep(LONG)

    app.job("one", timeout="50ms", backoff=Backoff("1h", "fixed"))(sleeps)
    app.batch("many", timeout="50ms", backoff=Backoff("1h", "fixed"))(together)
    app.job("quick")(lambda: None)
    other = App(app.connection.url)
    ids = [other.declare(kind)(lambda: None).enqueue_sync() for kind in ("one", "many", "quick")]
    asyncio.run(asyncio.wait_for(drain(app), LONG))
    one, many, quick = (record(app, id) for id in ids)
    for job in (one, many):
        assert job.timeout is None and job.retry_policy is None, "it says nothing itself"
        assert job.state == "retryable" and job.errors[0]["error"].startswith("timeout after 50ms")
        assert job.scheduled_at is not None and job.scheduled_at - job.enqueued_at > timedelta(minutes=50)
    assert quick.state == "completed"
    other.close()


@pytest.mark.parametrize("is_first", [True, False])
def test_the_store_may_be_named_on_the_command_line(folder: Path, is_first: bool) -> None:
    """As ``windlass --store URL migrate`` has it, and behind the app."""
    url = "sqlite:other.db?synchronous=normal"
    app = App(f"sqlite:{folder}/other.db?synchronous=normal")
    id = app.declare("quick")(lambda: None).enqueue_sync()
    (folder / "jobs.py").write_text("from windlass import App\napp = App('sqlite:none/of/these/jobs.db')\n@app.job('quick')\nasync def quick(): ...\n")
    args = ["--store", url, "worker", "jobs:app"] if is_first else ["worker", "jobs:app", "--store", url]
    worker = subprocess.Popen([sys.executable, "-m", "windlass", *args], cwd=folder, stderr=subprocess.PIPE, text=True)
    job = app.sync.wait(id, LONG)
    worker.terminate()
    assert worker.communicate(timeout=LONG)[1] and worker.returncode == 0
    assert job is not None and job.state == "completed"
    app.close()
