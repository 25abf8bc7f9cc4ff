"""Jobs whose attempts have spans: how a worker with traces runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .handler import AnyHandler, Ended, Handler, returned
from .outcome import Outcome
from .threads import Runner, WrappedRunner

if TYPE_CHECKING:
    from . import _native
    from .context import Context
    from .traces import Traces


class TracedHandler(Handler):
    """A handler whose attempts have spans."""

    def __init__(self, handler: Handler | AnyHandler, traces: Traces) -> None:
        self.__dict__.update(handler.__dict__)
        self._handler = handler
        self._traces = traces

    def call(self, job: _native.Job, context: Context) -> Any:
        if self.is_async:
            return self._awaited(job, context)
        with self._traces._attempt(job) as tell:
            ended = returned(self._handler.call(job, context), job.kind)
            tell(ended)
            return _Said.of(ended)

    async def _awaited(self, job: _native.Job, context: Context) -> Any:
        with self._traces._attempt(job) as tell:
            ended = returned(await self._handler.call(job, context), self.function.__qualname__)
            tell(ended)
            return _Said.of(ended)


class _Said(Outcome):
    """What a return said, so that a large result is not written twice."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended

    @classmethod
    def of(cls, ended: Ended | None) -> _Said | None:
        return None if ended is None else cls(ended)

    def _told(self) -> Ended:
        return self._ended


class TracedRunner(WrappedRunner):
    """Jobs of child processes with spans, made here: what the child does has the sender's trace context in the job's meta."""

    def __init__(self, runner: Runner, traces: Traces) -> None:
        super().__init__(runner)
        self._traces = traces

    def run(self, desk: _native.ThreadDesk, job: _native.Job) -> Ended | None:
        with self._traces._attempt(job) as tell:
            ended = self._runner.run(desk, job)
            tell(ended)
            return ended
