"""A job of an app: its function, and how it is enqueued."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from . import calls, drivers
from .args import encode
from .drivers import SqlCall
from .errors import InvalidArgs, InvalidOption
from .handler import Handler
from .options import Options

if TYPE_CHECKING:
    from ._batching import Batching
    from .connection import Connection
    from .records import EnqueuedUnique
    from .traces import Traces

P = ParamSpec("P")
T = TypeVar("T")
_NOTHING = nullcontext()


class Job(Generic[P]):
    """What ``@app.job`` makes of a function. Calling it calls the function; :meth:`enqueue` has a worker call it."""

    def __init__(
        self,
        kind: str,
        handler: Handler,
        options: Options,
        connection: Connection,
        batching: Batching | None = None,
        in_child: bool = False,
        traces: Traces | None = None,
    ) -> None:
        self.kind = kind
        self.options = options
        self.batching = batching
        """How many jobs one call takes, and how long the first waits for others, where the function takes several."""
        self.in_child = in_child
        """Whether it runs in a child process."""
        self.handler = handler
        self._connection = connection
        self._traces = traces
        self._written: tuple[Options, str] | None = None
        self.__doc__ = handler.function.__doc__
        self.__name__: str = handler.function.__name__
        self.__qualname__: str = handler.function.__qualname__
        self.__module__: str = handler.function.__module__
        self.__wrapped__: Callable[..., Any] = handler.function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.handler.function(*args, **kwargs)

    def with_options(self, **options: Any) -> Job[P]:
        """The same job with other :class:`windlass.Options`: ``send_mail.with_options(delay="5m").enqueue(to="a@example.com")``."""
        job = self._copy()
        job.options = self.options._with(options)
        return job

    def _with_handler(self, handler: Handler) -> Job[P]:
        job = self._copy()
        job.handler = handler
        return job

    def _copy(self) -> Job[P]:
        job: Job[P] = object.__new__(type(self))
        job.__dict__.update(self.__dict__)
        return job

    def __reduce__(self) -> str:
        """Pickled as a function is, by its name: another process finds it where it is defined."""
        return self.__qualname__

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> int:
        """Enqueues a job and gives its id. Of a unique job that is not stored, the id of the job that has its key.

        Raises :class:`windlass.errors.InvalidArgs` for args that do not fit the function or are no JSON, :class:`InvalidOption` and
        :class:`InvalidName` for options that cannot be, :class:`UniqueConflict` where the job asks for it, :class:`Unavailable` when the store
        cannot be reached, :class:`Ambiguous` when nobody knows whether it is stored.
        """
        if self._traces is None:  # most have none, and what is around them is felt
            call = self._enqueue(self._one(args, kwargs))
            [id] = call.read(await self._connection.call(call.op, call.payload))
            return id
        with self._sending():
            [id] = await self._send(self._enqueue(self._one(args, kwargs)))
            return id

    def enqueue_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> int:
        """The same where there is no event loop: waits for the store."""
        with self._sending():
            [id] = self._send_sync(self._enqueue(self._one(args, kwargs)))
            return id

    async def enqueue_many(self, jobs: Iterable[Any]) -> list[int]:
        """Enqueues one job for each of these args, all or none: dicts, or models where the job has one. Their ids, in order. Raises as
        :meth:`enqueue`."""
        checked = self._checked(jobs)
        if not checked:
            return []
        with self._sending(len(checked)):
            return await self._send(self._enqueue(encode(checked)))

    def enqueue_many_sync(self, jobs: Iterable[Any]) -> list[int]:
        """The same where there is no event loop."""
        checked = self._checked(jobs)
        if not checked:
            return []
        with self._sending(len(checked)):
            return self._send_sync(self._enqueue(encode(checked)))

    async def enqueue_unique(self, /, *args: P.args, **kwargs: P.kwargs) -> EnqueuedUnique:
        """Enqueues a unique job, and tells which job has its key now and what became of the one that had it. Raises as :meth:`enqueue`, and
        :class:`InvalidOption` for a job that is not unique."""
        with self._sending():
            [stored] = await self._send(self._enqueue_unique(self._one(args, kwargs)))
            return stored

    def enqueue_unique_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> EnqueuedUnique:
        """The same where there is no event loop."""
        with self._sending():
            [stored] = self._send_sync(self._enqueue_unique(self._one(args, kwargs)))
            return stored

    async def enqueue_many_unique(self, jobs: Iterable[Any]) -> list[EnqueuedUnique]:
        """Enqueues one unique job for each of these args, as :meth:`enqueue_many` takes them: what came of each, in order. Raises as
        :meth:`enqueue_unique`."""
        checked = self._checked(jobs)
        if not checked:
            return []
        with self._sending(len(checked)):
            return await self._send(self._enqueue_unique(encode(checked)))

    def enqueue_many_unique_sync(self, jobs: Iterable[Any]) -> list[EnqueuedUnique]:
        """The same where there is no event loop."""
        checked = self._checked(jobs)
        if not checked:
            return []
        with self._sending(len(checked)):
            return self._send_sync(self._enqueue_unique(encode(checked)))

    async def enqueue_in(self, connection: Any, /, *args: P.args, **kwargs: P.kwargs) -> int:
        """Enqueues a job inside the transaction of your own connection: it exists if and when that commits.

        ``connection`` is an async one of psycopg, asyncpg or SQLAlchemy. With an ``idempotency_key`` it is stored once, however often that commits: who repeats it gets
        the first one's id, and waits while the transaction of the first is open, which must be READ COMMITTED. Raises as :meth:`enqueue`, :class:`windlass.errors.Unsupported` when
        the app's store is not PostgreSQL, and what your driver raises.
        """
        with self._sending():
            statements = await self._send(self._enqueue_sql(self._one(args, kwargs)))
            [id] = await drivers.run(connection, self._together(statements))
            return id

    def enqueue_in_sync(self, connection: Any, /, *args: P.args, **kwargs: P.kwargs) -> int:
        """The same through a connection of psycopg, SQLAlchemy or Django that is not awaited."""
        with self._sending():
            statements = self._send_sync(self._enqueue_sql(self._one(args, kwargs)))
            [id] = drivers.run_sync(connection, self._together(statements))
            return id

    async def enqueue_many_in(self, connection: Any, jobs: Iterable[Any]) -> list[int]:
        """Enqueues one job for each of these args inside your transaction, in one statement: args as of :meth:`enqueue_many`, connection and
        errors as of :meth:`enqueue_in`. Their ids, in order."""
        checked = self._checked(jobs)
        if not checked:
            return []
        with self._sending(len(checked)):
            statements = await self._send(self._enqueue_sql(encode(checked)))
            return await drivers.run(connection, self._together(statements))

    def enqueue_many_in_sync(self, connection: Any, jobs: Iterable[Any]) -> list[int]:
        """The same through a connection that is not awaited."""
        checked = self._checked(jobs)
        if not checked:
            return []
        with self._sending(len(checked)):
            statements = self._send_sync(self._enqueue_sql(encode(checked)))
            return drivers.run_sync(connection, self._together(statements))

    async def enqueue_sql(self, /, *args: P.args, **kwargs: P.kwargs) -> SqlCall:
        """The statement that enqueues a job, to be run in your transaction by a driver of PostgreSQL that :meth:`enqueue_in` does not know: its text and
        its parameters. Raises as :meth:`enqueue_in`, but for what your driver raises."""
        with self._sending():
            return self._one_statement(await self._send(self._enqueue_sql(self._one(args, kwargs))))

    def enqueue_sql_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> SqlCall:
        """The same where there is no event loop."""
        with self._sending():
            return self._one_statement(self._send_sync(self._enqueue_sql(self._one(args, kwargs))))

    async def enqueue_many_sql(self, jobs: Iterable[Any]) -> SqlCall:
        """The same for one job for each of these args, of which there is one at least: args as of :meth:`enqueue_many`."""
        checked = self._checked(jobs)
        with self._sending(len(checked)):
            return self._one_statement(await self._send(self._enqueue_sql(encode(checked))))

    def enqueue_many_sql_sync(self, jobs: Iterable[Any]) -> SqlCall:
        """The same where there is no event loop."""
        checked = self._checked(jobs)
        with self._sending(len(checked)):
            return self._one_statement(self._send_sync(self._enqueue_sql(encode(checked))))

    async def _send(self, call: calls.Call[T]) -> T:
        return call.read(await self._connection.call(call.op, call.payload))

    def _send_sync(self, call: calls.Call[T]) -> T:
        return call.read(self._connection.call_sync(call.op, call.payload))

    def _sending(self, count: int = 1) -> AbstractContextManager[None]:
        if self._traces is None:
            return _NOTHING
        return self._traces._sending(self.options.queue or "default", self.kind, count)

    def _spec(self) -> dict[str, Any]:
        spec = self.options._spec(self.kind)
        if self._traces is not None:
            self._traces._carry(spec)
        return spec

    def _written_spec(self) -> str:
        """The same as JSON, written once for as long as nothing in it can change: an enqueue is then its args and little else."""
        options = self.options
        if self._traces is not None or options.meta is not None or options.tags:
            return encode(self._spec())
        if self._written is None or self._written[0] is not options:
            self._written = (options, encode(self._spec()))
        return self._written[1]

    def _one(self, args: tuple[Any, ...], given: dict[str, Any]) -> str:
        """The args of a call as JSON, in a list of their own."""
        return encode([self.handler.args_of(args, given)])

    def _checked(self, jobs: Iterable[Any]) -> list[Any]:
        model = self.handler.model
        if not isinstance(jobs, Iterable) or isinstance(jobs, (Mapping, str) if model is None else model.model):
            raise InvalidArgs(f"enqueue_many takes a list with the args of each job, got {reprlib.repr(jobs)}")
        if model is not None:
            return [model.check(job) for job in jobs]
        return [self.handler.args_of((), dict(job) if type(job) is dict else self._named(job)) for job in jobs]

    def _named(self, args: Any) -> dict[str, Any]:
        if not isinstance(args, Mapping):
            names = ", ".join(f"{name!r}: ..." for name in self.handler.signature.parameters)
            raise InvalidArgs(f"args of a job are named, as in {{{names}}}, got {reprlib.repr(args)}")
        return dict(args)

    def _enqueue(self, args: str) -> calls.Call[list[int]]:
        if self.options.unique is None:
            return calls.enqueue(self._written_spec(), args, self.options.idempotency_key)
        call = self._enqueue_unique(args)
        return calls.Call(call.op, call.payload, lambda answer: [stored.id for stored in call.read(answer)])

    def _enqueue_unique(self, args: str) -> calls.Call[list[EnqueuedUnique]]:
        if self.options.unique is None:
            raise InvalidOption(f"say what makes a job of kind {self.kind!r} unique, as in .with_options(unique=Unique('a key'))")
        self._refuse_key()
        return calls.enqueue_unique(self._written_spec(), args)

    def _enqueue_sql(self, args: str) -> calls.Call[list[drivers.Statement]]:
        if self.options.unique is not None:
            self._refuse_key()
        return calls.enqueue_sql(self._written_spec(), args, self.options.idempotency_key)

    def _one_statement(self, statements: list[drivers.Statement]) -> SqlCall:
        if not statements:
            raise InvalidArgs("no statement enqueues no job: there must be the args of one at least")
        return drivers.percent(self._together(statements))

    def _together(self, statements: list[drivers.Statement]) -> drivers.Statement:
        return drivers.together(statements, self.options.unique is not None)

    def _refuse_key(self) -> None:
        if self.options.idempotency_key is not None:
            raise InvalidOption("a unique job takes no idempotency_key; its own key makes an enqueue repeatable")

    if not TYPE_CHECKING:  # which knows that there is no such attribute

        def __getattr__(self, name: str) -> Any:
            """Tells who comes from another queue, as with ``.delay()`` or ``.send()``, what it is called here."""
            raise AttributeError(f"a job has no {name!r}; `await job.enqueue(...)` or `job.enqueue_sync(...)` enqueues it, with options by `job.with_options(...)`")

    def __repr__(self) -> str:
        return f"<Job {self.kind!r}>"
