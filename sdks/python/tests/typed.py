"""What a type checker says of programs that use the package: each wrong line is marked, and a mark that is not needed is an error."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from windlass import App, Around, Cancel, Context, Discard, EnqueuedUnique, Job, JobRecord, Retry, Schedule
from windlass.testing import Perform, TestJobs

app = App("sqlite:jobs.db")


@app.job("mail.send", queue="mail", timeout=timedelta(minutes=1))
async def send_mail(to: str, template: str = "welcome") -> None: ...


@app.job
def thumb(ctx: Context, image: int) -> Cancel | None:
    return Cancel("gone") if ctx.attempt > 3 else None


@dataclass
class Order:
    id: int


@app.job("ship", args=Order)
async def ship(order: Order) -> int:
    return order.id


@app.batch("index", max_size=500)
async def index(jobs: list[dict[str, int]]) -> None: ...


@app.batch("bulk")
def bulk(contexts: list[Context], jobs: list[dict[str, int]]) -> list[int]:
    return [ctx.attempt for ctx in contexts]


@app.declare("invoice.print", queue="printing")
def print_invoice(invoice: int, copies: int = 1) -> None: ...


@app.handle_any
async def anything(ctx: Context, args: object) -> str:
    return ctx.kind


@app.middleware
def around(ctx: Context) -> Around:
    outcome = yield
    return Discard(str(outcome)) if isinstance(outcome, Retry) else None


async def right() -> None:
    printed: int = await print_invoice.enqueue(7)
    any: bool = await app.client.any_available(["mail"], kinds=["mail.send"])
    print(printed, any)
    id: int = await send_mail.enqueue(to="a")
    await send_mail.enqueue("a", template="b")
    thumb.enqueue_sync(image=7)
    await thumb.with_options(delay="5m").enqueue(7)
    await ship.enqueue(Order(7))
    many: list[int] = await ship.enqueue_many([Order(7)])
    job: JobRecord | None = await app.client.job(id)
    waiting: JobRecord | None = app.sync.wait(many[0], timeout=timedelta(seconds=5))
    print(job, waiting)
    stored: EnqueuedUnique = await send_mail.enqueue_unique("a")
    thumb.enqueue_unique_sync(image=stored.id)
    app.sync.edit_where({"priority": 1, "delay": "5m"}, queue="mail", per_second=10)
    async for event in app.client.follow_events():
        print(event.cursor)
    counted: int = (await app.client.history("1h")).counts[0].count
    ran: float | None = (await app.client.timings("1h", step="1h"))[0].run.p95_ms
    why: str = app.sync.failures("1h", queue="q")[0].sample
    print(counted)
    await bulk.enqueue_many([{"n": 1}])
    text, params = await send_mail.enqueue_sql("a")
    numbered: str = thumb.enqueue_sql_sync(image=7).numbered()[0]
    print(text.upper(), len(params), numbered)
    put: list[str] = (await app.client.put_schedules([Schedule("a", "@daily", send_mail, {"to": "a"})], source="x", prune=True)).removed
    app.sync.put_schedules(schedule for schedule in [Schedule("b", "@daily", ship, Order(7))])
    print(put, ran, why)


def right_in_tests(jobs: TestJobs) -> None:
    app.schedule("c", "@daily", send_mail, {"to": "a"}, zone="Europe/Berlin")
    found: JobRecord = jobs.assert_enqueued(send_mail, to="a")
    jobs.perform(thumb, image=found.id)
    Perform(send_mail, attempt=2).run(to="a")
    jobs.perform_batch(index, [{"n": 1}])


async def wrong() -> None:
    await print_invoice.enqueue("7")  # type: ignore[arg-type]
    app.handle_any(takes_nothing)  # type: ignore[type-var]
    app.middleware(takes_nothing)  # type: ignore[arg-type]
    await send_mail.enqueue()  # type: ignore[call-arg]
    await send_mail.enqueue(to=7)  # type: ignore[arg-type]
    await send_mail.enqueue(to="a", colour="red")  # type: ignore[call-arg]
    thumb.enqueue_sync()  # type: ignore[call-arg]
    thumb.enqueue_sync(image="x")  # type: ignore[arg-type]
    await ship.enqueue(7)  # type: ignore[arg-type]
    await app.client.jobs(state="lost")  # type: ignore[arg-type]
    await app.client.cancel("7")  # type: ignore[arg-type]
    await send_mail.enqueue_unique(to=7)  # type: ignore[arg-type]
    send_mail.enqueue_sql_sync(to=7)  # type: ignore[arg-type]
    app.sync.edit_where({"priority": "high"}, queue="mail")  # type: ignore[typeddict-item]
    app.job(7)  # type: ignore[call-overload]
    app.batch("none")(takes_nothing)  # type: ignore[arg-type]
    app.sync.put_schedules([send_mail])  # type: ignore[list-item]


def takes_nothing() -> None: ...


def takes_a_job(job: Job[[str]]) -> None: ...
