"""What the package offers for the tests of others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from windlass import App, Context, Retry, Snooze
from windlass.errors import InvalidOption
from windlass.testing import HandlerFailed, TestJobs, jobs_of

pytest_plugins = ["pytester"]

app = App("postgres://nobody@127.0.0.1:1/nowhere")  # what a test must never reach


@app.job("mail.send")
async def send_mail(to: str, template: str = "welcome") -> str:
    if to == "":
        raise ValueError("to whom?")
    if to == "later":
        return Retry("later", after="1h")  # type: ignore[return-value]
    await thumb.enqueue(image=7)
    return to


@app.job("thumb")
def thumb(image: int) -> None: ...


@app.job("onward")
async def onward(n: int) -> None:
    """Goes on in queues that were not there before."""
    if n:
        await onward.with_options(queue=f"onward-{n}").enqueue(n=n - 1)


@pytest.fixture
def windlass_app() -> App:
    return app


def test_a_test_has_a_store_of_its_own(windlass_jobs: TestJobs) -> None:
    windlass_jobs.assert_not_enqueued(send_mail)
    send_mail.enqueue_sync(to="a@example.com")
    assert windlass_jobs.assert_enqueued(send_mail, to="a@example.com").state == "available"
    with pytest.raises(AssertionError, match=r'no job mail.send with \{"to": "b"\} was enqueued; there are:\s+\{"to": "a@example.com"\}'):
        windlass_jobs.assert_enqueued(send_mail, to="b")
    with pytest.raises(AssertionError, match="1 jobs mail.send were enqueued"):
        windlass_jobs.assert_not_enqueued(send_mail)
    assert windlass_jobs.drain()["completed"] == 2, "and the job that it enqueues"
    assert [job.kind for job in windlass_jobs.enqueued(state="completed")] == ["mail.send", "thumb"]


def test_what_is_over_is_not_enqueued(windlass_jobs: TestJobs) -> None:
    ids = [thumb.enqueue_sync(1), thumb.with_options(delay="1h").enqueue_sync(2), send_mail.enqueue_sync(to="")]
    assert [job.id for job in windlass_jobs.enqueued()] == ids, "one is scheduled"
    windlass_jobs.drain(raises=False)
    assert [(job.id, job.state) for job in windlass_jobs.enqueued()] == [(ids[1], "scheduled"), (ids[2], "retryable")]
    windlass_jobs.assert_not_enqueued(thumb, image=1)
    with pytest.raises(AssertionError, match="no job thumb"):
        windlass_jobs.assert_enqueued(thumb, image=1)
    windlass_jobs.app.sync.cancel(ids)
    windlass_jobs.assert_not_enqueued(send_mail)
    assert [job.id for job in windlass_jobs.enqueued(state="cancelled")] == ids[1:]


def test_jobs_of_other_args_may_be_enqueued(windlass_jobs: TestJobs) -> None:
    send_mail.enqueue_sync(to="a@example.com", template="bye")
    windlass_jobs.assert_not_enqueued(send_mail, to="b@example.com")
    windlass_jobs.assert_not_enqueued(send_mail, to="a@example.com", template="welcome")
    with pytest.raises(AssertionError, match="1 jobs mail.send were enqueued"):
        windlass_jobs.assert_not_enqueued(send_mail, to="a@example.com")


def test_jobs_are_drained_whatever_their_queue(windlass_jobs: TestJobs) -> None:
    for queue in ("bulk", "other"):
        thumb.with_options(queue=queue).enqueue_sync(image=1)
    onward.enqueue_sync(n=2)
    assert windlass_jobs.drain()["completed"] == 5, "also of queues that were not there before"
    assert {job.queue for job in windlass_jobs.enqueued(state="completed")} == {"bulk", "other", "default", "onward-1", "onward-2"}


@pytest.mark.parametrize("how", ["enqueues", "snoozes", "retries", "makes queues", "fails"])
def test_a_drain_without_an_end_is_an_error(sqlite: App, how: str) -> None:
    runs = 0

    @sqlite.job("selfish", max_attempts=1_000)
    async def selfish() -> Snooze | Retry | None:
        nonlocal runs
        runs += 1
        match how:
            case "enqueues":
                await selfish.enqueue()
            case "makes queues":
                await selfish.with_options(queue=f"q{runs}").enqueue()
            case "snoozes":
                return Snooze(0)
            case "retries":
                return Retry(after=0)
            case "fails":
                await selfish.enqueue()
                raise ValueError("no route")
        return None

    with jobs_of(sqlite) as jobs:
        selfish.enqueue_sync()
        with pytest.raises(AssertionError, match=r"there are more; those that are there now are of kind 'selfish'; does one snooze or enqueue itself") as error:
            jobs.drain(at_most=20)
        assert isinstance(error.value.__cause__, ValueError) == (how == "fails")
        assert how == "makes queues" or runs >= 20  # the last that was claimed may not have begun
        with pytest.raises(InvalidOption, match="at_most must be at least 1, got 0"):
            jobs.drain(at_most=0)


def test_encrypted_jobs_are_found_by_their_args() -> None:
    sealed = App("sqlite:never.db", keys="k1:" + "A" * 43 + "=")

    @sealed.job("sealed", encrypted=True)
    def secret(word: str) -> None: ...

    with jobs_of(sealed) as jobs:
        secret.enqueue_sync("s3cret")
        assert "s3cret" not in repr(jobs.assert_enqueued(secret, word="s3cret"))
        jobs.assert_not_enqueued(secret, word="other")
        assert jobs.drain()["completed"] == 1


def test_the_next_one_sees_nothing_of_it(windlass_jobs: TestJobs) -> None:
    assert windlass_jobs.enqueued() == []


def test_draining_raises_what_handlers_raise(windlass_jobs: TestJobs) -> None:
    send_mail.enqueue_sync(to="")
    with pytest.raises(HandlerFailed, match="ValueError: to whom?"):
        windlass_jobs.drain()
    windlass_jobs.app.sync.retry([job.id for job in windlass_jobs.enqueued()])
    assert windlass_jobs.drain(raises=False)["retried"] == 1


def test_a_function_is_called_as_a_worker_calls_it(windlass_jobs: TestJobs) -> None:
    assert windlass_jobs.perform(send_mail, to="later") == Retry("later", after="1h")
    assert windlass_jobs.perform(thumb, image=3) is None


def test_inside_an_event_loop() -> None:
    async def main() -> Any:
        with jobs_of(app) as jobs:
            await send_mail.enqueue(to="x")
            return (await jobs.drain_async())["completed"], jobs.drain()["completed"]

    assert asyncio.run(main()) == (2, 0)


def test_the_fixture_finds_the_app_by_its_name(pytester: pytest.Pytester, tmp_path: Path) -> None:
    pytester.makepyfile(
        shop="""
        from windlass import App
        app = App("sqlite:never.db")
        @app.job("a")
        def job(n: int) -> None: ...
        """,
        test_shop="""
        import shop
        def test_shop(windlass_jobs):
            shop.job.enqueue_sync(n=1)
            windlass_jobs.assert_enqueued(shop.job, n=1)
        """,
    )
    pytester.makeini("[pytest]\nwindlass_app = shop:app\npythonpath = .")
    pytester.runpytest_subprocess("-p", "windlass.pytest_plugin").assert_outcomes(passed=1)
    assert not (pytester.path / "never.db").exists()


def test_time_passes_at_once(sqlite: App) -> None:
    """What is scheduled, tried again or expires, and what a schedule has next."""
    attempts: list[int] = []

    @sqlite.job("fails", max_attempts=3)
    async def fails(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        raise ValueError("no route")

    @sqlite.job("later")
    async def later() -> None: ...

    with jobs_of(sqlite) as jobs:
        later.with_options(delay="3d").enqueue_sync()
        expires = later.with_options(delay="1h", expires_in="2d").enqueue_sync()
        fails.enqueue_sync()
        assert jobs.drain(raises=False)["retried"] == 1
        assert jobs.drain(raises=False)["retried"] == 0
        jobs.travel("1m")
        assert jobs.drain(raises=False)["retried"] == 1
        jobs.travel("4d")
        assert jobs.drain(raises=False)["completed"] == 1
        assert attempts == [1, 2, 3] and jobs.enqueued() == []
        expired = sqlite.sync.job(expires)
        assert expired is not None and expired.state == "cancelled" and str(expired.reason).startswith("expired: ")
        for wrong in (-1, "soon"):
            with pytest.raises(InvalidOption):
                jobs.travel(wrong)
    with pytest.raises(InvalidOption, match="time can be moved in the store of a test alone"):
        sqlite.connection.native().travel(1)
