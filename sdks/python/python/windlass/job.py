"""A job of an app: its function, and how it is enqueued."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, ParamSpec

from . import calls, drivers
from .args import encode
from .errors import InvalidOption
from .handler import Handler
from .options import Options

if TYPE_CHECKING:
    from .connection import Connection
    from .traces import Traces

P = ParamSpec("P")


class Job(Generic[P]):
    """What ``@app.job`` makes of a function. Calling it calls the function; :meth:`enqueue` has a worker call it."""

    def __init__(
        self,
        kind: str,
        handler: Handler,
        options: Options,
        connection: Connection,
        max_size: int | None = None,
        in_child: bool = False,
        traces: Traces | None = None,
    ) -> None:
        self.kind = kind
        self.options = options
        self.max_size = max_size
        """How many jobs one call takes, where the function takes several."""
        self.in_child = in_child
        """Whether it runs in a child process."""
        self.handler = handler
        self._connection = connection
        self._traces = traces
        self.__doc__ = handler.function.__doc__
        self.__name__: str = handler.function.__name__
        self.__wrapped__: Callable[..., Any] = handler.function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.handler.function(*args, **kwargs)

    def with_options(self, **options: Any) -> Job[P]:
        """The same job with other :class:`windlass.Options`: ``send_mail.with_options(delay="5m").enqueue(to="a@example.com")``."""
        options_of = self.options._with(options)
        return Job(self.kind, self.handler, options_of, self._connection, self.max_size, self.in_child, self._traces)

    def _with_handler(self, handler: Handler) -> Job[P]:
        return Job(self.kind, handler, self.options, self._connection, self.max_size, self.in_child, self._traces)

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> int:
        """Enqueues a job and gives its id. Of a unique job that is not stored, the id of the job that has its key."""
        with self._sending():
            call = self._enqueue(args, kwargs)
            return call.read(await self._connection.call(call.op, call.payload))

    def enqueue_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> int:
        """The same where there is no event loop: waits for the store."""
        with self._sending():
            call = self._enqueue(args, kwargs)
            return call.read(self._connection.call_sync(call.op, call.payload))

    async def enqueue_many(self, jobs: Iterable[Any]) -> list[int]:
        """Enqueues one job for each of these args, all or none: dicts, or models where the job has one. Their ids, in order."""
        checked = self._checked(jobs)
        if not checked:
            return []
        with self._sending(len(checked)):
            call = self._enqueue_many(checked)
            return call.read(await self._connection.call(call.op, call.payload))

    def enqueue_many_sync(self, jobs: Iterable[Any]) -> list[int]:
        """The same where there is no event loop."""
        checked = self._checked(jobs)
        if not checked:
            return []
        with self._sending(len(checked)):
            call = self._enqueue_many(checked)
            return call.read(self._connection.call_sync(call.op, call.payload))

    async def enqueue_in(self, connection: Any, /, *args: P.args, **kwargs: P.kwargs) -> int:
        """Enqueues a job inside the transaction of your own connection: it exists if and when that commits.

        ``connection`` is an async one of psycopg, asyncpg or SQLAlchemy.
        """
        with self._sending():
            call = self._enqueue_sql(args, kwargs)
            [statement] = call.read(await self._connection.call(call.op, call.payload))
            return int(await drivers.run(connection, statement))

    def enqueue_in_sync(self, connection: Any, /, *args: P.args, **kwargs: P.kwargs) -> int:
        """The same through a connection of psycopg, SQLAlchemy or Django that is not awaited."""
        with self._sending():
            call = self._enqueue_sql(args, kwargs)
            [statement] = call.read(self._connection.call_sync(call.op, call.payload))
            return int(drivers.run_sync(connection, statement))

    def _sending(self, count: int = 1) -> AbstractContextManager[None]:
        if self._traces is None:
            return nullcontext()
        return self._traces._sending(self.options.queue or "default", self.kind, count)

    def _spec(self) -> dict[str, Any]:
        spec = self.options._spec(self.kind)
        if self._traces is not None:
            self._traces._carry(spec)
        return spec

    def _args(self, args: tuple[Any, ...], given: dict[str, Any]) -> str:
        return encode(self.handler.args_of(args, given))

    def _enqueue(self, args: tuple[Any, ...], given: dict[str, Any]) -> calls.Call[int]:
        if self.options.unique is not None:
            self._refuse_key("a unique job")
            return calls.enqueue_unique(self._spec(), self._args(args, given))
        return calls.enqueue(self._spec(), self._args(args, given), self.options.idempotency_key)

    def _checked(self, jobs: Iterable[Any]) -> list[Any]:
        if self.handler.model is not None:
            return [self.handler.model.check(job) for job in jobs]
        return [self.handler.args_of((), dict(job)) for job in jobs]

    def _enqueue_many(self, checked: list[Any]) -> calls.Call[list[int]]:
        if self.options.unique is not None:
            self._refuse_key("a unique job")
            return calls.enqueue_many_unique(self._spec(), encode(checked))
        return calls.enqueue_many(self._spec(), encode(checked), self.options.idempotency_key)

    def _enqueue_sql(self, args: tuple[Any, ...], given: dict[str, Any]) -> calls.Call[list[dict[str, Any]]]:
        self._refuse_key("a job in a transaction")
        return calls.enqueue_sql(self._spec(), f"[{self._args(args, given)}]")

    def _refuse_key(self, what: str) -> None:
        if self.options.idempotency_key is not None:
            raise InvalidOption(f"{what} takes no idempotency_key; make it unique instead")

    def __repr__(self) -> str:
        return f"<Job {self.kind!r}>"
