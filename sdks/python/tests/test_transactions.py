"""Jobs are enqueued and completed inside the user's own transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from worked import drain, record

from windlass import App, Context, Job, Unique, errors
from windlass.drivers import run_sync
from windlass.errors import InvalidArgs, InvalidOption, LeaseLost, UniqueConflict, Unsupported


@pytest.fixture
def shop(postgres: str) -> Iterator[App]:
    app = App(postgres)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE payment (job bigint)")
    yield app
    app.close()


@pytest.fixture
def pay(shop: App) -> Job[Any]:
    @shop.job("pay", queue="money")
    async def pay(**args: Any) -> None: ...

    return pay


ARGS = {"who": "50 % of $1: ä'\"", "n": 1.5}


def test_psycopg(shop: App, pay: Job[Any], postgres: str) -> None:
    with psycopg.connect(postgres) as connection:
        id = pay.with_options(priority=-3, key="acme", tags=["x"], delay="1h").enqueue_in_sync(connection, **ARGS)
        assert shop.sync.job(id) is None
        connection.commit()
        job = shop.sync.job(id)
        assert job is not None and (job.args, job.priority, job.key, job.tags, job.state) == (ARGS, -3, "acme", ["x"], "scheduled")
        lost = pay.enqueue_in_sync(connection)
        connection.rollback()
        assert shop.sync.job(lost) is None

    async def main() -> int:
        async with await psycopg.AsyncConnection.connect(postgres) as connection:
            return await pay.enqueue_in(connection, **ARGS)

    assert shop.sync.job(asyncio.run(main())).args == ARGS  # type: ignore[union-attr]


def test_a_connection_with_autocommit(shop: App, pay: Job[Any], postgres: str) -> None:
    """As those of many pools: by itself an enqueue is committed at once, in ``transaction()`` with that."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        assert shop.sync.job(pay.enqueue_in_sync(connection, **ARGS)) is not None
        with connection.transaction(force_rollback=True):
            lost = pay.enqueue_in_sync(connection, **ARGS)
        assert shop.sync.job(lost) is None
        with connection.transaction():
            kept = pay.enqueue_in_sync(connection, **ARGS)
            with connection.transaction(force_rollback=True):  # a savepoint
                gone = pay.enqueue_in_sync(connection, **ARGS)
            assert shop.sync.job(kept) is None
        assert shop.sync.job(kept) is not None and shop.sync.job(gone) is None


@pytest.mark.parametrize("rows", ["dict_row", "scalar_row", "namedtuple_row"])
def test_rows_of_psycopg_are_the_users(pay: Job[Any], postgres: str, rows: str) -> None:
    factory: Any = getattr(psycopg.rows, rows)
    with psycopg.connect(postgres, row_factory=factory) as connection:
        assert pay.enqueue_in_sync(connection) > 0
        assert connection.row_factory is factory

    async def main() -> list[int]:
        async with await psycopg.AsyncConnection.connect(postgres, row_factory=factory) as connection:
            return await pay.enqueue_many_in(connection, [ARGS, ARGS])

    first, second = asyncio.run(main())
    assert first < second


@pytest.mark.parametrize("cursors", ["RawCursor", "ClientCursor"])
def test_cursors_of_psycopg_are_the_users(shop: App, pay: Job[Any], postgres: str, cursors: str) -> None:
    """Those that take ``$1`` in the place of ``%s``, too."""
    with psycopg.connect(postgres, cursor_factory=getattr(psycopg, cursors)) as connection:
        ids = [pay.enqueue_in_sync(connection, **ARGS), *pay.enqueue_many_in_sync(connection, [ARGS, ARGS])]

    async def main() -> int:
        async with await psycopg.AsyncConnection.connect(postgres, cursor_factory=getattr(psycopg, f"Async{cursors}")) as connection:
            return await pay.enqueue_in(connection, **ARGS)

    assert [record(shop, id).args for id in [*ids, asyncio.run(main())]] == [ARGS] * 4


class Db(AsyncSession):
    """A session of the user's own, whose name says nothing of how it is used."""


class Link(psycopg.AsyncConnection[Any]):
    """The same of psycopg's."""


class AsyncFriend(psycopg.Connection[Any]):
    """And one whose name says the wrong thing."""


