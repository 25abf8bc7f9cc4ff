"""Kinds that a program only enqueues, and a handler for all that have none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from windlass import App, Context
from windlass.errors import InvalidArgs, InvalidName, InvalidOption
from worked import drain, record


@pytest.mark.parametrize("is_async", [True, False])
def test_a_handler_of_any_kind_works_what_has_none(app: App, is_async: bool) -> None:
    @app.job("known")
    def known() -> str:
        return "by its own"

    if is_async:

        @app.handle_any
        async def in_a_task(ctx: Context, args: Any) -> list[Any]:
            return [ctx.kind, args]
    else:

        @app.handle_any
        def in_a_thread(ctx: Context, args: Any) -> list[Any]:
            return [ctx.kind, args]

    sender = App(app.connection.url)

    @sender.declare("mail.send", queue="mail")
    def send_mail(to: str, template: str = "welcome") -> None:
        raise AssertionError("never called")

    assert not sender.jobs
    ids = [known.enqueue_sync(), send_mail.enqueue_sync("a@example.com"), send_mail.enqueue_sync(to="b", template="x")]
    stats = asyncio.run(drain(app, queues={"default": 2, "mail": 2}))
    assert [record(app, id).result for id in ids] == [
        "by its own", ["mail.send", {"to": "a@example.com"}], ["mail.send", {"to": "b", "template": "x"}]
    ]  # fmt: skip
    assert stats["no_handler"] == 0
    with pytest.raises(InvalidArgs, match="send_mail takes"):
        send_mail.enqueue_sync(whom="a")  # type: ignore[call-arg]
    sender.close()


def test_a_worker_takes_no_jobs_of_kinds_that_are_only_declared(sqlite: App) -> None:
    @sqlite.declare("elsewhere")
    def elsewhere() -> None: ...

    @sqlite.job("here")
    async def here() -> None: ...

    id = elsewhere.enqueue_sync()
    here.enqueue_sync()
    assert asyncio.run(drain(sqlite))["completed"] == 1
    assert record(sqlite, id).state == "available"
    with pytest.raises(InvalidName, match="two functions have the kind 'elsewhere'"):

        @sqlite.job("elsewhere")
        async def another() -> None: ...


def test_two_handlers_of_any_kind_and_such_that_take_something_else_are_refused(sqlite: App) -> None:
    with pytest.raises(InvalidOption, match="takes a Context and the args"):

        @sqlite.handle_any
        def wrong(args: Any) -> None: ...  # type: ignore[type-var]

    @sqlite.handle_any
    async def first(ctx: Context, args: Any) -> None: ...

    with pytest.raises(InvalidOption, match="two functions handle jobs of any kind: .*first and .*second"):

        @sqlite.handle_any
        async def second(ctx: Context, args: Any) -> None: ...
