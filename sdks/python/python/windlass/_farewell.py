"""A worker whose event loop is its own: that ends with it, whatever handlers do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from .worker import FAREWELL, Worker


def work(worker: Worker) -> None:
    """Works until a signal comes, and until what runs then has ended or was taken away."""
    asyncio.run(_work(worker))


async def _work(worker: Worker) -> None:
    await worker.run()
    if worker._going_on():
        _forget(await _cancelled(asyncio.all_tasks() - {asyncio.current_task()}))


async def _cancelled(tasks: Iterable[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Cancels tasks, also those that handlers have begun. Which of them do not end by it."""
    for task in tasks:
        task.cancel()
    _, left = await asyncio.wait(tasks, timeout=FAREWELL)
    return left


def _forget(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Has ``asyncio.run`` not wait for tasks that swallow their cancellation: it would for ever. They are left as threads are that do not return."""
    of_asyncio: Any = asyncio.tasks
    for task in tasks:
        of_asyncio._unregister_task(task)
        setattr(task, "_log_destroy_pending", False)  # which the types do not know
