"""For tests: a store of their own, jobs that are looked at, and a worker that runs until nothing is left to do.

With pytest the fixture ``windlass_jobs`` comes by itself: see :mod:`windlass.pytest_plugin`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import contextmanager
from typing import Any, Generator

from . import handler as handlers
from ._places import at_least_one
from ._telling import logger
from .app import App
from .args import encode
from .connection import Connection
from .duration import Duration, seconds
from .job import Job
from .perform import Perform, on_a_loop, perform_batch, perform_batch_async
from .records import JobRecord, JobState
from .worker import Worker

__all__ = ["HandlerFailed", "Perform", "TestJobs", "jobs_of"]

_AT_ONCE = 50  # jobs of each queue
_ENDLESS = 10_000  # a drain that works so many more jobs than there were is taken for one that has no end
_A_PASS = 100  # jobs that take as long as to come back for queues that were not there before
_LOOK = 0.05  # seconds between two looks how many there were
_WAITING: tuple[JobState, ...] = ("available", "scheduled", "retryable")


class HandlerFailed(AssertionError):
    """A handler raised while a test drained its jobs."""


class TestJobs:
    """The jobs of an app in a store of their own, an SQLite file that is gone afterwards."""

    __test__ = False  # pytest would take it for a test

    def __init__(self, app: App) -> None:
        self.app = app

    def enqueued(self, job: Job[...] | None = None, *, state: JobState | None = None) -> list[JobRecord]:
        """The jobs that will still run, oldest first: those that are available, scheduled or retryable; or those in this ``state``."""
        states = (state,) if state else _WAITING
        found = [record for one in states for record in self._in_state(job, one)]
        return sorted(found, key=lambda record: record.id)

    def _in_state(self, job: Job[...] | None, state: JobState) -> list[JobRecord]:
        found: list[JobRecord] = []
        after: str | None = None
        while True:
            page = self.app.sync.jobs(kind=job.kind if job else None, state=state, after=after, limit=1000)
            found.extend(page.jobs)
            after = page.next
            if after is None:
                return found

    def assert_enqueued(self, job: Job[...], /, *model: Any, **args: Any) -> JobRecord:
        """A job of these args that will still run. Args that are not named may be anything.

        Raises ``AssertionError`` when there is none, with those that are there.
        """
        wanted = _wanted(job, model, args)
        there = self.enqueued(job)
        for record in there:
            if _fits(self._args(job, record), wanted):
                return record
        seen = "".join(f"\n  {json.dumps(self._args(job, record))}" for record in there) or " none"
        raise AssertionError(f"no job {job.kind} with {json.dumps(wanted)} was enqueued; there are:{seen}")

    def assert_not_enqueued(self, job: Job[...], /, *model: Any, **args: Any) -> None:
        """Raises ``AssertionError`` when a job of these args, or with none any job of this kind, will still run."""
        wanted = _wanted(job, model, args)
        there = [found for record in self.enqueued(job) if _fits(found := self._args(job, record), wanted)]
        if there:
            raise AssertionError(f"{len(there)} jobs {job.kind} were enqueued: {there}")

    def _args(self, job: Job[...], record: JobRecord) -> Any:
        return self.app.sync.args(record.id) if job.options.encrypted else record.args

    def drain(self, *, raises: bool = True, at_most: int | None = None) -> dict[str, int]:
        """Works all jobs that are available, of whatever queue, and those that they enqueue, with the real engine. How many completed, were
        retried and so on.

        Raises :class:`HandlerFailed` for what a handler raised, unless ``raises=False``, and ``AssertionError`` when more than ``at_most`` jobs are worked, by
        default 10,000 more than there were: one that snoozes or enqueues itself never ends.
        """
        return on_a_loop(self.drain_async(raises=raises, at_most=at_most))

    async def drain_async(self, *, raises: bool = True, at_most: int | None = None) -> dict[str, int]:
        """The same on the running event loop."""
        at_least_one(at_most, "at_most", sys.maxsize)
        failed: list[BaseException] = []
        stats: Counter[str] = Counter()
        left = at_most or _ENDLESS + sum(queue.available for queue in await self.app.client.queues())
        with _noting(failed):
            known: set[str] = set()
            while (queues := await self._queues()) - known:  # handlers may enqueue into queues that were not there before
                worked = await self._work(queues, left, failed)
                left -= worked["claimed"] + _A_PASS * bool(known)
                stats.update(worked)
                known = queues
        if raises and failed:
            raise HandlerFailed(f"a handler raised {type(failed[0]).__name__}: {failed[0]}") from failed[0]
        return dict(stats)

    async def _queues(self) -> set[str]:
        declared = {job.options.queue for job in self.app.jobs.values() if job.options.queue}
        return {"default"} | declared | {queue.name for queue in await self.app.client.queues()}

    async def _work(self, queues: set[str], most: int, failed: list[BaseException]) -> dict[str, int]:
        worker = Worker(self.app, dict.fromkeys(queues, _AT_ONCE), lease=30)
        worker._waits = False  # what is there is all that comes
        async with worker:
            idle = asyncio.ensure_future(worker.until_idle())
            try:
                while worker.stats["claimed"] <= most and not idle.done():
                    await asyncio.wait([idle], timeout=_LOOK)
                if is_idle := idle.done():
                    await idle
            finally:
                if not idle.done():
                    worker.abort()  # nobody waits for what it runs
                    idle.cancel()
        if not is_idle:
            raise AssertionError(await self._endless()) from (failed[-1] if failed else None)
        return worker.stats

    async def _endless(self) -> str:
        kinds: set[str] = set()
        for state in (*_WAITING, "running"):
            kinds.update(job.kind for job in (await self.app.client.jobs(state=state)).jobs)
        there = f"those that are there now are of kind {', '.join(map(repr, sorted(kinds)))}; " if kinds else ""
        return f"the drain has worked too many jobs and there are more; {there}does one snooze or enqueue itself for ever? drain(at_most=...) sets another limit"

    def travel(self, by: Duration) -> None:
        """Lets so much time pass in the store, at once: what is scheduled, or waits for another attempt, becomes due, what expires does. Between drains, since a worker that
        runs would have been silent for as long. Python's own clock stays as it is."""
        self.app.connection.native().travel(seconds(by, "by"))

    def perform(self, job: Job[...], /, *model: Any, **args: Any) -> Any:
        """Calls a job's function by itself as a worker does, with args that went to JSON and back, and with a context, but without a store. What
        it returned, or the outcome that it raised; :class:`Perform` gives it a checkpoint and tells what it said.

        Raises what else the function raises.
        """
        return Perform(job).run(*model, **args)

    async def perform_async(self, job: Job[...], /, *model: Any, **args: Any) -> Any:
        """The same on the running event loop; a plain function runs in a thread."""
        return await Perform(job).run_async(*model, **args)

    def perform_batch(self, job: Job[...], jobs: Iterable[Any]) -> list[Any]:
        """Calls the function of a batch by itself, once for all of these args: dicts, or models where the job has one. What it says of each: what
        it returned for it, or an outcome.

        Raises what else the function raises.
        """
        return perform_batch(job, jobs)

    async def perform_batch_async(self, job: Job[...], jobs: Iterable[Any]) -> list[Any]:
        """The same on the running event loop; a plain function runs in a thread."""
        return await perform_batch_async(job, jobs)


def _wanted(job: Job[...], model: tuple[Any, ...], args: dict[str, Any]) -> Any:
    return json.loads(encode(job.handler.model.check(*model) if job.handler.model and model else args))


def _fits(args: Any, wanted: Any) -> bool:
    """Whether args have these fields with these values; those of a model that is no object are wanted as they are."""
    if not isinstance(wanted, dict):
        return bool(args == wanted)
    return isinstance(args, dict) and {**args, **wanted} == args


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
        test = Connection(f"sqlite:{folder}/jobs.db?synchronous=normal", connection._keys, is_test=True)
        connection._lend(test)
        try:
            yield TestJobs(app)
        finally:
            connection._lend(None)
            test.close()


@contextmanager
def _noting(failed: list[BaseException]) -> Generator[None]:
    told = logger.logger
    previous = told.disabled
    observer = handlers.observe(failed.append)
    told.disabled = True
    try:
        yield
    finally:
        told.disabled = previous
        handlers.observe(observer)
