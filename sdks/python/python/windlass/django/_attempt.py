"""One attempt of a task: Django is told when it begins, and when the task has finished by it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from typing import Any, Callable

from .._shown import traced
from ..args import encode
from ..context import Context
from ..errors import InvalidArgs
from ..handler import awaited
from ..outcome import Cancel, Complete, Discard, Outcome, Retry, Snooze
from ..worker import is_cancelled
from ._tasks import TaskContext, TaskError, TaskResultStatus, task_finished, task_started


class Attempt:
    """Entered while the task's function runs."""

    def __init__(self, backend: type, takes_context: bool, ctx: Context, result: Callable[..., Any]) -> None:
        self._backend, self._takes_context, self._ctx = backend, takes_context, ctx
        self._result = result
        """Makes the task's result of its status and what else is known."""

    def __enter__(self) -> list[Any]:
        """What the function is given before its args."""
        result = self._result(TaskResultStatus.RUNNING)
        task_started.send(self._backend, task_result=result)
        return [TaskContext(task_result=result)] if self._takes_context else []

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            self._ended(error)

    def returned(self, value: Any) -> Any:
        """What becomes of what it returned, when that is told."""
        said = self._storable(value)
        self._ended(said)
        return said

    def _storable(self, value: Any) -> Any:
        """The same value, or why it is none that the job could have as its result."""
        kind = self._ctx.kind
        said = awaited(value, kind)
        if isinstance(said, Outcome) and not isinstance(said, Complete):
            return said
        try:
            encode(said.result if isinstance(said, Complete) else said)
            return said
        except InvalidArgs as error:
            return Discard(f"what {kind} returned cannot be stored: {error}")

    def _ended(self, said: Any) -> None:
        if isinstance(said, Complete) or not isinstance(said, BaseException):
            result = self._result(TaskResultStatus.SUCCESSFUL, finished_at=_now())
            object.__setattr__(result, "_return_value", said.result if isinstance(said, Complete) else said)
            task_finished.send(self._backend, task_result=result)
        elif self._is_the_end(said):
            error = TaskError(exception_class_path=f"{type(said).__module__}.{type(said).__qualname__}", traceback=traced(said))
            # What a receiver raises does not take the place of what the task said.
            task_finished.send_robust(self._backend, task_result=self._result(TaskResultStatus.FAILED, finished_at=_now(), errors=[error]))

    def _is_the_end(self, said: BaseException) -> bool:
        """Whether the task is not tried again, here or elsewhere."""
        if isinstance(said, (Cancel, Discard)):
            return True
        reason = self._ctx.cancelled
        if reason == "lost" or (reason is None and _is_ended_with_its_loop(said)):
            return False
        if reason == "shutdown" and not (isinstance(said, Retry) and said.after is not None):
            return False  # it goes back; one that says when it is to be tried again has failed
        return reason == "cancelled" or (self._ctx.is_last_attempt and not isinstance(said, Snooze))


def _is_ended_with_its_loop(said: BaseException) -> bool:
    """Whether the event loop ends, which is no failure of the task. What it raises by itself is one."""
    runs = asyncio._get_running_loop() is not None
    if isinstance(said, GeneratorExit):
        return not runs
    return isinstance(said, asyncio.CancelledError) and runs and is_cancelled(asyncio.current_task())


def _now() -> datetime:
    return datetime.now(timezone.utc)
