"""One handler by itself, without a store, for tests."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from ._fake import FakeContext, FakeJob
from ._in_thread import in_thread
from .args import encode
from .context import Context, _current
from .errors import InvalidOption
from .handler import awaited, each_of
from .job import Job
from .outcome import Outcome

T = TypeVar("T")


class Perform:
    """One attempt of a job's handler by itself, for what ``windlass_jobs.perform`` does not say::

        attempt = Perform(import_, attempt=2, checkpoint=3)
        assert attempt.run(parts=5) is None
        assert (attempt.log, attempt.checkpoint) == (["part 3", "part 4"], 5)

    Options of the job are those of ``import_.with_options(...)``.
    """

    def __init__(self, job: Job[...], *, attempt: int = 1, checkpoint: Any = None, cancelled: str | None = None) -> None:
        """
        :param attempt: Which attempt it is, from 1.
        :param checkpoint: What an earlier attempt left.
        :param cancelled: What ``ctx.cancelled`` says. No ``CancelledError`` is raised.

        Raises :class:`windlass.errors.InvalidOption` for a job that takes several at a time: those are for :func:`perform_batch`.
        """
        if job.handler.is_batch:
            raise InvalidOption(f"{job.kind} takes several jobs in one call: use perform_batch")
        self._job = job
        self._attempt = attempt
        self._fake = FakeJob(job, "null", attempt)
        self._context = FakeContext(job, self._fake, cancelled, checkpoint)

    @property
    def progress(self) -> tuple[float, str | None] | None:
        """How far the handler said it is, per cent and with which note; the last time."""
        return self._fake.said

    @property
    def log(self) -> list[str]:
        """The lines that it added to the job's log."""
        return self._fake.lines

    @property
    def checkpoint(self) -> Any:
        """What the next attempt would be given."""
        return self._context.last_checkpoint_sync()

    def run(self, /, *model: Any, **args: Any) -> Any:
        """Calls the handler as a worker does, with args that went to JSON and back. What it returned, or the outcome that it raised.

        Raises what else it raises, and :class:`windlass.errors.InvalidArgs` for args that do not fit.
        """
        self._fake.args_json = encode(self._job.handler.args_of(model, args))
        try:
            return contextvars.copy_context().run(self._call)
        except Outcome as outcome:
            return outcome

    async def run_async(self, /, *model: Any, **args: Any) -> Any:
        """The same on the running event loop; a plain function runs in a thread."""
        self._fake.args_json = encode(self._job.handler.args_of(model, args))
        try:
            return await asyncio.create_task(self._await())
        except Outcome as outcome:
            return outcome

    def _call(self) -> Any:
        _current.set(self._context)
        value = self._begin(self._fake)
        return on_a_loop(value) if self._job.handler.is_async else awaited(value, self._job.kind)

    async def _await(self) -> Any:
        _current.set(self._context)
        if self._job.handler.is_async:
            return await self._begin(self._fake)
        return awaited(await in_thread(self._begin, self._fake), self._job.kind)

    def _begin(self, fake: Any) -> Any:
        return self._job.handler.call(fake, self._context)


def perform_batch(job: Job[...], jobs: Iterable[Any]) -> list[Any]:
    """Calls the function of a batch once, as a worker does, with args that went to JSON and back: dicts, or models where the job has one. What
    it says of each job: what it returned for it, or an outcome.

    Raises what the function raises, :class:`windlass.errors.InvalidOption` for a job that is no batch, and
    :class:`windlass.errors.InvalidArgs` for args that do not fit.
    """
    call, args = _batch(job, jobs)
    try:
        value = call(args)
        return each_of(on_a_loop(value) if job.handler.is_async else value, len(args), job.kind)
    except Outcome as outcome:
        return [outcome] * len(args)


async def perform_batch_async(job: Job[...], jobs: Iterable[Any]) -> list[Any]:
    """The same on the running event loop; a plain function runs in a thread."""
    call, args = _batch(job, jobs)
    try:
        return each_of(await call(args) if job.handler.is_async else await in_thread(call, args), len(args), job.kind)
    except Outcome as outcome:
        return [outcome] * len(args)


def _batch(job: Job[...], jobs: Iterable[Any]) -> tuple[Callable[[list[Any]], Any], list[Any]]:
    """What calls the function, and the args to call it with."""
    if not job.handler.is_batch:
        raise InvalidOption(f"{job.kind} takes one job in a call: use perform")
    fakes = [FakeJob(job, encode(args), id=id) for id, args in enumerate(job._checked(jobs), 1)]
    if not fakes:
        raise InvalidOption("a batch has at least one job, got none")
    contexts: list[Context] = [FakeContext(job, fake, None, None) for fake in fakes]
    model = job.handler.model
    args = [model.read(fake) if model else fake.args for fake in fakes]
    return functools.partial(job.handler.call_batch, contexts), args


def on_a_loop(work: Coroutine[Any, Any, T]) -> T:
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

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,))
    thread.start()
    thread.join()
    [(is_done, value)] = result
    if not is_done:
        raise value
    return value  # type: ignore[no-any-return]
