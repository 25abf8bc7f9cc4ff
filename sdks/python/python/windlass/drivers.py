"""The user's own connection to PostgreSQL: runs a statement inside the transaction that is open there.

A connection is told by the module of its class, so no driver is imported that the program does not use.
"""

from __future__ import annotations

import importlib
import re
from itertools import count
from typing import Any, NamedTuple

from .args import encode
from .errors import InvalidOption, WindlassError, error_of

# The codes of errors that Windlass's SQL functions raise.
_CODES = {
    "WL001": "lease_lost", "WL002": "invalid_name", "WL003": "invalid_option", "WL004": "invalid_args", "WL006": "invalid_option",
    "WL007": "unique_conflict", "3F000": "schema_missing",
}  # fmt: skip
_PLACEHOLDER = re.compile(r"\$(\d+)")
_PERCENT = re.compile("%[s%]")
_KNOWN = "psycopg 3, asyncpg, SQLAlchemy (its Session, Connection and their async forms) and Django's connections"
_NO_CONNECTION = re.compile("Pool$|Engine$|Cursor")
_OF_CONNECTION = re.compile("Transaction$|sessionmaker$")  # what begins and ends transactions, or sessions

_IDLE = 0  # of psycopg: outside of any transaction
Statement = dict[str, Any]
"""``text`` with ``$1``, ``params``: each with its ``type`` and ``value``."""


class SqlCall(NamedTuple):
    """A statement for any driver of PostgreSQL, as in ``cursor.execute(*call)``. It gives a row for each job, with its id."""

    text: str
    """With ``%s`` in the place of each parameter."""
    params: list[str | int]

    def numbered(self) -> tuple[str, list[str | int]]:
        """The same for drivers that have ``$1``, ``$2`` and so on in the places of parameters."""
        numbers = count(1)
        return _PERCENT.sub(lambda found: "%" if found[0] == "%%" else f"${next(numbers)}", self.text), self.params


def _values(statement: Statement) -> list[Any]:
    return [param["value"] if param["type"] == "text" else int(param["value"]) for param in statement["params"]]


def percent(statement: Statement) -> SqlCall:
    """With ``%s`` for each parameter, in the order of their use."""
    values = _values(statement)
    used: list[str | int] = []

    def place(found: re.Match[str]) -> str:
        used.append(values[int(found[1]) - 1])
        return "%s"

    return SqlCall(_PLACEHOLDER.sub(place, statement["text"].replace("%", "%%")), used)


def together(statements: list[Statement], is_unique: bool) -> Statement:
    """One statement for the jobs of several, which are alike but for their parameters: it gives their ids in order."""
    if len(statements) == 1:
        return statements[0]
    if is_unique:  # each has a list of jobs; as one list they take their keys in an order that cannot deadlock
        lists = [statement["params"][0]["value"][1:-1] for statement in statements]
        return {"text": statements[0]["text"], "params": [{"type": "text", "value": f"[{','.join(lists)}]"}]}
    rows = encode([[param["value"] for param in statement["params"]] for statement in statements])
    call = _PLACEHOLDER.sub(lambda found: f"(p->>{int(found[1]) - 1})", statements[0]["text"])
    text = f"{call} FROM jsonb_array_elements($1::text::jsonb) WITH ORDINALITY AS job(p, n) ORDER BY n"
    return {"text": text, "params": [{"type": "text", "value": rows}]}


def _library(connection: Any) -> str:
    for ancestor in type(connection).__mro__:
        name = ancestor.__module__.split(".")[0]
        if name in ("psycopg", "asyncpg", "sqlalchemy", "django"):
            if _NO_CONNECTION.search(ancestor.__name__):
                raise InvalidOption(f"a {type(connection).__qualname__} of {name} is in no transaction of its own: pass the connection that yours is open on")
            if _OF_CONNECTION.search(ancestor.__name__):
                raise InvalidOption(f"a {type(connection).__qualname__} of {name} runs no statements: pass the connection or session that your transaction is open on")
            return name
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise InvalidOption(f"no transaction can be joined through a {kind}; known are {_KNOWN}")


def _is_async(connection: Any, library: str) -> bool:
    """Whether it is to be awaited: the library's own classes say so in their names, those of the user that stand on them need not."""
    of_library = (ancestor for ancestor in type(connection).__mro__ if ancestor.__module__.split(".")[0] == library)
    return library == "asyncpg" or any("async" in ancestor.__name__.lower() for ancestor in of_library)


def _of_sqlalchemy(connection: Any, statement: Statement) -> tuple[str, tuple[Any, ...]]:
    dialect = getattr(connection, "dialect", None) or connection.get_bind().dialect
    if dialect.name != "postgresql":
        raise InvalidOption(f"jobs join transactions of PostgreSQL, this one is of {dialect.name}")
    if dialect.paramstyle in ("format", "pyformat"):
        text, values = percent(statement)
        return text, tuple(values)
    if dialect.paramstyle == "numeric_dollar":
        return statement["text"], tuple(_values(statement))
    raise InvalidOption(f"the driver {dialect.driver} is not known; use psycopg or asyncpg")


