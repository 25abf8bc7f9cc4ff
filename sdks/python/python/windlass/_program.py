"""What a worker needs of an app, so that it need not know one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .connection import Connection
    from .handler import AnyHandler
    from .job import Job
    from .middleware import Middleware
    from .traces import Traces


class Program(Protocol):
    """Jobs, the store that they are in, and what runs around them: an :class:`windlass.App`."""

    jobs: dict[str, Job[...]]
    connection: Connection
    traces: Traces | None
    _any: AnyHandler | None
    _middleware: list[Middleware]

    async def declare_schedules(self) -> list[str]:
        """Stores its schedules."""
        ...
