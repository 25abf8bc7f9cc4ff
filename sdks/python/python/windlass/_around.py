"""What a worker has around its handlers: the app's middleware, and around that its traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .handler import AnyHandler, Handler
from .middleware import LayeredHandler, LayeredRunner, Middleware
from .threads import Runner
from .traced import TracedHandler, TracedRunner

if TYPE_CHECKING:
    from .connection import Connection
    from .job import Job
    from .traces import Traces


class Around:
    """Puts it around handlers."""

    def __init__(self, traces: Traces | None, middleware: Sequence[Middleware]) -> None:
        self._traces = traces
        self._middleware = middleware

    def job(self, job: Job[...]) -> Job[...]:
        """The same job; those of batches have no span."""
        if job.in_child:
            return job  # what is around it is where its thread is
        if self._middleware:
            job = job._with_handler(LayeredHandler(job.handler, self._middleware))
        if self._traces is not None and not job.batching:
            job = job._with_handler(TracedHandler(job.handler, self._traces))
        return job

    def any(self, handler: AnyHandler) -> Handler | AnyHandler:
        """The same of the handler of all other kinds."""
        around: Handler | AnyHandler = LayeredHandler(handler, self._middleware) if self._middleware else handler
        return around if self._traces is None else TracedHandler(around, self._traces)

    def child(self, runner: Runner, connection: Connection) -> Runner:
        """The same of who has child processes run jobs."""
        if self._middleware:
            runner = LayeredRunner(runner, connection, self._middleware)
        return runner if self._traces is None else TracedRunner(runner, self._traces)
