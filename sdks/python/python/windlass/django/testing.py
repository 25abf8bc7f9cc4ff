"""For tests of Django's tasks on PostgreSQL.

In a ``TestCase`` what is enqueued is rolled back with the test, and no worker sees it: :func:`enqueued_tasks` tells what was. A ``TransactionTestCase`` commits:
:func:`drain_tasks` works its tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from ..errors import InvalidOption
from ..testing import TestJobs
from ._tasks import task_backends, task_enqueued
from .backend import Backend

__all__ = ["clear_tasks", "drain_tasks", "enqueued_tasks"]


@contextmanager
def enqueued_tasks() -> Iterator[list[Any]]:
    """The results of the tasks that are enqueued meanwhile, each with its ``task``, ``args`` and ``kwargs``::

        with enqueued_tasks() as tasks:
            self.client.post("/sign-up", {"email": "a@example.com"})
        assert [(one.task, one.args) for one in tasks] == [(welcome, ["a@example.com"])]
    """
    tasks: list[Any] = []

    def note(task_result: Any, **_: Any) -> None:
        tasks.append(task_result)

    task_enqueued.connect(note)
    try:
        yield tasks
    finally:
        task_enqueued.disconnect(note)


def drain_tasks(backend: str = "default", *, raises: bool = True) -> dict[str, int]:
    """Works all tasks that are due, and those that they enqueue, with the real engine. How many completed, were retried and so on.

    Raises :class:`windlass.testing.HandlerFailed` for what a task raised, unless ``raises=False``, and :class:`windlass.errors.InvalidOption` inside a
    transaction, whose tasks no worker sees.
    """
    on = _backend(backend)
    if on.using is not None and connections[on.using].in_atomic_block:
        raise InvalidOption("a transaction is open, as in a TestCase, and no worker sees what is enqueued there: use a TransactionTestCase, or enqueued_tasks()")
    on.know_all()
    with on._store() as app:
        return TestJobs(app).drain(raises=raises)


def clear_tasks(backend: str = "default") -> int:
    """Removes all tasks that wait: those of tests before. How many there were."""
    with _backend(backend)._store() as app:
        return app.sync.delete_where(everything=True).done


def _backend(alias: str) -> Backend:
    on = task_backends[alias]
    if not isinstance(on, Backend):
        raise InvalidOption(f"the task backend {alias!r} is a {type(on).__qualname__}, not windlass.django.backend.Backend")
    return on