def _refused(error: BaseException) -> WindlassError | None:
    """What Windlass's own functions refused, as the engine names it."""
    for cause in (error, getattr(error, "orig", None), error.__cause__):
        code = _CODES.get(getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or "")
        if code is not None:
            text = str(cause).partition("\n")[0]
            if code == "schema_missing":
                return error_of(code, f"{text}: Windlass is not installed in the database of this connection; run `windlass migrate`")
            lost = ": the job was taken from this worker, or is settled already; roll back"
            return error_of(code, text + lost if code == "lease_lost" else text)
    return None


def run_sync(connection: Any, statement: Statement) -> list[int]:
    """Runs a statement and gives the one column of its rows.

    Raises what Windlass's functions refuse as the engine does, with the driver's error as its cause, and all else as the driver raised it.
    """
    try:
        return [int(row[0]) for row in _run_sync(connection, statement)]
    except Exception as error:
        raise _refused(error) or error from error


def _run_sync(connection: Any, statement: Statement) -> Any:
    library = _library(connection)
    if _is_async(connection, library):
        raise InvalidOption(f"a {type(connection).__qualname__} is to be awaited: use enqueue_in and complete_in, without _sync")
    if library == "sqlalchemy":
        text, values = _of_sqlalchemy(connection, statement)
        on = connection.connection() if _is_session(connection, library) else connection
        return on.exec_driver_sql(text, values).fetchall()
    if library == "django":
        if connection.vendor != "postgresql":
            raise InvalidOption(f"jobs join transactions of PostgreSQL, this one is of {connection.vendor}")
        with connection.cursor() as cursor:
            cursor.execute(*percent(statement))
            return cursor.fetchall()
    with connection.cursor(row_factory=_psycopg().rows.tuple_row) as cursor:
        return cursor.execute(*_of_psycopg(cursor, statement)).fetchall()


async def run(connection: Any, statement: Statement) -> list[int]:
    """The same through an async connection."""
    try:
        return [int(row[0]) for row in await _run(connection, statement)]
    except Exception as error:
        raise _refused(error) or error from error


async def _run(connection: Any, statement: Statement) -> Any:
    library = _library(connection)
    if not _is_async(connection, library):
        raise InvalidOption(f"a {type(connection).__qualname__} is not to be awaited: use enqueue_in_sync and complete_in_sync")
    if library == "asyncpg":
        return await connection.fetch(statement["text"], *_values(statement))
    if library == "sqlalchemy":
        on = await connection.connection() if _is_session(connection, library) else connection
        text, values = _of_sqlalchemy(on, statement)
        return (await on.exec_driver_sql(text, values)).fetchall()
    async with connection.cursor(row_factory=_psycopg().rows.tuple_row) as cursor:
        return await (await cursor.execute(*_of_psycopg(cursor, statement))).fetchall()


def complete_sync(connection: Any, statement: Statement) -> None:
    """Runs a statement that is to commit together with what the transaction did before: refused where each statement commits by itself."""
    library = _library(connection)
    if not _is_async(connection, library):
        _refuse_autocommit(library, connection.connection() if _is_session(connection, library) else connection)
    run_sync(connection, statement)


async def complete(connection: Any, statement: Statement) -> None:
    """The same through an async connection."""
    library = _library(connection)
    if _is_async(connection, library):
        _refuse_autocommit(library, await connection.connection() if _is_session(connection, library) else connection)
    await run(connection, statement)


def _is_session(connection: Any, library: str) -> bool:
    return library == "sqlalchemy" and hasattr(connection, "get_bind")


def _refuse_autocommit(library: str, connection: Any) -> None:
    if library == "asyncpg":
        is_alone = not connection.is_in_transaction()
    elif library == "django":
        is_alone = connection.get_autocommit()
    elif library == "sqlalchemy":  # which begins by itself, where its engine does not say otherwise
        is_alone = getattr(connection, "sync_connection", connection).connection.dbapi_connection.autocommit
    else:
        is_alone = connection.autocommit and connection.info.transaction_status == _IDLE
    if is_alone:
        raise InvalidOption("no transaction is open on the connection, so the job would be completed apart from its effects: open one before these, and complete it there")


def _psycopg() -> Any:
    return importlib.import_module("psycopg")


def _of_psycopg(cursor: Any, statement: Statement) -> tuple[str, list[Any]]:
    """The ``row_factory`` of a connection is for the user's rows. Its ``cursor_factory`` makes ours, too, and may want the placeholders of the server."""
    raw = tuple(getattr(_psycopg(), name) for name in ("RawCursor", "AsyncRawCursor") if hasattr(_psycopg(), name))
    return (statement["text"], _values(statement)) if isinstance(cursor, raw) else percent(statement)