def test_classes_of_the_users_own_are_told_by_what_they_stand_on(shop: App, pay: Job[Any], postgres: str) -> None:
    async def main() -> list[int]:
        engine = create_async_engine(postgres.replace("postgres://", "postgresql+psycopg://"))
        scoped = async_scoped_session(async_sessionmaker(engine, class_=Db), scopefunc=asyncio.current_task)
        ids = []
        async with Db(engine) as session, session.begin():
            ids.append(await pay.enqueue_in(session))
        async with scoped.begin():
            ids.append(await pay.enqueue_in(scoped))
        await scoped.remove()
        await engine.dispose()
        async with await Link.connect(postgres) as link:
            ids.append(await pay.enqueue_in(link))
            with pytest.raises(InvalidOption, match="a Link is to be awaited"):
                pay.enqueue_in_sync(link)
        return ids

    ids = asyncio.run(main())
    with AsyncFriend.connect(postgres) as friend:
        ids.append(pay.enqueue_in_sync(friend))
    assert all(shop.sync.job(id) is not None for id in ids)


def test_asyncpg(shop: App, pay: Job[Any], postgres: str) -> None:
    async def main() -> tuple[int, int]:
        async with asyncpg.create_pool(postgres, min_size=1, max_size=1) as pool, pool.acquire() as connection:
            async with connection.transaction():
                id = await pay.with_options(delay=3600).enqueue_in(connection, **ARGS)
                assert await shop.client.job(id) is None
            transaction = connection.transaction()
            await transaction.start()
            lost = await pay.enqueue_in(connection)
            await transaction.rollback()
            return id, lost

    id, lost = asyncio.run(main())
    assert shop.sync.job(id).args == ARGS and shop.sync.job(lost) is None  # type: ignore[union-attr]


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_sqlalchemy(shop: App, pay: Job[Any], postgres: str, driver: str) -> None:
    url = postgres.replace("postgres://", f"postgresql+{driver}://")
    if driver == "psycopg":
        engine = sqlalchemy.create_engine(url)
        with Session(engine) as session, session.begin():
            session.execute(sqlalchemy.text("INSERT INTO payment VALUES (1)"))
            id = pay.enqueue_in_sync(session, **ARGS)
            assert shop.sync.job(id) is None
        assert shop.sync.job(id).args == ARGS  # type: ignore[union-attr]
        with engine.connect() as connection:
            lost = pay.enqueue_in_sync(connection)
            connection.rollback()
        assert shop.sync.job(lost) is None
        engine.dispose()

    async def main() -> tuple[int, int]:
        engine = create_async_engine(url)
        async with AsyncSession(engine) as session, session.begin():
            first = await pay.enqueue_in(session, **ARGS)
        async with engine.begin() as connection:
            second = await pay.enqueue_in(connection)
        await engine.dispose()
        return first, second

    first, second = asyncio.run(main())
    assert shop.sync.job(first).args == ARGS and shop.sync.job(second) is not None  # type: ignore[union-attr]


def test_django(shop: App, pay: Job[Any], postgres: str) -> None:
    import django
    from django.conf import settings

    parts = psycopg.conninfo.conninfo_to_dict(postgres)
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": parts["dbname"], "USER": parts["user"], "HOST": parts["host"], "PORT": parts["port"]}
    settings.configure(DATABASES={"default": database}, USE_TZ=True)
    django.setup()
    from django.db import connection, transaction

    with transaction.atomic():
        id = pay.enqueue_in_sync(connection, **ARGS)
        assert shop.sync.job(id) is None
    assert shop.sync.job(id).args == ARGS  # type: ignore[union-attr]
    once = pay.with_options(idempotency_key="django")
    with transaction.atomic():
        assert once.enqueue_in_sync(connection, **ARGS) == once.enqueue_in_sync(connection, **ARGS)
    with connection.cursor() as cursor, pytest.raises(InvalidOption, match="a CursorWrapper of django is in no transaction"):
        pay.enqueue_in_sync(cursor)
    connection.close()

    refused: list[InvalidOption] = []

    @shop.job("by.django", max_attempts=1)
    def by_django(ctx: Context) -> None:
        with noted(refused):
            ctx.complete_in_sync(connection)
        with transaction.atomic():
            ctx.complete_in_sync(connection)

    done = by_django.enqueue_sync()
    asyncio.run(drain(shop))
    assert len(refused) == 1 and record(shop, done).state == "completed", record(shop, done).errors


