"""Handlers in child processes: what they know and say, how they are stopped, and what becomes of jobs whose child dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import child_jobs
import pytest
from worked import drain, record

from windlass import App, Around, Complete, Context, Outcome, children
from windlass.args import encode
from windlass.connection import Connection
from windlass.errors import InvalidOption
from windlass.testing import HandlerFailed, jobs_of

LONG = 60


@pytest.fixture
def app(store: str) -> Iterator[App]:
    app, lent = child_jobs.app, Connection(store)
    app.connection._lend(lent)
    yield app
    app.connection._lend(None)
    lent.close()


async def exists(path: Path) -> str:
    """Waits for a file, and gives what is in it."""
    until = time.monotonic() + LONG
    while not path.exists():
        assert time.monotonic() < until, f"no {path.name}"
        await asyncio.sleep(0.01)
    return path.read_text()


def is_gone(process: int) -> bool:
    """Waits for the end of a process."""
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_a_child_process_runs_the_job_and_knows_all_of_it(app: App) -> None:
    values = [7, 2**70, "ä\U0001f600\u2028", {"a": [None, 1.5, True]}]
    ids = child_jobs.facts.enqueue_many_sync([{"n": n} for n in values])
    stats = asyncio.run(drain(app, processes=1))
    results: list[Any] = [record(app, id).result for id in ids]
    assert stats["completed"] == 4
    assert [result["n"] for result in results] == values
    assert [result["args"] for result in results] == [encode({"n": n}) for n in values]
    assert {result["pid"] for result in results}.isdisjoint({os.getpid()}) and len({result["pid"] for result in results}) == 1
    assert results[0]["known"] == ["child.facts", "default", 1, 7, ["x"], "acme", {"who": "me"}, None]
    assert all(-LONG < result["age"] < LONG for result in results)
    assert is_gone(results[0]["pid"])


def test_a_child_speaks_of_its_job(app: App) -> None:
    id = child_jobs.steps.enqueue_sync()
    asyncio.run(drain(app))
    job = record(app, id)
    assert (job.state, job.attempt, job.result) == ("completed", 2, [{"step": 1}, "InvalidOption"])
    assert job.report is not None and [line["text"] for line in job.report["log"]] == ["attempt 1", "attempt 2"]
    assert app.sync.checkpoint(id) == {"step": 1}


def test_a_child_says_what_becomes_of_its_job(app: App) -> None:
    states = {"cancel": "cancelled", "discard": "discarded", "retry": "retryable", "snooze": "scheduled"}
    ids = [(state, child_jobs.say.enqueue_sync(how, raises)) for how, state in states.items() for raises in (True, False)]
    asyncio.run(drain(app, processes=2))
    assert [record(app, id).state for _, id in ids] == [state for state, _ in ids]
    assert record(app, ids[0][1]).reason == "no" and record(app, ids[4][1]).errors[0]["error"] == "later"


def test_whatever_happens_to_a_child_is_a_failed_attempt(app: App) -> None:
    hows = ["exit", "vanish", "json", "killed", "signal", "odd", "raise"]
    ids = {how: child_jobs.fail.enqueue_sync(how) for how in hows}
    after = child_jobs.facts.enqueue_sync(n=1)
    asyncio.run(drain(app, processes=1))
    jobs = {how: record(app, id) for how, id in ids.items()}
    errors = {how: job.errors[0]["error"] for how, job in jobs.items() if how != "json"}
    assert errors["exit"].strip().splitlines()[-1] == "SystemExit: 3"
    assert errors["vanish"] == "the child process that ran the job ended with exit code 7"
    assert errors["killed"] == "the child process that ran the job was killed by SIGKILL"
    assert errors["signal"] == f"the child process that ran the job was killed by signal {signal.SIGRTMIN + 1}"
    assert errors["odd"] == "SyntaxError, which cannot be shown"
    assert "ValueError: inner" in errors["raise"] and errors["raise"].strip().endswith("RuntimeError: outer")
    assert {how: job.state for how, job in jobs.items()} == {how: "discarded" if how == "json" else "retryable" for how in hows}
    assert {job.attempt for how, job in jobs.items() if how != "json"} == {1}
    assert "cannot be stored" in str(jobs["json"].reason) and record(app, after).state == "completed"


def test_a_child_that_dies_before_it_takes_a_job_costs_that_no_attempt(app: App) -> None:
    once = child_jobs.facts.with_options(max_attempts=1)

    async def completed(id: int) -> int:
        job: Any = await app.client.wait(id, LONG)
        assert (job.state, job.attempt, job.errors) == ("completed", 1, []), job
        return int(job.result["pid"])

    async def main() -> None:
        async with app.worker(processes=1):
            child = await completed(await once.enqueue(n=1))
            os.kill(child, signal.SIGKILL)
            assert is_gone(child)
            child = await completed(await once.enqueue(n=2))
            # It may also die when the job was sent to it.
            os.kill(child, signal.SIGSTOP)
            id = await once.enqueue(n=3)
            while record(app, id).state != "running":
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            os.kill(child, signal.SIGKILL)
            await completed(id)

    asyncio.run(main())


def test_a_thread_that_a_job_left_behind_speaks_of_no_other_job(app: App) -> None:
    first, second = child_jobs.leave.enqueue_many_sync([{"n": 1}, {"n": 2}])
    asyncio.run(drain(app, processes=1))
    assert record(app, first).state == "completed"
    after = record(app, second)
    assert (after.state, after.result, after.report) == ("completed", [["LeaseLost"] * 4, None], None)


def test_what_a_thread_says_while_its_job_ends_breaks_nothing(app: App) -> None:
    ids = child_jobs.chatter.enqueue_many_sync([{}] * 8)
    asyncio.run(drain(app, processes=1))
    assert [record(app, id).state for id in ids] == ["completed"] * 8


def test_the_death_of_a_child_is_noticed_though_what_it_started_lives_on(app: App, tmp_path: Path) -> None:
    async def main() -> None:
        id = await child_jobs.stay_open.enqueue(str(tmp_path))
        async with app.worker(processes=1):
            others = [int(other) for other in (await exists(tmp_path / "others")).split()]
            try:
                until = time.monotonic() + LONG / 2  # they live for twice as long
                while record(app, id).state == "running" and time.monotonic() < until:
                    await asyncio.sleep(0.01)
                failed = record(app, id)
                assert failed.errors and "was killed by SIGKILL" in failed.errors[0]["error"], failed
            finally:
                for other in others:
                    os.kill(other, signal.SIGKILL)

    asyncio.run(main())


def test_what_is_around_a_child_keeps_no_thread_from_its_next_job(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A middleware whose outcome cannot be read; and what is no text in the path, as programs put there, which Python leaves out."""

    class Mute(Outcome):
        pass

    def mute(ctx: Context) -> Around:
        outcome = yield
        return Mute() if ctx.attempt == 1 and outcome == Complete(1) else None

    monkeypatch.setattr(app, "_middleware", [mute])
    monkeypatch.setattr(sys, "path", [tmp_path, *sys.path])
    odd, after = child_jobs.count.enqueue_many_sync([{"n": 1}, {"n": 2}])
    asyncio.run(asyncio.wait_for(drain(app, processes=1, grace_period=0), LONG))
    failed = record(app, odd)
    assert failed.state == "retryable" and "NotImplementedError" in failed.errors[0]["error"], failed
    assert (record(app, after).state, record(app, after).result) == ("completed", 2)


