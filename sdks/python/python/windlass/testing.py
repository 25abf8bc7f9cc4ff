"""For tests: a store of their own, jobs that are looked at, and a worker that runs until nothing is left to do.

With pytest the fixture ``windlass_jobs`` comes by itself: see :mod:`windlass.pytest_plugin`.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections.abc import Coroutine
from contextlib import contextmanager
from typing import Any, Generator, TypeVar

from . import handler as handlers
from .app import App
from .args import encode
from .connection import Connection
from .handler import logger
from .job import Job
from .outcome import Outcome
from .records import JobRecord, JobState
from .worker import Worker

T = TypeVar("T")


class HandlerFailed(AssertionError):
    """A handler raised while a test drained its jobs."""


class TestJobs:
    """The jobs of an app in a store of their own, an SQLite file that is gone afterwards."""

    __test__ = False  # pytest would take it for a test

    def __init__(self, app: App) -> None:
        self.app = app

    def enqueued(self, job: Job[Any] | None = None, *, state: JobState | None = None) -> list[JobRecord]:
        """The jobs that are there, oldest first."""
        found: list[JobRecord] = []
        after: str | None = None
        while True:
            page = self.app.sync.jobs(kind=job.kind if job else None, state=state, after=after, limit=1000)
            found.extend(page.jobs)
            after = page.next
            if after is None:
                return sorted(found, key=lambda record: record.id)

    def assert_enqueued(self, job: Job[Any], *model: Any, **args: Any) -> JobRecord:
        """The job of these args; fails when none is there. Args that are not named may be anything."""
        wanted = json.loads(encode(job.handler.model.check(*model))) if job.handler.model and model else json.loads(encode(args))
        there = self.enqueued(job)
        for record in there:
            if all(record.args.get(name) == value for name, value in wanted.items()):
                return record
        seen = "".join(f"\n  {json.dumps(record.args)}" for record in there) or " none"
        raise AssertionError(f"no job {job.kind} with {json.dumps(wanted)} was enqueued; there are:{seen}")

    def assert_not_enqueued(self, job: Job[Any]) -> None:
        """Fails when a job of this kind is there."""
        there = self.enqueued(job)
        if there:
            raise AssertionError(f"{len(there)} jobs {job.kind} were enqueued: {[record.args for record in there]}")

    def drain(self, *, raises: bool = True) -> dict[str, int]:
        """Works all jobs that are available, and those that they enqueue, with the real engine. How many completed, were retried and so on.

        Raises what a handler raised, unless ``raises=False``.
        """
        return _on_a_loop(self.drain_async(raises=raises))

    async def drain_async(self, *, raises: bool = True) -> dict[str, int]:
        """The same on the running event loop."""
        failed: list[BaseException] = []
        with _noting(failed):
            queues = {job.options.queue or "default": 50 for job in self.app.jobs.values()}
            async with Worker(self.app, queues, lease=30) as worker:
                await worker.until_idle()
            stats = worker.stats
        if raises and failed:
            raise HandlerFailed(f"a handler raised {type(failed[0]).__name__}: {failed[0]}") from failed[0]
        return stats

    def perform(self, job: Job[Any], *model: Any, **args: Any) -> Any:
        """Calls a job's function as a worker does, with args that went to JSON and back, but without a store. What it returned, or the
        outcome that it raised."""
        sent = json.loads(job._args(model, args))
        try:
            value = job.handler.function(job.handler.model.model(**sent)) if job.handler.model else job.handler.function(**sent)
            return _on_a_loop(value) if asyncio.iscoroutine(value) else value
        except Outcome as outcome:
            return outcome


@contextmanager
def jobs_of(app: App) -> Generator[TestJobs]:
    """Puts a fresh store in the place of the app's, for the time of a test::

        with jobs_of(app) as jobs:
            sign_up("a@example.com")
            jobs.assert_enqueued(send_mail, to="a@example.com")
            assert jobs.drain()["completed"] == 1
    """
    connection = app.connection
    with tempfile.TemporaryDirectory(prefix="windlass-test-") as folder:
        test = Connection(f"sqlite:{folder}/jobs.db?synchronous=normal")
        connection._lend(test)
        try:
            yield TestJobs(app)
        finally:
            connection._lend(None)
            test.close()


@contextmanager
def _noting(failed: list[BaseException]) -> Generator[None]:
    previous = logger.disabled
    observer = handlers.observe(failed.append)
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = previous
        handlers.observe(observer)


def _on_a_loop(work: Coroutine[Any, Any, T]) -> T:
    """Runs it to its end on an event loop of its own: also where one runs already, as in an async test that calls sync code."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    result: list[Any] = []

    def run() -> None:
        try:
            result.append((True, asyncio.run(work)))
        except BaseException as error:
            result.append((False, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    [(is_done, value)] = result
    if not is_done:
        raise value
    return value  # type: ignore[no-any-return]
