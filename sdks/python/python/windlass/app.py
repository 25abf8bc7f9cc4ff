"""The app: a store, the jobs of a program, and its schedules."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Callable, Concatenate, ParamSpec, TypeVar, overload

from .children import place_of
from .client import Client, SyncClient
from .connection import Connection
from .context import Context
from .errors import InvalidName, InvalidOption
from .handler import Handler
from .job import Job
from .options import Options
from .schedule import Schedule
from .worker import Worker

if TYPE_CHECKING:
    from .traces import Traces

P = ParamSpec("P")
T = TypeVar("T")


class App:
    """The jobs of a program and the store that they are in::

        app = App("postgres://me@localhost/shop")  # or "sqlite:jobs.db"

        @app.job(queue="mail")
        async def send_mail(to: str) -> None: ...

    Nothing connects before the first use. The environment variable ``WINDLASS_STORE`` wins over the URL, which so may be that of
    development.
    """

    def __init__(self, store: str | None = None, *, name: str = "", keys: str | None = None, traces: Traces | None = None) -> None:
        """
        :param store: Its URL.
        :param name: Who declares the app's schedules: with a name, those that it no longer declares are removed.
        :param keys: Of encrypted jobs: ``ID:BASE64`` of 32 bytes each, with commas between, the current one first (it seals; all of them open).
            From where you keep passwords: ``os.environ.get("WINDLASS_KEYS")``.
        :param traces: Makes spans of its jobs: :class:`windlass.traces.Traces`.
        """
        url = os.environ.get("WINDLASS_STORE") or store
        if not url:
            raise InvalidOption("name the store: App('postgres://user@host/database'), or set WINDLASS_STORE")
        self.name = name
        """Who declares the app's schedules: with a name, those that it no longer declares are removed."""
        self.traces = traces
        """Traces of its jobs by OpenTelemetry, if it has any."""
        self.jobs: dict[str, Job[Any]] = {}
        """Its jobs by their kinds."""
        self.connection: Connection = Connection(url, keys)
        self.client: Client = Client(self.connection)
        """Looks at jobs and queues and changes them."""
        self.sync: SyncClient = SyncClient(self.connection)
        """The same for code without an event loop."""
        self._schedules: list[Schedule] = []

    @overload
    def job(self, function: Callable[Concatenate[Context, P], Awaitable[T]], /) -> Job[P]: ...
    @overload
    def job(self, function: Callable[Concatenate[Context, P], T], /) -> Job[P]: ...
    @overload
    def job(self, function: Callable[P, Any], /) -> Job[P]: ...
    @overload
    def job(self, kind: str | None = None, /, *, args: type | None = None, process: bool = False, **options: Any) -> Decorator: ...
    def job(self, kind: Any = None, /, *, args: type | None = None, process: bool = False, **options: Any) -> Any:
        """Makes a function a job. Its parameters are the job's args; a first parameter of type :class:`Context` is handed in beside them.

        :param kind: The job's name in the store; by default module and name of the function.
        :param args: A pydantic model or a dataclass that *is* the args: the function takes one of it.
        :param process: Runs it in a child process: for plain functions that keep a processor busy. The child imports the function's module.
        :param options: :class:`windlass.Options` of all its jobs, such as ``queue``, ``max_attempts``, ``timeout``.

        An async function runs as a task of the worker's event loop, a plain one in a thread. What it returns is stored as the job's result.
        """
        if callable(kind):
            return self._add(kind, None, None, {})
        return lambda function: self._add(function, kind, args, options, process=process)

    def batch(self, kind: str | None = None, /, *, max_size: int = 100, args: type | None = None, **options: Any) -> BatchDecorator:
        """Makes a function a job that takes up to ``max_size`` jobs in one call: a list of their args, as dicts or models. It takes what is
        there and never waits for more, and no more of a queue than run at once. A first parameter of type ``list[Context]`` is handed in before
        it: the context of each job, in the order of the args.

        Return ``None`` when all are done, or a list with one outcome or result (or ``None``) for each; raise, and all are tried again.
        """
        if max_size < 1:
            raise InvalidOption(f"max_size must be at least 1, got {max_size}")
        decorator: Any = lambda function: self._add(function, kind, args, options, max_size)
        return decorator  # type: ignore[no-any-return]

    def schedule(self, name: str, cron: str, job: Job[Any], args: Any = None, **options: Any) -> Schedule:
        """Declares a :class:`Schedule` of a job; workers store it when they start, and one of them enqueues its jobs::

            app.schedule("nightly", "0 3 * * *", clean_up, zone="Europe/Berlin")
        """
        schedule = Schedule(name, cron, job, args, **options)
        self._schedules.append(schedule)
        return schedule

    async def declare_schedules(self) -> list[str]:
        """Stores the schedules now. For each ``created``, ``changed`` or ``unchanged``."""
        if not self._schedules and not self.name:
            return []
        return (await self.client.put_schedules(self._schedules, source=self.name, prune=bool(self.name))).replies

    def worker(self, queues: Mapping[str, int] | None = None, **options: Any) -> Worker:
        """A :class:`Worker` for these queues, with how many jobs of each run at once. By default those that its jobs name, with 10 of each, or as many as
        the largest batch takes, or as there are processes where all jobs have ``process=True``."""
        return Worker(self, queues, **options)

    def run_worker(self, queues: Mapping[str, int] | None = None, **options: Any) -> None:
        """Works until Ctrl-C or SIGTERM, on an event loop of its own."""
        asyncio.run(self.worker(queues, **options).run())

    def close(self) -> None:
        """Closes the connections to the store."""
        self.connection.close()

    def _add(
        self,
        function: Callable[..., Any],
        kind: str | None,
        model: type | None,
        options: dict[str, Any],
        max_size: int | None = None,
        process: bool = False,
    ) -> Job[Any]:
        kind = kind or _kind_of(function)
        known = self.jobs.get(kind)
        names = [f"{one.__module__}.{one.__qualname__}" for one in ([known.handler.function] if known else []) + [function]]
        if len(set(names)) > 1:
            raise InvalidName(f"two functions have the kind {kind!r}: {' and '.join(names)}; name one with @app.job('another.kind')")
        handler = Handler(function, model, max_size is not None)
        job: Job[Any] = Job(kind, handler, Options()._with(options), self.connection, max_size, process, self.traces)
        if process:
            place_of(job)
        self.jobs[kind] = job
        return job

    def __repr__(self) -> str:
        return f"<App {self.name!r} with {len(self.jobs)} jobs>"


if TYPE_CHECKING:

    class Decorator:
        """What ``@app.job(...)`` decorates with."""

        @overload
        def __call__(self, function: Callable[Concatenate[Context, P], Awaitable[T]], /) -> Job[P]: ...
        @overload
        def __call__(self, function: Callable[Concatenate[Context, P], T], /) -> Job[P]: ...
        @overload
        def __call__(self, function: Callable[P, Any], /) -> Job[P]: ...
        def __call__(self, function: Any, /) -> Any: ...

    class BatchDecorator:
        """What ``@app.batch(...)`` decorates with."""

        @overload
        def __call__(self, function: Callable[[list[Context], list[Any]], Any], /) -> Job[Any]: ...
        @overload
        def __call__(self, function: Callable[[list[Any]], Any], /) -> Job[Any]: ...
        def __call__(self, function: Any, /) -> Any: ...


def _kind_of(function: Callable[..., Any]) -> str:
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or "<" in name:
        raise InvalidName(
            f"{name} of module {module} has no name that other processes know: name the job, as in @app.job('mail.send')"
        )
    return f"{module}.{name}"