def test_an_idempotency_key_in_a_transaction(shop: App, pay: Job[Any], postgres: str) -> None:
    """What rolls back leaves the key free; what commits is stored once, with all that it was given."""
    given = {"priority": -3, "max_attempts": 7, "key": "acme", "meta": {"no": None}, "tags": ["x"], "timeout": "30s", "cost": 2}
    once = pay.with_options(idempotency_key="order/7", delay="1h", expires_in="2h", **given)
    many = [{**ARGS, "none": None}, ARGS]
    with psycopg.connect(postgres) as connection:
        lost = once.enqueue_many_in_sync(connection, many)
        connection.rollback()
        ids = once.enqueue_many_in_sync(connection, many)
        assert once.enqueue_many_in_sync(connection, many) == ids and len({*lost, *ids}) == 4
        connection.commit()
        assert once.enqueue_many_in_sync(connection, many) == ids
    assert once.enqueue_many_sync(many) == ids, "it is the key of a call outside, too"
    assert shop.sync.job(lost[0]) is None
    for id, args in zip(ids, many, strict=True):
        job = record(shop, id)
        assert (job.args, job.queue, job.state, job.timeout) == (args, "money", "scheduled", 30)
        assert {name: getattr(job, name) for name in given if name != "timeout"} == {name: value for name, value in given.items() if name != "timeout"}
        assert job.scheduled_at is not None and job.expires_at is not None
        assert abs(job.expires_at - job.scheduled_at - timedelta(hours=1)) < timedelta(seconds=1)
    with psycopg.connect(postgres) as connection, pytest.raises(InvalidOption, match="was used for 2 jobs, now for 1"):
        once.enqueue_in_sync(connection, **ARGS)


@pytest.mark.parametrize("library", ["asyncpg", "psycopg", "sqlalchemy+psycopg", "sqlalchemy+asyncpg", "a statement"])
def test_an_idempotency_key_in_a_transaction_of_each_library(shop: App, pay: Job[Any], postgres: str, library: str) -> None:
    once = pay.with_options(idempotency_key=library)

    async def enqueue() -> int:
        if library == "asyncpg":
            alone = await asyncpg.connect(postgres)
            async with alone.transaction():
                id = await once.enqueue_in(alone, **ARGS)
            await alone.close()
            return id
        if library == "psycopg":
            async with await psycopg.AsyncConnection.connect(postgres) as connection:
                return await once.enqueue_in(connection, **ARGS)
        if library == "a statement":
            with psycopg.connect(postgres) as one:
                row = one.execute(*await once.enqueue_sql(**ARGS)).fetchone()
                assert row is not None
                return int(row[0])
        engine = create_async_engine(postgres.replace("postgres://", f"postgresql+{library.partition('+')[2]}://"))
        async with AsyncSession(engine) as session, session.begin():
            id = await once.enqueue_in(session, **ARGS)
        await engine.dispose()
        return id

    first, second = asyncio.run(enqueue()), asyncio.run(enqueue())
    assert first == second and record(shop, first).args == ARGS


def test_a_job_completes_with_its_effect_or_not_at_all(shop: App, postgres: str) -> None:
    fails = {"async": True, "sync": True}

    @shop.job("async")
    async def pays(ctx: Context) -> None:
        async with await psycopg.AsyncConnection.connect(postgres) as connection:
            await connection.execute("INSERT INTO payment VALUES (%s)", [ctx.id])
            await ctx.complete_in(connection)
            if fails.pop("async", False):
                raise ConnectionError("before the commit")

    @shop.job("sync")
    def pays_in_a_thread(ctx: Context) -> None:
        with psycopg.connect(postgres) as connection:
            connection.execute("INSERT INTO payment VALUES (%s)", [ctx.id])
            ctx.complete_in_sync(connection)
            if fails.pop("sync", False):
                raise ConnectionError("before the commit")

    async def main() -> list[int]:
        ids = [await pays.enqueue(), await pays_in_a_thread.enqueue()]
        async with shop.worker() as worker:
            await worker.until_idle()
            assert await shop.client.retry(ids) == ["retried", "retried"]
            await worker.until_idle()
        return ids

    ids = asyncio.run(main())
    assert [shop.sync.job(id).state for id in ids] == ["completed", "completed"]  # type: ignore[union-attr]
    with psycopg.connect(postgres) as connection:
        assert sorted(row[0] for row in connection.execute("SELECT job FROM payment")) == ids


