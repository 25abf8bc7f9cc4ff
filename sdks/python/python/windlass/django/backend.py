"""Django's Tasks on Windlass."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from inspect import iscoroutinefunction
from typing import Any

from asgiref.sync import AsyncToSync, ThreadSensitiveContext, sync_to_async
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, connections
from django.utils.module_loading import import_string

from ..app import App
from ..context import Context
from ..job import Job
from ..records import JobRecord
from ..worker import Worker
from ._attempt import Attempt
from ._tasks import (
    BaseTaskBackend,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from .store import app_of

_OF_JOBS = ("max_attempts", "backoff", "timeout", "encrypted")
_OPTIONS = ("using", "store", "migrate", "keys", "traces", *_OF_JOBS)
_apps: dict[tuple[str, str, str], App] = {}
_ID = re.compile("[0-9]{1,18}")
_FRAME = "Traceback (most recent call last):"


class Backend(BaseTaskBackend):
    """Runs tasks as jobs. Its ``OPTIONS``:

    * ``using``: the PostgreSQL database whose connection enqueues, by default ``default``: a task exists if and when its transaction commits.
    * ``store``: instead, the URL of a store of its own, as ``sqlite:jobs.db``.
    * ``migrate``: whether ``manage.py migrate`` makes Windlass's tables in that database, too, and brings them up to date; by default it does.
    * ``keys``, ``traces``: as of :class:`windlass.App`.
    * ``max_attempts``, ``backoff``, ``timeout``, ``encrypted``: as of :class:`windlass.Options`, of all its tasks.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        unknown = self.options.keys() - set(_OPTIONS)
        if unknown:
            raise ImproperlyConfigured(f"unknown OPTIONS of the task backend {alias!r}: {', '.join(sorted(unknown))}; known are {', '.join(_OPTIONS)}")
        self.using: str | None = None if "store" in self.options else self.options.get("using", "default")
        self.tasks: dict[str, Any] = {}
        """Its tasks by their kinds: each is there once its module is imported."""

    @cached_property
    def app(self) -> App:
        """The app whose jobs the tasks are."""
        # Django makes a backend for each thread that asks. They share an app: each has connections of its own.
        alike = (self.alias, self.options["store"] if self.using is None else self.using, repr(self.options))
        app = _apps.get(alike)
        return app or _apps.setdefault(alike, self._made())

    def _made(self) -> App:
        keys, traces = self.options.get("keys"), self.options.get("traces")
        if self.using is None:
            return App(self.options["store"], keys=keys, traces=traces)
        return app_of(self.using, keys=keys, traces=traces)

    @contextmanager
    def _store(self) -> Iterator[App]:
        """The app, for one call. In tests none of its connections stays: with one the test database could not be removed."""
        try:
            yield self.app
        finally:
            if self.using is not None and hasattr(mail, "outbox"):  # which is there in tests alone
                self.app.close()

    def validate_task(self, task: Any) -> None:
        """Called for each task when it is made: so a worker knows the tasks of all modules that it imports."""
        super().validate_task(task)
        self.tasks.setdefault(task.module_path, task)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Stores a job that calls the task's function."""
        self.validate_task(task)
        given = {"args": json.loads(json.dumps(args, allow_nan=False)), "kwargs": json.loads(json.dumps(kwargs, allow_nan=False))}
        job = self._job(task).with_options(queue=task.queue_name, priority=-task.priority, at=task.run_after)
        with self._store():
            id = job.enqueue_sync(**given) if self.using is None else job.enqueue_in_sync(connections[self.using], **given)
        result = self._result(task, str(id), TaskResultStatus.READY, **given)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """What became of a task, by the id of its job."""
        job = self._found(int(result_id)) if _ID.fullmatch(result_id) else None
        if job is None and self.using is not None and connections[self.using].in_atomic_block:
            raise TaskResultDoesNotExist(f"{result_id}; one that was enqueued in a transaction, as that of a TestCase, is seen when it has committed")
        if job is None or not isinstance(job.args, dict) or job.args.keys() != {"args", "kwargs"}:
            raise TaskResultDoesNotExist(result_id)
        task = self.tasks.get(job.kind) or import_string(job.kind)
        return self._of_record(task, job)

    def _found(self, id: int) -> JobRecord | None:
        """A job, opened where there are keys."""
        with self._store() as app:
            job = app.sync.job(id)
            if job is None or "keys" not in self.options:
                return job
            return replace(job, args=app.sync.args(id), result=app.sync.result(id))

    def worker(self, queues: Mapping[str, int] | None = None, **options: Any) -> Worker:
        """A worker for the tasks that are known by now; options are those of :meth:`windlass.App.worker`."""
        self.know_all()
        if queues is None:
            queues = {queue: 10 for queue in self.queues or {task.queue_name for task in self.tasks.values()} or {"default"}}
        return self.app.worker(queues, **options)

    def know_all(self) -> None:
        """Has the app know a job for each task that is known by now."""
        for task in self.tasks.values():
            self._job(task)

    def _job(self, task: Any) -> Job[...]:
        kind: str = task.module_path
        if kind not in self.app.jobs:
            options = {name: self.options[name] for name in _OF_JOBS if name in self.options}
            self.app.job(kind, **options)(self._handler(self.tasks.setdefault(kind, task)))
        return self.app.jobs[kind]

    def _handler(self, task: Any) -> Callable[..., Any]:
        """What the job of a task calls."""

        def run(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:
            with (attempt := self._attempt(task, ctx, args, kwargs)) as first:
                value = task.func(*first, *args, **kwargs)
            return attempt.returned(value)

        async def run_async(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:
            # The asynchronous calls of the ORM have a thread, and with it a connection, of this job alone: one that is shared stays broken for all.
            async with ThreadSensitiveContext() as own:
                # Not where the caller has entered one, or runs its event loop in a thread's: they see to their connections.
                is_own = getattr(own, "token", None) is not None and getattr(AsyncToSync.executors, "current", None) is None
                try:
                    with (attempt := self._attempt(task, ctx, args, kwargs)) as first:
                        value = await task.func(*first, *args, **kwargs)
                    return attempt.returned(value)
                finally:
                    if not isinstance(sys.exc_info()[1], GeneratorExit):  # of an event loop that is gone
                        await sync_to_async(connections.close_all if is_own else close_old_connections)()

        return run_async if iscoroutinefunction(task.func) else run

    def _attempt(self, task: Any, ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Attempt:
        def result(status: Any, **facts: Any) -> Any:
            return self._result(task, str(ctx.id), status, args, kwargs, enqueued_at=ctx.enqueued_at, attempt=ctx.attempt, **facts)

        return Attempt(type(self), task.takes_context, ctx, result)

    def _result(self, task: Any, id: str, status: Any, args: Any, kwargs: Any, *, attempt: int = 0, **facts: Any) -> Any:
        known: dict[str, Any] = {"enqueued_at": None, "started_at": None, "last_attempted_at": None, "finished_at": None, "errors": []}
        workers = ["windlass"] * attempt  # Django counts attempts by them
        return TaskResult(task=task, id=id, status=status, args=args, kwargs=kwargs, backend=self.alias, worker_ids=workers, **(known | facts))

    def _of_record(self, task: Any, job: JobRecord) -> Any:
        is_over = {"completed": TaskResultStatus.SUCCESSFUL, "cancelled": TaskResultStatus.FAILED, "discarded": TaskResultStatus.FAILED}
        status = TaskResultStatus.RUNNING if job.state == "running" else is_over.get(job.state, TaskResultStatus.READY)
        result = self._result(
            task, str(job.id), status, job.args["args"], job.args["kwargs"], attempt=job.attempt, enqueued_at=job.enqueued_at,
            started_at=job.claimed_at, last_attempted_at=job.claimed_at, finished_at=job.finished_at, errors=[_error(error) for error in job.errors],
        )  # fmt: skip
        if job.state == "completed":
            object.__setattr__(result, "_return_value", job.result)
        return result


def _error(error: dict[str, Any]) -> Any:
    """A failed attempt as Django has it. Of what no handler raised (a timeout, a process that died) there is a text and no class."""
    text: str = error["error"]
    name = text.rstrip().rsplit("\n", 1)[-1].split(":", 1)[0].strip() if _FRAME in text else "Exception"
    return TaskError(exception_class_path=name if "." in name else f"builtins.{name}", traceback=text)

