"""What handlers and programs do that is unusual and allowed: no other job pays for it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any

import pytest
from worked import drain, record

from windlass import App, Around, Context, Discard, Outcome, Snooze
from windlass.args import Model
from windlass.errors import InvalidArgs


def test_what_an_outcome_says_costs_no_other_job_its_end(app: App) -> None:
    """Errors that are no text, reasons of other types, outcomes that cannot be read: each ends its own job, in tasks and in threads alike."""

    class Mute(Outcome):
        pass

    def act(how: str) -> int:
        if how == "error":
            raise Discard(ValueError("an exception"))  # type: ignore[arg-type]
        if how == "surrogate":
            raise RuntimeError("bad name \udcff")
        if how == "mute":
            raise Mute
        if how == "long":
            raise Snooze(2e19)
        return 7

    @app.job("task", max_attempts=1)
    async def in_task(how: str) -> int:
        return act(how)

    @app.job("thread", max_attempts=1)
    def in_thread(how: str) -> int:
        return act(how)

    hows = ["error", "surrogate", "mute", "long", "fine"] * 3
    ids = [job.enqueue_many_sync([{"how": how} for how in hows]) for job in (in_task, in_thread)]
    asyncio.run(drain(app, threads=2))
    for of in ids:
        for how, id in zip(hows, of):
            job = record(app, id)
            if how == "fine":
                assert (job.state, job.result) == ("completed", 7)
                continue
            assert job.state == "discarded", (how, job)
            said = {"error": "an exception", "surrogate": "bad name", "mute": "Mute does not say", "long": "100 years"}[how]
            assert said in str(job.reason) + str(job.errors), (how, job)


def test_tasks_may_begin_at_once(app: App) -> None:
    """As with ``asyncio.eager_task_factory``, where a handler that waits for nothing is over before its task is known."""
    seen: list[int] = []

    @app.job("eager")
    async def eager(n: int) -> None:
        seen.append(n)

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        if coro.__qualname__ != "Worker._run":
            return asyncio.Task(coro, loop=loop, **options)
        ended = loop.create_future()
        try:
            coro.send(None)
        except StopIteration as returned:
            ended.set_result(returned.value)
        return ended

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(factory)
        await eager.enqueue_many([{"n": n} for n in range(50)])
        async with app.worker(queues={"default": 3}) as worker:
            await asyncio.wait_for(worker.until_idle(), 60)
            assert worker._tasks == {}

    asyncio.run(main())
    assert sorted(seen) == list(range(50))


def test_a_plain_batch_may_raise_anything(sqlite: App) -> None:
    """StopIteration, which no future takes, too."""

    @sqlite.batch("next", max_attempts=1)
    def take(jobs: list[Any]) -> None:
        next(iter([]))

    id = take.enqueue_sync(n=1)
    asyncio.run(asyncio.wait_for(drain(sqlite), 60))
    job = record(sqlite, id)
    assert job.state == "discarded" and "StopIteration" in job.errors[0]["error"], job


def test_models_come_back_as_they_were(sqlite: App) -> None:
    pydantic = pytest.importorskip("pydantic")
    got: list[Any] = []

    class Order(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        model_config = {"extra": "forbid"}
        order_id: int = pydantic.Field(alias="orderId")

        @pydantic.computed_field  # type: ignore[prop-decorator]
        @property
        def double(self) -> int:
            return self.order_id * 2

    @dataclass
    class Point:
        x: int
        double: int = field(init=False)

        def __post_init__(self) -> None:
            self.double = 2 * self.x

    @sqlite.job("order", args=Order)
    async def order(args: Any) -> None:
        got.append(args)

    @sqlite.job("point", args=Point)
    async def point(args: Any) -> None:
        got.append(args)

    class Odd(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        written: int = pydantic.Field(serialization_alias="W")
        read: int = pydantic.Field(validation_alias="R")

    @sqlite.job("odd", args=Odd)
    async def odd(args: Any) -> None:
        got.append(args)

    class Inner(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        written: int = pydantic.Field(serialization_alias="W")

    class Outer(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        inner: list[Inner]

    @sqlite.job("outer", args=Outer)
    async def outer(args: Any) -> None:
        got.append(args)

    sent = [Order(orderId=7), Point(4), Odd(written=1, R=2), Outer(inner=[Inner(written=1)])]
    id = order.enqueue_sync(sent[0])
    point.enqueue_sync(sent[1])
    odd.enqueue_sync(sent[2])
    outer.enqueue_sync(sent[3])
    asyncio.run(drain(sqlite, queues={"default": 1}))
    assert got == sent and record(sqlite, id).args == {"orderId": 7}

    class Photo(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        image: bytes

    photo = sqlite.job("photo", args=Photo)(point.handler.function)
    with pytest.raises(InvalidArgs, match="the Photo cannot be written as JSON: .*invalid utf-8"):
        photo.enqueue_sync(Photo(image=b"\xff"))
    with pytest.raises(InvalidArgs, match="a list with the args of each job, got Photo"):
        photo.enqueue_many_sync(Photo(image=b"a"))
    with pytest.raises(InvalidArgs, match="args='Photo' is no model"):
        sqlite.job("text", args="Photo")(point.handler.function)  # type: ignore[call-overload]

    class Login(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        password: pydantic.SecretStr

    with pytest.raises(InvalidArgs, match="Login.password is a secret"):
        sqlite.job("login", args=Login)(point.handler.function)

    class Told(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        password: Annotated[pydantic.SecretStr, pydantic.PlainSerializer(lambda secret: secret.get_secret_value())]

    told = sqlite.job("told", args=Told)(point.handler.function)
    assert record(sqlite, told.enqueue_sync(Told(password="x"))).args == {"password": "x"}


def test_models_in_models_come_back_as_they_were_or_are_refused(sqlite: App) -> None:
    pydantic = pytest.importorskip("pydantic")
    got: list[Any] = []

    class Renamed(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        retries: int = pydantic.Field(3, serialization_alias="retryCount")

    class Chosen(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        n: int = pydantic.Field(3, validation_alias=pydantic.AliasChoices("a", "b"))
        sets: set[str] = set()
        inner: Renamed | None = None

    class Required(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        n: int = pydantic.Field(serialization_alias="enn")

    class Perhaps(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        inner: Required | None = None

    sent = [
        Chosen(a=7, sets={"x", "y", "z"}), Chosen(a=7, inner=Renamed(retries=8)),
        Perhaps(), Perhaps(inner=Required(n=7)),
    ]  # fmt: skip
    for model in (Chosen, Perhaps):

        @sqlite.job(f"sent.{model.__name__}", args=model)
        async def keep(args: Any) -> None:
            got.append(args)

        for value in sent:
            if isinstance(value, model):
                keep.enqueue_sync(value)
    asyncio.run(drain(sqlite, queues={"default": 1}))
    assert got == sent

    class Read(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        v: int = pydantic.Field(0, validation_alias="inV")

    class Reads(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        inner: Read | None = None

    reads = sqlite.job("reads", args=Reads)(keep.handler.function)
    reads.enqueue_sync(Reads())
    with pytest.raises(InvalidArgs, match="a Reads does not read what it writes: Reads.inner.v comes back as another value"):
        reads.enqueue_sync(Reads(inner=Read(inV=5)))

    class Secret(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        password: pydantic.SecretStr

    class Account(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        logins: list[Secret] | None = None

    with pytest.raises(InvalidArgs, match="Secret.password is a secret"):
        sqlite.job("account", args=Account)(keep.handler.function)

    @dataclass
    class Given:
        x: int
        y: InitVar[int] = 1

    with pytest.raises(InvalidArgs, match=r"Given\(y=..\) is no field"):
        sqlite.job("given", args=Given)(keep.handler.function)


def test_a_signal_stops_all_workers_of_a_loop(sqlite: App) -> None:
    @sqlite.job("a")
    async def job() -> None: ...

    async def main() -> None:
        workers = [sqlite.worker(), sqlite.worker()]
        runs = [asyncio.create_task(worker.run()) for worker in workers]
        while not all(worker._native for worker in workers):
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(asyncio.gather(*runs), 60)

    before = signal.getsignal(signal.SIGTERM)
    asyncio.run(main())
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("early", [False, True])
def test_a_run_that_is_cancelled_stops_its_worker(sqlite: App, early: bool) -> None:
    """Also where that comes just when it has begun, and nobody has told the run yet."""

    @sqlite.job("a")
    async def job() -> None: ...

    async def main() -> None:
        worker = sqlite.worker()
        run, exchange = asyncio.create_task(worker.run()), worker._exchange

        def begun() -> None:
            exchange()
            run.cancel()

        if early:
            worker._exchange = begun
        while not worker._native:
            await asyncio.sleep(0.01)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await asyncio.wait_for(worker.wait(), 60)

    asyncio.run(main())


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class OfTheBase(BaseException):
    pass


@pytest.mark.parametrize("is_async", [True, False])
def test_of_whatever_is_raised_something_is_kept(sqlite: App, is_async: bool) -> None:
    """Of a message of any length its beginning and no more; also where there is none, and of what is no Exception."""

    def raises(how: str) -> None:
        if how == "huge":
            raise ValueError("x" * 3_000_000)
        if how == "unprintable":
            raise Unprintable
        if how == "base":
            raise OfTheBase("of the base")
        if how == "circle":
            error = ValueError("a circle")
            error.__cause__ = KeyError("b")
            error.__cause__.__context__ = error
            raise error
        if how == "behind":
            raise KeyError("what was raised") from ValueError("ä" * 3_000_000)
        if how == "deep":
            raises(how)
        raise asyncio.CancelledError("by itself")

    async def raises_async(how: str) -> None:
        raises(how)

    job = sqlite.job("raises", max_attempts=1)(raises_async if is_async else raises)
    ids = {how: job.enqueue_sync(how) for how in ("huge", "unprintable", "base", "circle", "behind", "deep", "cancelled")}
    asyncio.run(asyncio.wait_for(drain(sqlite), 60))
    kept = {how: record(sqlite, id).errors[0]["error"] for how, id in ids.items()}
    assert len(kept["huge"]) < 20_000
    says = {"huge": "raises", "unprintable": "Unprintable", "base": "OfTheBase: of the base", "circle": "a circle", "behind": "KeyError: 'what was raised'", "deep": "RecursionError", "cancelled": "ancelled"}
    assert {how: words in kept[how] for how, words in says.items()} == dict.fromkeys(says, True), kept


class Noted(Exception):
    @property
    def __notes__(self) -> list[str]:
        raise RuntimeError("no notes")


def raises_odd(how: str) -> None:
    if how == "syntax":
        raise SyntaxError("bad template", ("t.html", 1, "7", "{{ x"))  # type: ignore[arg-type]
    raise Noted


@pytest.mark.parametrize("how", ["task", "thread", "batch"])
def test_what_traceback_cannot_format_fails_its_attempt(sqlite: App, caplog: pytest.LogCaptureFixture, how: str) -> None:
    """It raises of its own then, where nothing else would say what became of the job."""

    async def raises_async(how: str) -> None:
        raises_odd(how)

    async def raises_together(jobs: list[Any]) -> None:
        raises_odd(jobs[0]["how"])

    decorate = sqlite.batch if how == "batch" else sqlite.job
    job: Any = decorate("raises", max_attempts=1)({"task": raises_async, "thread": raises_odd, "batch": raises_together}[how])
    ids = [job.enqueue_sync(how=odd) for odd in (("syntax",) if how == "batch" else ("syntax", "notes"))]
    asyncio.run(asyncio.wait_for(drain(sqlite, queues={"default": 1}, grace_period=0.1), 20))
    says = [f"{name}, which cannot be shown" for name in ("SyntaxError", "Noted")][: len(ids)]
    assert [record(sqlite, id).errors[0]["error"] for id in ids] == says
    assert [len([said for said in caplog.messages if words in said]) for words in says] == [1] * len(ids)


@dataclass
class Picky:
    n: int

    def __post_init__(self) -> None:
        if self.n > 0:
            raise Unprintable if self.n == 1 else OfTheBase


@pytest.mark.parametrize("n", [1, 2])
def test_a_model_may_raise_anything(sqlite: App, n: int) -> None:
    """In a batch it costs the others no end: what is no Exception fails all of them."""

    @sqlite.batch("picky", max_attempts=1)
    async def batch(jobs: list[Picky]) -> None: ...

    ids = batch.enqueue_many_sync([{"n": 0}, {"n": n}])
    batch.handler.model = Model(Picky)  # so that it is made by the worker alone
    asyncio.run(asyncio.wait_for(drain(sqlite, grace_period=0.1), 20))
    fine, odd = (record(sqlite, id) for id in ids)
    assert odd.state == "discarded" and fine.state == ("completed" if n == 1 else "discarded")
    assert "the args do not fit: Unprintable, which cannot be shown" in str(odd.reason) if n == 1 else "OfTheBase" in str(odd.errors)


@pytest.mark.parametrize("who", ["handler", "layered", "middleware"])
@pytest.mark.parametrize("how", ["task", "batch"])
def test_a_generator_exit_of_the_programs_own_fails_its_attempt(sqlite: App, how: str, who: str) -> None:
    """Also that is raised where an event loop is closed under a job, and then nobody asks what became of it."""

    def work() -> None:
        if who != "middleware":
            raise GeneratorExit

    async def in_a_task() -> None:
        work()

    async def together(jobs: list[Any]) -> None:
        work()

    if who != "handler":

        @sqlite.middleware
        def around(ctx: Context) -> Around:
            yield
            if who == "middleware":
                raise GeneratorExit

    job: Any = sqlite.job("exits", max_attempts=1)(in_a_task) if how == "task" else sqlite.batch("exits", max_attempts=1)(together)
    ids = job.enqueue_many_sync([{}, {}])
    asyncio.run(asyncio.wait_for(drain(sqlite, grace_period=0.1), 20))
    assert [record(sqlite, id).state for id in ids] == ["discarded"] * 2
    assert "GeneratorExit" in record(sqlite, ids[0]).errors[0]["error"]


class Down(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise ConnectionError("the alert service is down")


@pytest.mark.parametrize("how", ["task", "thread", "batch"])
def test_a_log_handler_that_raises_costs_no_job_its_end(sqlite: App, capsys: pytest.CaptureFixture[str], how: str) -> None:
    """Handlers and filters of the program's ``logging`` run where it is told that a job failed."""

    def fails() -> None:
        raise ValueError("no route")

    async def fails_async() -> None:
        fails()

    async def fails_together(jobs: list[Any]) -> None:
        fails()

    decorate = sqlite.batch if how == "batch" else sqlite.job
    job: Any = decorate("fails", max_attempts=1)({"task": fails_async, "thread": fails, "batch": fails_together}[how])
    down, logger = Down(), logging.getLogger("windlass")
    logger.addHandler(down)
    try:
        ids = job.enqueue_many_sync([{}, {}, {}])
        asyncio.run(asyncio.wait_for(drain(sqlite, queues={"default": 1}), 60))
    finally:
        logger.removeHandler(down)
    assert [record(sqlite, id).state for id in ids] == ["discarded"] * 3
    assert "ConnectionError: the alert service is down" in capsys.readouterr().err
