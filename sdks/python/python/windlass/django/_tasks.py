"""Django's Tasks, wherever they are: its own from version 6 on, before that those of the package django-tasks.

Neither has types of its own that could be relied on, so what is used of them is said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class BaseTaskBackend:
        alias: str
        queues: set[str]
        options: dict[str, Any]

        def __init__(self, alias: str, params: Mapping[str, Any]) -> None: ...
        def validate_task(self, task: Any) -> None: ...

    TaskContext: Any
    TaskError: Any
    TaskResult: Any
    TaskResultStatus: Any
    task_backends: Any
    task_enqueued: Any
    task_finished: Any
    task_started: Any

    class TaskResultDoesNotExist(Exception): ...

else:
    try:
        from django.tasks import task_backends
        from django.tasks.backends.base import BaseTaskBackend
        from django.tasks.base import TaskContext, TaskError, TaskResult, TaskResultStatus
        from django.tasks.exceptions import TaskResultDoesNotExist
        from django.tasks.signals import task_enqueued, task_finished, task_started
    except ImportError:
        from django_tasks import task_backends
        from django_tasks.backends.base import BaseTaskBackend
        from django_tasks.base import TaskContext, TaskError, TaskResult, TaskResultStatus
        from django_tasks.exceptions import TaskResultDoesNotExist
        from django_tasks.signals import task_enqueued, task_finished, task_started

__all__ = [
    "BaseTaskBackend",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
