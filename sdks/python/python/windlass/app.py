"""The app: a store, the jobs of a program, and its schedules."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Callable, Concatenate, ParamSpec, TypeVar, overload

from ._batching import Batching
from ._farewell import work
from .children import place_of
from .client import Client, SyncClient
from .connection import Connection
from .context import Context
from .duration import Duration
from .errors import InvalidName, InvalidOption
from .handler import AnyHandler, Handler, refuse_odd
from .job import Job
from .middleware import Around, Middleware
from .options import Options
from .schedule import Schedule
from .worker import Worker

if TYPE_CHECKING:
    from .traces import Traces

P = ParamSpec("P")
T = TypeVar("T")
AnyFunction = TypeVar("AnyFunction", bound=Callable[[Context, Any], Any])


class App:
    """The jobs of a program and the store that they are in::

        app = App("postgres://me@localhost/shop")  # or "sqlite:jobs.db"

        @app.job(queue="mail")
        async def send_mail(to: str) -> None: ...

    Nothing connects before the first use. The environment variable ``WINDLASS_STORE`` wins over the URL, which so may be that of
    development.
    """

    def __init__(self, store: str | Connection | None = None, *, name: str = "", keys: str | None = None, traces: Traces | None = None) -> None:
        """
        :param store: Its URL, or what :func:`windlass.django.app_of` makes of a database of Django's.
        :param name: Who declares the app's schedules: with a name, those that it no longer declares are removed.
        :param keys: Of encrypted jobs: ``ID:BASE64`` of 32 bytes each, with commas between, the current one first (it seals; all of them open).
            From where you keep passwords: ``os.environ.get("WINDLASS_KEYS")``.
        :param traces: Makes spans of its jobs: :class:`windlass.traces.Traces`.
        """
        if not isinstance(store, Connection):
            url = os.environ.get("WINDLASS_STORE") or store
            if not url:
                raise InvalidOption("name the store: App('postgres://user@host/database'), or set WINDLASS_STORE")
            store = Connection(url, keys)
        self.name = name
        """Who declares the app's schedules: with a name, those that it no longer declares are removed."""
        self.traces = traces
        """Traces of its jobs by OpenTelemetry, if it has any."""
        self.jobs: dict[str, Job[...]] = {}
        """Its jobs by their kinds."""
        self.connection: Connection = store
        self.client: Client = Client(self.connection)
        """Looks at jobs and queues and changes them."""
        self.sync: SyncClient = SyncClient(self.connection)
        """The same for code without an event loop."""
        self._schedules: list[Schedule] = []
        self._declared: dict[str, Job[...]] = {}
        self._any: AnyHandler | None = None
        self._middleware: list[Middleware] = []

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

    def batch(
        self, kind: str | None = None, /, *, max_size: int = 100, wait: Duration = 0, args: type | None = None, **options: Any
    ) -> BatchDecorator:
        """Makes a function a job that takes up to ``max_size`` jobs in one call: a list of their args, as dicts or models. A call begins when it
        is full, or when its first job has waited for ``wait``, at most 10 minutes; without that it takes what the worker has at hand. However many
        jobs it has, it takes one place of the queue. A first parameter of type ``list[Context]`` is handed in before the args: the context of each
        job, in their order.

        Return ``None`` when all are done, or a list with one outcome or result (or ``None``) for each; raise, and all are tried again.
        """
        batching = Batching.checked(max_size, wait)
        decorator: Any = lambda function: self._add(function, kind, args, options, batching)
        return decorator  # type: ignore[no-any-return]

    def declare(self, kind: str, /, *, args: type | None = None, **options: Any) -> Decorator:
        """Makes a job that this program only enqueues, since another one works it. The function says which args it has, and is never called::

            @app.declare("mail.send", queue="mail")
            def send_mail(to: str, template: str = "welcome") -> None: ...
        """
        decorator: Any = lambda function: self._add(function, kind, args, options, is_declared=True)
        return decorator  # type: ignore[no-any-return]

    def handle_any(self, function: AnyFunction, /) -> AnyFunction:
        """Has a function work the jobs of all kinds that have none: it takes a :class:`Context` and the args, whatever these are. An async one runs
        as a task, a plain one in a thread. Name the queues of the worker: it knows of none by these jobs."""
        if self._any is not None:
            names = f"{self._any.function.__qualname__} and {function.__qualname__}"
            raise InvalidOption(f"two functions handle jobs of any kind: {names}; keep one")
        self._any = AnyHandler(function)
        return function

    def middleware(self, function: Callable[[Context], Around], /) -> Callable[[Context], Around]:
        """Has a generator function run around every handler of the workers that are made from now on. It yields once, where the handler runs, and is
        given its outcome: ``Complete``, ``Retry`` (with what was raised as ``__cause__``), ``Snooze``, ``Cancel`` or ``Discard``::

            @app.middleware
            def timed(ctx: Context) -> Around:
                began = time.monotonic()
                outcome = yield
                print(ctx.kind, time.monotonic() - began, outcome)

        The first one is the outermost. What it returns takes the outcome's place; one that returns before it yields leaves the handler out. It runs where
        its handler does, in the event loop or a thread; for child processes in a thread of the worker.
        """
        if not inspect.isgeneratorfunction(function) and not inspect.isgeneratorfunction(getattr(function, "__call__", None)):
            name = getattr(function, "__qualname__", repr(function))
            raise InvalidOption(f"the middleware {name} must be a generator function, which yields where the handler runs: `outcome = yield`")
        self._middleware.append(function)
        return function

    def schedule(self, name: str, cron: str, job: Job[...], args: Any = None, **options: Any) -> Schedule:
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
        there are processes where all jobs have ``process=True``."""
        return Worker(self, queues, **options)

    def run_worker(self, queues: Mapping[str, int] | None = None, **options: Any) -> None:
        """Works until Ctrl-C or SIGTERM, on an event loop of its own."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # there is none, as it should be
            work(self.worker(queues, **options))
        else:
            raise InvalidOption("run_worker() has an event loop of its own, and here one runs already: await app.worker().run()")

    def close(self) -> None:
        """Closes the connections to the store: those of workers when these have ended. Calls of other threads that are under way may fail."""
        self.connection.close()

    def _add(
        self,
        function: Callable[..., Any],
        kind: str | None,
        model: type | None,
        options: dict[str, Any],
        batching: Batching | None = None,
        process: bool = False,
        is_declared: bool = False,
    ) -> Job[...]:
        refuse_odd(function, "@app.batch" if batching else "@app.declare" if is_declared else "@app.job")
        if kind is not None and not isinstance(kind, str):
            raise InvalidName(f"the kind of {function.__qualname__} must be a text such as 'mail.send', got {kind!r}")
        kind = kind or _kind_of(function)
        known = self.jobs.get(kind) or self._declared.get(kind)
        names = [f"{one.__module__}.{one.__qualname__}" for one in ([known.handler.function] if known else []) + [function]]
        if len(set(names)) > 1:
            raise InvalidName(f"two functions have the kind {kind!r}: {' and '.join(names)}; name one with @app.job('another.kind')")
        handler = Handler(function, model, batching is not None)
        job: Job[...] = Job(kind, handler, Options()._with(options), self.connection, batching, process, self.traces)
        if process:
            place_of(job)
        (self._declared if is_declared else self.jobs)[kind] = job
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
        def __call__(self, function: Callable[[list[Context], list[Any]], Any], /) -> Job[...]: ...
        @overload
        def __call__(self, function: Callable[[list[Any]], Any], /) -> Job[...]: ...
        def __call__(self, function: Any, /) -> Any: ...


def _kind_of(function: Callable[..., Any]) -> str:
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or "<" in name:
        raise InvalidName(
            f"{name} of module {module} has no name that other processes know: name the job, as in @app.job('mail.send')"
        )
    return f"{module}.{name}"