def test_a_job_whose_child_is_killed_runs_again(app: App, tmp_path: Path) -> None:
    async def main() -> int:
        async with app.worker(processes=2):
            id = await child_jobs.begin.enqueue(str(tmp_path), False)
            others = await child_jobs.facts.enqueue_many([{"n": n} for n in range(10)])
            os.kill(int(await exists(tmp_path / "began-1")), signal.SIGKILL)
            while (failed := record(app, id)).state == "running":
                await asyncio.sleep(0.01)
            assert "was killed by SIGKILL" in failed.errors[0]["error"] and failed.attempt == 1
            await app.client.retry(id)
            job = await app.client.wait(id, LONG)
            assert job is not None and (job.state, job.result, job.attempt) == ("completed", "the second attempt", 2)
            assert job.crash_count == 0
            assert [other.state for n in others if (other := await app.client.wait(n, LONG))] == ["completed"] * 10
        return int((tmp_path / "began-2").read_text())

    assert is_gone(asyncio.run(main()))


@pytest.mark.parametrize("looks", [True, False])
def test_a_cancelled_job_is_told_and_then_its_child_is_ended(
    app: App, tmp_path: Path, looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not looks:
        monkeypatch.setitem(children.GRACE, "cancelled", 0.1)

    async def main() -> tuple[JobRecord | None, int]:
        async with app.worker(processes=1):
            id = await child_jobs.begin.enqueue(str(tmp_path), looks)
            child = int(await exists(tmp_path / "began-1"))
            assert await app.client.cancel([id]) == ["running"]
            job = await app.client.wait(id, LONG)
            if not looks:
                assert is_gone(child)
            # There is another child for the next job, or the same.
            assert await app.client.wait(await child_jobs.facts.enqueue(n=1), LONG)
            return job, child

    job, child = asyncio.run(main())
    assert job is not None and job.state == "cancelled" and (not looks or job.reason == "told: cancelled"), job
    assert is_gone(child)


@pytest.mark.parametrize("looks", [True, False])
def test_a_child_that_says_something_all_the_time_is_told_and_then_ended(
    app: App, tmp_path: Path, looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not looks:
        monkeypatch.setitem(children.GRACE, "cancelled", 0.1)

    async def main() -> JobRecord | None:
        async with app.worker(processes=1):
            id = await child_jobs.talk.enqueue(str(tmp_path), looks)
            await exists(tmp_path / "talks-1")
            assert await app.client.cancel([id]) == ["running"]
            job = await app.client.wait(id, LONG / 2)
            assert await app.client.wait(await child_jobs.facts.enqueue(n=1), LONG / 2)
            return job

    job = asyncio.run(main())
    assert job is not None and job.state == "cancelled" and (not looks or job.reason == "told: cancelled"), job


def test_a_child_that_takes_too_long_is_ended(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(children.GRACE, "timeout", 0.1)

    async def main() -> JobRecord | None:
        async with app.worker(processes=1):
            job = child_jobs.begin.with_options(timeout=1, max_attempts=1)
            return await app.client.wait(await job.enqueue(str(tmp_path), False), LONG)

    job = asyncio.run(main())
    assert job is not None and job.state == "discarded" and "timeout" in str(job.reason), job


def test_a_child_that_outlives_the_grace_period_is_ended_and_its_job_goes_back(app: App, tmp_path: Path) -> None:
    async def main() -> int:
        id = await child_jobs.begin.enqueue(str(tmp_path), False)
        async with app.worker(grace_period=0.05):
            await exists(tmp_path / "began-1")
        return id

    back = record(app, asyncio.run(main()))
    assert (back.state, back.attempt, back.errors) == ("available", 0, [])
    assert is_gone(int((tmp_path / "began-1").read_text()))


def test_middleware_is_dropped_with_a_child_whose_job_goes_back(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def around(ctx: Context) -> Around:
        try:
            seen.append((yield))
        finally:
            seen.append("over")

    async def main() -> None:
        await child_jobs.begin.enqueue(str(tmp_path), False)
        async with app.worker(grace_period=0.05):
            await exists(tmp_path / "began-1")

    monkeypatch.setattr(app, "_middleware", [around])
    asyncio.run(main())
    assert seen == ["over"]


def test_a_child_enqueues_where_its_worker_works(app: App) -> None:
    id = child_jobs.enqueue.enqueue_sync(n=4)
    asyncio.run(drain(app))
    added: Any = record(app, id).result
    assert record(app, added).result == 5


def test_signals_are_the_workers_affair(app: App) -> None:
    id = child_jobs.signals.enqueue_sync()
    asyncio.run(drain(app))
    assert (record(app, id).state, record(app, id).result) == ("completed", 1)


def test_a_drain_tells_what_a_child_raised() -> None:
    with jobs_of(child_jobs.app) as jobs:
        child_jobs.fail.enqueue_sync("raise")
        with pytest.raises(HandlerFailed, match="RuntimeError: outer"):
            jobs.drain()


def test_a_function_that_no_child_can_import_is_refused(sqlite: App) -> None:
    with pytest.raises(InvalidOption, match="is inside another"):

        @sqlite.job("a", process=True)
        def inside() -> None: ...

    async def waits() -> None: ...

    waits.__qualname__ = "waits"
    with pytest.raises(InvalidOption, match="process=True is for plain functions"):
        sqlite.job("a", process=True)(waits)
    assert not sqlite.jobs
    with pytest.raises(InvalidOption, match="processes must be at least 1"):
        child_jobs.app.worker(processes=0)


PROGRAM = """
    import asyncio, os, sys
    sys.path.insert(0, sys.argv[1])
    from child_jobs import app, begin
    from windlass.connection import Connection

    app.connection._lend(Connection(f"sqlite:{sys.argv[2]}/jobs.db?synchronous=normal"))

    async def main() -> None:
        await begin.enqueue(sys.argv[2], False)
        await app.worker().run()

    asyncio.run(main())
"""


def test_children_end_when_their_worker_is_killed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    program = subprocess.Popen([sys.executable, str(tmp_path / "program.py"), str(Path(__file__).parent), str(tmp_path)])
    child = int(asyncio.run(exists(tmp_path / "began-1")))
    program.kill()
    program.wait()
    assert is_gone(child)


def test_a_function_of_the_main_program_is_refused_when_the_worker_starts(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "from windlass import App\napp = App('sqlite:jobs.db')\n@app.job('a', process=True)\ndef job() -> None: ...\napp.run_worker()\n"
    )
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 1 and "cannot import job from __main__: run `windlass worker MODULE:APP`" in done.stderr, done


def test_a_child_knows_all_that_a_context_says(app: App) -> None:
    id = child_jobs.every.enqueue_sync()
    asyncio.run(drain(app))
    known: Any = record(app, id).result
    assert known.keys() == {name for name, member in vars(Context).items() if isinstance(member, property)}
    expires = record(app, id).expires_at  # by the microsecond, which handlers do not know
    assert expires is not None and timedelta(0) <= expires - datetime.fromisoformat(known["expires_at"]) < timedelta(milliseconds=1)
