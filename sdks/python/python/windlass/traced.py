"""Jobs whose attempts have spans: how a worker with traces runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .children import Child
from .handler import Ended, Handler, returned
from .outcome import Outcome

if TYPE_CHECKING:
    from . import _native
    from .connection import Connection
    from .context import Context
    from .job import Job
    from .traces import Traces


def traced(job: Job[Any], traces: Traces) -> Job[Any]:
    """The same job with a span around each attempt; those of batches have none."""
    return job if job.max_size else job._with_handler(TracedHandler(job.handler, traces))


class TracedHandler(Handler):
    """A handler whose attempts have spans."""

    def __init__(self, handler: Handler, traces: Traces) -> None:
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


class TracedChild(Child):
    """Child processes whose jobs have spans, made here: what the child does has the sender's trace context in the job's meta."""

    def __init__(self, jobs: dict[str, Job[Any]], connection: Connection, traces: Traces) -> None:
        super().__init__(jobs, connection)
        self._traces = traces

    def run(self, desk: _native.ThreadDesk, job: _native.Job) -> Ended | None:
        with self._traces._attempt(job) as tell:
            ended = super().run(desk, job)
            tell(ended)
            return ended
