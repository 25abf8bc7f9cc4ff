"""What runs around every handler: error reports, figures, locks, whatever there is to do before and after a job."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Union

from .children import stopped
from .context import Context, _current
from .errors import InvalidOption
from .handler import AnyHandler, Ended, Handler, awaited, each_of, failure, is_thrown_away, returned
from .outcome import Cancel, Complete, Discard, Outcome, Retry, Snooze
from .threads import Runner, WrappedRunner

if TYPE_CHECKING:
    from . import _native
    from .connection import Connection
    from .job import Job

Around = Generator[None, Outcome, Union[Outcome, None]]
"""What a middleware is: a generator that yields once, where the handler runs, and is sent its outcome."""
Middleware = Callable[[Context], Around]


class Layers:
    """The middleware around one attempt, as far as it has begun. The first is the outermost."""

    def __init__(self, middleware: Sequence[Middleware], context: Context) -> None:
        self._begun: list[tuple[Middleware, Around]] = []
        self.instead: Outcome | None = None
        """What becomes of the job where one of them leaves the handler out."""
        for one in middleware:
            try:
                around = one(context)
                next(around)
            except StopIteration as stop:
                self.instead = _outcome_of(one, stop.value) or _wrong(one, "it returned without an outcome and did not yield")
            except BaseException as error:
                self.instead = failed(error)
            else:
                self._begun.append((one, around))
                continue
            return

    def end(self, outcome: Outcome) -> Outcome:
        """Tells them the outcome, from the innermost on; what they make of it."""
        while self._begun:
            one, around = self._begun.pop()
            try:
                around.send(outcome)
            except StopIteration as stop:
                outcome = _outcome_of(one, stop.value) or outcome
            except BaseException as error:
                outcome = outcome if error is outcome.__cause__ else failed(error)
            else:
                around.close()
                outcome = _wrong(one, "it yielded twice")
        return outcome

    def drop(self) -> None:
        """Ends them without an outcome: the job was taken away."""
        while self._begun:
            self._begun.pop()[1].close()


def _outcome_of(one: Middleware, value: Any) -> Outcome | None:
    if value is None or isinstance(value, Outcome):
        return value
    return _wrong(one, f"it returned a {type(value).__name__}, which is no outcome")


def _wrong(one: Middleware, what: str) -> Outcome:
    name = getattr(one, "__qualname__", repr(one))
    return failed(InvalidOption(f"the middleware {name} yields once and returns an outcome or nothing: {what}"))


def failed(error: BaseException) -> Outcome:
    """What was raised, as an outcome: its ``__cause__`` where that is none."""
    if isinstance(error, Outcome):
        return error
    outcome = Retry(failure(error)[2] or "")
    outcome.__cause__ = outcome._raised = error
    return outcome


def said(outcome: Outcome) -> Any:
    """The same as a handler would say it: what it raised is raised."""
    if isinstance(outcome, Complete):
        return outcome.result
    if isinstance(outcome, Retry) and outcome._raised is not None:
        raise outcome._raised  # not the cause: an outcome that is raised from an error has one, too
    return outcome


def completed(value: Any) -> Outcome:
    """What a handler returned, as an outcome."""
    return value if isinstance(value, Outcome) else Complete(value)


class LayeredHandler(Handler):
    """A handler with middleware around it."""

    def __init__(self, handler: Handler | AnyHandler, middleware: Sequence[Middleware]) -> None:
        self.__dict__.update(handler.__dict__)
        self._handler = handler
        self._middleware = middleware

    def call(self, job: _native.Job, context: Context) -> Any:
        if self.is_async:
            return self._awaited(job, context)
        layers = Layers(self._middleware, context)
        return said(layers.end(layers.instead or self._run(job, context)))

    def _run(self, job: _native.Job, context: Context) -> Outcome:
        try:
            return completed(awaited(self._handler.call(job, context), self.function.__qualname__))
        except BaseException as error:
            return failed(error)

    async def _awaited(self, job: _native.Job, context: Context) -> Any:
        layers, loop = Layers(self._middleware, context), asyncio.get_running_loop()
        try:
            outcome = layers.instead or completed(await self._handler.call(job, context))
        except BaseException as error:
            if _is_taken_away(error, context, loop):
                layers.drop()
                raise
            outcome = failed(error)
        return said(layers.end(outcome))

    async def call_each(
        self, contexts: list[Context], args: list[Any], call: Callable[[list[Context], list[Any]], Awaitable[Any]], kind: str
    ) -> list[Outcome]:
        """Calls the function of a batch for the jobs that no middleware keeps from it; what became of each."""
        around, loop = [Layers(self._middleware, context) for context in contexts], asyncio.get_running_loop()
        outcomes = {n: layers.instead for n, layers in enumerate(around) if layers.instead is not None}
        left = [n for n in range(len(around)) if n not in outcomes]
        try:
            if left:
                value = await call([contexts[n] for n in left], [args[n] for n in left])
                outcomes.update(zip(left, map(completed, each_of(value, len(left), kind))))
        except BaseException as error:
            if _is_taken_away(error, contexts[0], loop):
                for layers in around:
                    layers.drop()
                raise
            outcomes.update((n, failed(error)) for n in left)
        return [layers.end(outcomes[n]) for n, layers in enumerate(around)]


def _is_taken_away(error: BaseException, context: Context, loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the job runs again elsewhere, or its event loop was closed: nobody asks for an outcome."""
    return is_thrown_away(error, loop) or (isinstance(error, asyncio.CancelledError) and context.cancelled in ("shutdown", "lost"))


class LayeredRunner(WrappedRunner):
    """Has middleware run here around jobs that a child process runs."""

    def __init__(self, runner: Runner, connection: Connection, middleware: Sequence[Middleware]) -> None:
        super().__init__(runner)
        self._connection = connection
        self._middleware = middleware

    def run(self, desk: _native.ThreadDesk, job: _native.Job) -> Ended | None:
        return contextvars.Context().run(self._around, desk, job)

    def _around(self, desk: _native.ThreadDesk, job: _native.Job) -> Ended | None:
        context = Context(job, self._connection, lambda _: desk.reason())
        _current.set(context)
        layers = Layers(self._middleware, context)
        if layers.instead is not None:
            return returned(layers.end(layers.instead), job.kind)
        ended = self._runner.run(desk, job)
        reason = desk.reason()
        if reason in ("shutdown", "lost") and ended == stopped(reason):  # it runs again elsewhere
            layers.drop()
            return ended
        outcome = _of_ended(ended)
        after = layers.end(outcome)
        return ended if after is outcome else returned(after, job.kind)


def _of_ended(ended: Ended | None) -> Outcome:
    """What a child process says became of its job, as an outcome."""
    if ended is None:
        return Complete(None)
    word, after, text = ended
    if word == "complete":
        return Complete(json.loads(text or "null"))
    if word == "snooze":
        return Snooze(after or 0)
    if word == "retry":
        return Retry(text or "", after=after)
    return Cancel(text or "") if word == "cancel" else Discard(text or "")