def test_a_job_that_was_taken_away_does_not_complete(shop: App, postgres: str) -> None:
    errors: list[Exception] = []

    @shop.job("twice")
    async def twice(ctx: Context) -> None:
        connection = await asyncpg.connect(postgres)
        async with connection.transaction():
            await ctx.complete_in(connection)
        try:
            async with connection.transaction():
                await ctx.complete_in(connection)
        except LeaseLost as error:
            errors.append(error)
        await connection.close()

    async def main() -> None:
        await twice.enqueue()
        async with shop.worker() as worker:
            await worker.until_idle()

    asyncio.run(main())
    assert len(errors) == 1 and "roll back" in str(errors[0])


@pytest.mark.parametrize("driver", ["psycopg", "async psycopg", "asyncpg"])
def test_a_connection_without_a_transaction_completes_nothing(shop: App, postgres: str, driver: str) -> None:
    """What was done by it is committed already: a crash before the completion would do it twice."""

    refused: list[InvalidOption] = []

    @shop.job("alone", max_attempts=1)
    async def alone(ctx: Context) -> None:
        if driver == "psycopg":
            with psycopg.connect(postgres, autocommit=True) as connection:
                with noted(refused):
                    ctx.complete_in_sync(connection)
                with connection.transaction():
                    ctx.complete_in_sync(connection)
        elif driver == "async psycopg":
            async with await psycopg.AsyncConnection.connect(postgres, autocommit=True) as other:
                with noted(refused):
                    await ctx.complete_in(other)
                async with other.transaction():
                    await ctx.complete_in(other)
        else:
            third = await asyncpg.connect(postgres)
            with noted(refused):
                await ctx.complete_in(third)
            async with third.transaction():
                await ctx.complete_in(third)
            await third.close()

    id = alone.enqueue_sync()
    asyncio.run(drain(shop))
    assert ["no transaction is open on the connection" in str(error) for error in refused] == [True]
    assert record(shop, id).state == "completed", record(shop, id).errors


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_an_engine_with_autocommit_completes_nothing(shop: App, postgres: str, driver: str) -> None:
    url = postgres.replace("postgres://", f"postgresql+{driver}://")
    refused: list[InvalidOption] = []

    @shop.job("engine", max_attempts=1)
    async def engine(ctx: Context) -> None:
        for level in ("AUTOCOMMIT", "READ COMMITTED"):
            made = create_async_engine(url, isolation_level=level)
            async with AsyncSession(made) as session, session.begin():
                with noted(refused):
                    await ctx.complete_in(session)
            await made.dispose()

    @shop.job("plain.engine", max_attempts=1)
    def plain_engine(ctx: Context) -> None:
        for level in ("AUTOCOMMIT", "READ COMMITTED"):
            made = sqlalchemy.create_engine(url, isolation_level=level)
            with made.begin() as connection, noted(refused):
                ctx.complete_in_sync(connection)
            made.dispose()

    jobs = [engine, plain_engine] if driver == "psycopg" else [engine]  # which is all that asyncpg has
    ids = [job.enqueue_sync() for job in jobs]
    asyncio.run(drain(shop))
    assert [record(shop, id).state for id in ids] == ["completed"] * len(ids), [record(shop, id).errors for id in ids]
    assert ["no transaction is open on the connection" in str(error) for error in refused] == [True] * len(ids)


@contextmanager
def noted(refused: list[InvalidOption]) -> Iterator[None]:
    try:
        yield
    except InvalidOption as error:
        refused.append(error)


def test_a_transaction_of_another_database_completes_nothing(shop: App, postgres: str) -> None:
    elsewhere = f"{postgres}_2"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {elsewhere.rsplit('/', 1)[1]}")
    other = App(elsewhere)
    other.sync.migrate()

    @shop.job("elsewhere", max_attempts=1)
    def job(ctx: Context) -> None:
        with psycopg.connect(elsewhere) as connection:
            ctx.complete_in_sync(connection)

    id = job.enqueue_sync()
    asyncio.run(drain(shop))
    other.close()
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {elsewhere.rsplit('/', 1)[1]} WITH (FORCE)")
    failed = record(shop, id)
    assert failed.state == "discarded" and "LeaseLost" in failed.errors[0]["error"], failed


