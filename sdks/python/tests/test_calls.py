"""Calls of the client: who is cancelled ends his, and a defect is an error like others, never a wait for ever."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest
from windlass import App
from windlass.connection import Connection, mailbox
from windlass.errors import WindlassError
from worked import drain, record

LONG = 60.0


class Started:
    """The calls that were started, each with whether it was ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.aborted: list[bool] = []
        seen = self

        class Call:
            def __init__(self, native: Any) -> None:
                self._native, self._number = native, len(seen.aborted)
                seen.aborted.append(False)

            def abort(self) -> None:
                seen.aborted[self._number] = True
                self._native.abort()

        box = mailbox()
        begin = box.start

        def start() -> None:
            known = set(box._calls)
            begin()
            for number in box._calls.keys() - known:
                box._calls[number] = cast(Any, Call(box._calls[number]))

        monkeypatch.setattr(box, "start", start)


@pytest.mark.skipif(not hasattr(asyncio, "timeout"), reason="asyncio.timeout() is there from Python 3.11 on")
def test_who_is_cancelled_ends_the_call(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.job("a")
    async def a() -> None: ...

    async def main() -> None:
        id = await a.enqueue()
        calls = Started(monkeypatch)
        waits = asyncio.create_task(app.client.wait(id, timeout="1h"))
        while not calls.aborted:
            await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert calls.aborted == [True]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await app.client.wait(id, timeout="1h")
        assert calls.aborted == [True, True]
        assert await app.client.cancel(id) == ["cancelled"]  # the connection is well
        assert calls.aborted == [True, True, False] and not mailbox()._waiting

    asyncio.run(main())


def test_enqueues_that_are_cancelled_leave_a_whole_store(app: App) -> None:
    """Each of them happened or did not, and what is enqueued besides is all there."""

    @app.job("a")
    async def a(n: int) -> None: ...

    async def main() -> int:
        await a.enqueue(n=0)
        for n in range(100):
            task = asyncio.create_task(a.enqueue(n=n))
            for _ in range(n % 7):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return len(await a.enqueue_many([{"n": n} for n in range(10)]))

    assert asyncio.run(main()) == 10
    # What was on its way to the server when its task was cancelled may come there yet.
    done = asyncio.run(drain(app))["completed"]
    assert 11 <= done <= 111
    assert [job.state for job in app.sync.jobs(limit=1000).jobs].count("completed") >= done


def test_a_panic_in_a_call_is_an_error_and_the_process_goes_on(sqlite: App) -> None:
    @sqlite.job("a")
    async def a() -> None: ...

    async def main() -> None:
        await a.enqueue()
        with pytest.raises(WindlassError, match="a defect in Windlass, please report it: the call panicked: asked to panic") as raised:
            await asyncio.wait_for(sqlite.connection.call("panic_for_test", "{}"), LONG)
        assert (raised.value.code, raised.value.ambiguous) == ("internal", True)
        await a.enqueue()

    asyncio.run(main())
    ended: list[BaseException] = []

    def waits() -> None:
        try:
            sqlite.connection.call_sync("panic_for_test", "{}")
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=waits, daemon=True)
    thread.start()
    thread.join(LONG)
    [error] = ended
    assert isinstance(error, WindlassError) and error.code == "internal"
    assert record(sqlite, a.enqueue_sync()).state == "available"


def test_who_acts_for_somebody_calls_as_the_connection_does(sqlite: App) -> None:
    """That of a database of Django's closes what it opened for a call in a test: else the test database cannot be removed."""
    called: list[str] = []

    class OwnWay(Connection):
        def call_sync(self, op: str, payload: str) -> Any:
            called.append(op)
            return super().call_sync(op, payload)

        async def call(self, op: str, payload: str) -> Any:
            called.append(op)
            return await super().call(op, payload)

    app = App(OwnWay(sqlite.connection.url))
    app.sync.acting_as("billing").limit("q", concurrency=1)
    asyncio.run(app.client.acting_as("billing").limit("q", concurrency=2))
    assert called == ["acting_as", "acting_as"]
    assert [entry.action for entry in app.sync.audit()[0]] == ["queues.limit"] * 2
    app.close()


def test_calls_of_one_turn_of_the_loop_are_stored_together(postgres: str) -> None:
    import psycopg

    app = App(postgres)

    @app.job("a")
    async def a() -> None: ...

    async def main() -> None:
        await a.enqueue()  # makes the queue
        for _ in range(10):
            ids = await asyncio.gather(*(a.with_options(tags=["t"] if n % 2 else []).enqueue() for n in range(50)))
            assert len(set(ids)) == 50

    asyncio.run(main())
    with psycopg.connect(postgres) as connection:
        answer = connection.execute("SELECT count(*), count(DISTINCT xid) FROM windlass.job").fetchone()
    # The first of a turn may go by itself; what a busy machine divides is not counted on.
    assert answer is not None and answer[0] == 501 and answer[1] < 100, answer
    app.close()


def test_of_many_calls_of_a_turn_half_go_ahead_where_none_is_under_way(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.job("a")
    async def a() -> None: ...

    async def main() -> None:
        await a.enqueue()
        box, started = mailbox(), list[int]()
        begin = box.start

        def start() -> None:
            if box._begun:
                started.append(sum(map(len, box._begun.values())))
            begin()

        monkeypatch.setattr(box, "start", start)
        await asyncio.gather(*(a.enqueue() for _ in range(60)))
        assert started == [24, 36]
        await asyncio.gather(*(a.enqueue() for _ in range(20)))
        assert started == [24, 36, 20]
        assert not box._calls and not box._waiting

    asyncio.run(main())


def test_what_was_asked_for_is_on_its_way_before_the_store_is_closed(app: App) -> None:
    """It was begun on the closed store, which opened it again."""

    @app.job("a")
    async def a() -> None: ...

    async def main() -> None:
        await a.enqueue()
        call = asyncio.create_task(a.enqueue())
        await asyncio.sleep(0)
        assert mailbox()._begun
        app.close()
        assert not mailbox()._begun
        [told] = await asyncio.gather(call, return_exceptions=True)
        assert isinstance(told, (int, WindlassError))

    asyncio.run(main())


def test_who_is_cancelled_before_the_call_began_is_told_so_and_the_others_go_on(app: App) -> None:
    @app.job("a")
    async def a() -> None: ...

    async def main() -> None:
        await a.enqueue()
        calls = [asyncio.ensure_future(a.enqueue()) for _ in range(3)]
        await asyncio.sleep(0)
        calls[1].cancel()
        first, cancelled, third = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(cancelled, asyncio.CancelledError)
        assert isinstance(first, int) and isinstance(third, int) and first != third

    asyncio.run(main())
