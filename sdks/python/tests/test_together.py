"""Enqueues of one job each that are under way at once go together, and each keeps an answer, an error and an end of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from windlass import App, Job
from windlass.errors import InvalidArgs, InvalidName, Unavailable

TASKS = 10
ROUNDS = 20


class Crossings:
    """The native client, and how many enqueues went with each call of it."""

    def __init__(self, app: App) -> None:
        self._native = app.connection.native()
        app.connection._opened = self  # type: ignore[assignment]
        self.sizes: list[int] = []

    def start_all(self, port: Any, op: str, calls: list[Any]) -> Any:
        self.sizes.append(len(calls))
        return self._native.start_all(port, op, calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)


def declared(app: App) -> Job[[int]]:
    @app.job("a")
    async def a(n: int) -> None: ...

    return a


def test_tasks_that_enqueue_in_turns_go_together(app: App) -> None:
    a = declared(app)
    crossings = Crossings(app)

    async def main() -> list[int]:
        async def task() -> list[int]:
            return [await a.enqueue(n=n) for n in range(ROUNDS)]

        return sum(await asyncio.gather(*(task() for _ in range(TASKS))), [])

    assert len(set(asyncio.run(main()))) == TASKS * ROUNDS
    assert sum(crossings.sizes) == TASKS * ROUNDS and len(crossings.sizes) < 3 * ROUNDS
    # The first goes at once; the others wait for it, and go with the next one of its task.
    assert crossings.sizes[:2] == [1, TASKS]


def test_each_has_its_own_error(app: App) -> None:
    a = declared(app)
    async def main() -> list[Any]:
        await a.enqueue(n=0)
        return await asyncio.gather(
            a.enqueue(n=1),
            a.enqueue(n=2),
            a.with_options(queue="").enqueue(n=3),
            a.enqueue(n=float("nan")),  # type: ignore[arg-type]
            a.enqueue(n=5),
            return_exceptions=True,
        )

    first, second, no_queue, no_json, last = asyncio.run(main())
    assert isinstance(no_queue, InvalidName) and isinstance(no_json, InvalidArgs)
    assert [job.args for job in sorted(app.sync.jobs(kind="a").jobs, key=lambda job: job.id)] == [{"n": n} for n in (0, 1, 2, 5)]
    assert len({first, second, last}) == 3


def test_who_is_cancelled_before_his_turn_enqueues_nothing(app: App) -> None:
    a = declared(app)
    crossings = Crossings(app)

    async def main() -> None:
        first, *others = [asyncio.create_task(a.enqueue(n=n)) for n in range(4)]
        while not crossings.sizes:
            await asyncio.sleep(0)
        others[1].cancel()
        ended = await asyncio.gather(first, *others, return_exceptions=True)
        assert isinstance(ended[2], asyncio.CancelledError)
        await a.enqueue(n=4)  # nothing is left over

    asyncio.run(main())
    assert sorted(job.args["n"] for job in app.sync.jobs(kind="a").jobs) == [0, 1, 3, 4]
    assert crossings.sizes == [1, 2, 1]


def test_one_that_hangs_holds_up_nobody_for_long(app: App) -> None:
    """As where a connection is dead: what is enqueued besides goes without it after a moment, and then no more waits for it."""
    a = declared(app)
    crossings = Crossings(app)
    async def main() -> None:
        start_all = crossings.start_all
        id = await a.enqueue(n=0)
        crossings.start_all = lambda port, op, calls: crossings._native.start_all(  # type: ignore[method-assign]
            port, "wait", [(number, f'{{"id":{id},"timeout_ms":3600000}}') for number, _ in calls]
        )
        hangs = asyncio.create_task(a.enqueue(n=1))
        await asyncio.sleep(0)
        crossings.start_all = start_all  # type: ignore[method-assign]
        await asyncio.gather(a.enqueue(n=2), a.enqueue(n=3))
        await a.enqueue(n=4)
        assert not hangs.done() and crossings.sizes == [1, 2, 1]
        hangs.cancel()
        await asyncio.gather(hangs, return_exceptions=True)

    asyncio.run(main())
    assert sorted(job.args["n"] for job in app.sync.jobs(kind="a").jobs) == [0, 2, 3, 4]


def test_what_cannot_begin_is_refused_to_all(app: App) -> None:
    a = declared(app)
    crossings = Crossings(app)

    def refuse(port: Any, op: str, calls: list[Any]) -> Any:
        crossings.sizes.append(len(calls))
        raise Unavailable("no threads")

    async def main() -> None:
        crossings.start_all = refuse  # type: ignore[method-assign]
        with pytest.raises(Unavailable, match="no threads"):
            await a.enqueue(n=0)
        del crossings.start_all
        await a.enqueue(n=1)

    asyncio.run(main())
    assert crossings.sizes == [1, 1]