def test_a_transaction_that_could_not_see_a_lost_lease_completes_nothing(shop: App, postgres: str) -> None:
    @shop.job("old", max_attempts=1)
    def old(ctx: Context) -> None:
        with psycopg.connect(postgres) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            ctx.complete_in_sync(connection)

    id = old.enqueue_sync()
    asyncio.run(drain(shop))
    job = record(shop, id)
    assert job.state == "discarded" and "READ COMMITTED" in job.errors[0]["error"], job


def test_what_cannot_join_is_refused_by_name(shop: App, pay: Job[Any], postgres: str, sqlite: App) -> None:
    with pytest.raises(InvalidOption, match="through a builtins.object; known are psycopg 3"):
        pay.enqueue_in_sync(object())
    with psycopg.connect(postgres) as connection:
        with pytest.raises(InvalidOption, match="use enqueue_in_sync"):
            asyncio.run(pay.enqueue_in(connection))
        unique = pay.with_options(unique=Unique("a"))
        with pytest.raises(InvalidOption, match="a unique job takes no idempotency_key"):
            unique.with_options(idempotency_key="k").enqueue_in_sync(connection)
        with pytest.raises(InvalidOption, match="an idempotency key must be 1 to 200 bytes"):
            pay.with_options(idempotency_key="k" * 201).enqueue_in_sync(connection)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE, "what the server refused would end it"
        assert unique.enqueue_in_sync(connection) == unique.enqueue_in_sync(connection)
        with pytest.raises(InvalidOption, match="a Cursor of psycopg is in no transaction of its own: pass the connection"):
            pay.enqueue_in_sync(connection.cursor())
        with connection.transaction() as transaction, pytest.raises(InvalidOption, match="a Transaction of psycopg runs no statements: pass the connection"):
            pay.enqueue_in_sync(transaction)
    for other_of in (sessionmaker(), async_sessionmaker(), Session().begin()):
        with pytest.raises(InvalidOption, match=f"a {type(other_of).__name__} of sqlalchemy runs no statements: pass the connection or session"):
            pay.enqueue_in_sync(other_of)
    engine = sqlalchemy.create_engine("sqlite://")
    with pytest.raises(InvalidOption, match="an? Engine of sqlalchemy is in no transaction"):
        pay.enqueue_in_sync(engine)

    async def by_a_pool() -> None:
        async with asyncpg.create_pool(postgres, min_size=1, max_size=1) as pool:
            await pay.enqueue_in(pool)

    with pytest.raises(InvalidOption, match="a Pool of asyncpg is in no transaction"):
        asyncio.run(by_a_pool())
    with engine.connect() as other, pytest.raises(InvalidOption, match="this one is of sqlite"):
        pay.enqueue_in_sync(other)

    @sqlite.job("a")
    def job() -> None: ...

    with psycopg.connect(postgres) as connection, pytest.raises(Unsupported):
        job.enqueue_in_sync(connection)


def test_many_join_in_one_statement(shop: App, pay: Job[Any], postgres: str) -> None:
    jobs = [ARGS | {"n": n} for n in range(50)]
    later = pay.with_options(priority=-3, tags=["x", "y"], meta={"who": "me"}, delay="1h", timeout="1m")
    with psycopg.connect(postgres) as connection:
        lost = later.enqueue_many_in_sync(connection, jobs)
        connection.rollback()
        ids = later.enqueue_many_in_sync(connection, jobs)
        assert shop.sync.job(ids[0]) is None and later.enqueue_many_in_sync(connection, []) == []
    assert [shop.sync.job(id) for id in lost] == [None] * 50
    stored: list[Any] = [shop.sync.job(id) for id in ids]
    assert [job.args for job in stored] == jobs
    assert {(job.priority, *job.tags, job.meta["who"], job.timeout, job.state) for job in stored} == {(-3, "x", "y", "me", 60, "scheduled")}

    async def main() -> list[int]:
        async with asyncpg.create_pool(postgres, min_size=1, max_size=1) as pool, pool.acquire() as connection, connection.transaction():
            return await pay.enqueue_many_in(connection, jobs[:3])

    assert [shop.sync.job(id).args for id in asyncio.run(main())] == jobs[:3]  # type: ignore[union-attr]


def test_a_statement_is_for_any_driver(shop: App, pay: Job[Any], postgres: str, sqlite: App) -> None:
    later = pay.with_options(priority=-3, key="acme", tags=["x"], delay="1h")
    unique = pay.with_options(unique=Unique(fields=["n"]))
    with psycopg.connect(postgres) as connection:
        [(id,)] = connection.execute(*later.enqueue_sql_sync(**ARGS)).fetchall()
        assert shop.sync.job(id) is None
        connection.commit()
        job = record(shop, id)
        assert (job.args, job.priority, job.key, job.tags, job.state) == (ARGS, -3, "acme", ["x"], "scheduled")
        [first, other, again] = connection.execute(*unique.enqueue_many_sql_sync([ARGS, ARGS | {"n": 2}, ARGS])).fetchall()
        assert first == again != other

    async def main() -> list[int]:
        connection = await asyncpg.connect(postgres)
        one, params = (await pay.enqueue_sql(**ARGS)).numbered()
        many, lists = (await pay.enqueue_many_sql([ARGS, ARGS])).numbered()
        ids = [row["id"] for row in [*await connection.fetch(one, *params), *await connection.fetch(many, *lists)]]
        await connection.close()
        return ids

    assert [record(shop, id).args for id in asyncio.run(main())] == [ARGS] * 3
    with pytest.raises(InvalidArgs, match="no statement enqueues no job"):
        pay.enqueue_many_sql_sync([])

    @sqlite.job("a")
    def job_of_sqlite() -> None: ...

    with pytest.raises(Unsupported):
        job_of_sqlite.enqueue_sql_sync()


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_many_unique_ones_join_too(shop: App, pay: Job[Any], postgres: str, driver: str) -> None:
    unique = pay.with_options(unique=Unique(fields=["user"]))
    engine = create_async_engine(postgres.replace("postgres://", f"postgresql+{driver}://"))

    async def main() -> list[int]:
        async with AsyncSession(engine) as session, session.begin():
            first = await unique.enqueue_in(session, user=1)
            ids = await unique.enqueue_many_in(session, [{"user": 2}, {"user": 1}, {"user": 2}])
            assert ids == [ids[0], first, ids[0]] and ids[0] != first
        strict = pay.with_options(unique=Unique(fields=["user"], on_conflict="error"))
        async with engine.connect() as connection:
            with pytest.raises(UniqueConflict, match=f"job {first} has this unique key") as refused:
                await strict.enqueue_in(connection, user=1)
            assert refused.value.code == "unique_conflict" and refused.value.__cause__ is not None
        await engine.dispose()
        return ids

    assert len(asyncio.run(main())) == 3


class Refusing:
    """A connection whose server refuses everything."""

    def __init__(self, sqlstate: str) -> None:
        self.sqlstate = sqlstate

    def cursor(self, **_: Any) -> Any:
        error = psycopg.Error("the first line\nDETAIL: more")
        error.sqlstate = self.sqlstate
        raise error


Refusing.__module__ = "psycopg"


def test_a_database_without_windlass_says_what_to_do(bare: str) -> None:
    app = App(bare)

    @app.job("a")
    def job() -> None: ...

    with psycopg.connect(bare) as connection, pytest.raises(errors.SchemaMissing) as error:
        job.enqueue_in_sync(connection)
    assert "is not installed in the database of this connection; run `windlass --store URL migrate` or app.sync.migrate()" in str(error.value)
    with pytest.raises(errors.SchemaMissing, match="run `windlass --store URL migrate` or app.sync.migrate()"):
        job.enqueue_sync()
    app.close()


@pytest.mark.parametrize(
    ("sqlstate", "error", "text"),
    [
        ("WL001", errors.LeaseLost, "the first line: the job was taken from this worker, or is settled already; roll back"),
        ("WL002", errors.InvalidName, "the first line"),
        ("WL003", errors.InvalidOption, "the first line"),
        ("WL004", errors.InvalidArgs, "the first line"),
        ("WL006", errors.InvalidOption, "the first line"),
        ("WL007", errors.UniqueConflict, "the first line"),
        ("42P01", psycopg.Error, "the first line\nDETAIL: more"),
    ],
)
def test_what_functions_refuse_is_told_as_the_engine_does(sqlstate: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as refused:
        run_sync(Refusing(sqlstate), {"text": "SELECT", "params": []})
    assert (type(refused.value), str(refused.value)) == (error, text)
