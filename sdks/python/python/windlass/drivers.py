"""The user's own connection to PostgreSQL: runs a statement inside the transaction that is open there.

A connection is told by the module of its class, so no driver is imported that the program does not use.
"""

from __future__ import annotations

import re
from typing import Any

from .errors import InvalidOption, LeaseLost, WindlassError

_LOST = "WL001"
_PLACEHOLDER = re.compile(r"\$(\d+)")
_KNOWN = "psycopg 3, asyncpg, SQLAlchemy (its Session, Connection and their async forms) and Django's connections"

Statement = dict[str, Any]
"""``text`` with ``$1``, ``params``: each with its ``type`` and ``value``."""


def _values(statement: Statement) -> list[Any]:
    return [param["value"] if param["type"] == "text" else int(param["value"]) for param in statement["params"]]


def _percent(statement: Statement) -> tuple[str, list[Any]]:
    """With ``%s`` for each parameter, in the order of their use."""
    values, used = _values(statement), []

    def place(found: re.Match[str]) -> str:
        used.append(values[int(found[1]) - 1])
        return "%s"

    return _PLACEHOLDER.sub(place, statement["text"].replace("%", "%%")), used


def _library(connection: Any) -> str:
    for ancestor in type(connection).__mro__:
        name = ancestor.__module__.split(".")[0]
        if name in ("psycopg", "asyncpg", "sqlalchemy", "django"):
            return name
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise InvalidOption(f"no transaction can be joined through a {kind}; known are {_KNOWN}")


def _of_sqlalchemy(connection: Any, statement: Statement) -> tuple[str, tuple[Any, ...]]:
    dialect = getattr(connection, "dialect", None) or connection.get_bind().dialect
    if dialect.name != "postgresql":
        raise InvalidOption(f"jobs join transactions of PostgreSQL, this one is of {dialect.name}")
    if dialect.paramstyle in ("format", "pyformat"):
        text, values = _percent(statement)
        return text, tuple(values)
    if dialect.paramstyle == "numeric_dollar":
        return statement["text"], tuple(_values(statement))
    raise InvalidOption(f"the driver {dialect.driver} is not known; use psycopg or asyncpg")


def _refused(error: BaseException) -> WindlassError | None:
    """A job that was taken away, as the engine names it."""
    for cause in (error, getattr(error, "orig", None), error.__cause__):
        if _LOST in (getattr(cause, "sqlstate", None), getattr(cause, "pgcode", None)):
            return LeaseLost(f"{cause}: the job was taken from this worker, or is settled already; roll back")
    return None


def run_sync(connection: Any, statement: Statement) -> Any:
    """Runs a statement and gives the first value of its first row."""
    try:
        return _run_sync(connection, statement)
    except Exception as error:
        raise _refused(error) or error from error


def _run_sync(connection: Any, statement: Statement) -> Any:
    library = _library(connection)
    if library == "sqlalchemy":
        text, values = _of_sqlalchemy(connection, statement)
        on = connection.connection() if hasattr(connection, "get_bind") else connection
        row = on.exec_driver_sql(text, values).fetchone()
    elif library == "django":
        if connection.vendor != "postgresql":
            raise InvalidOption(f"jobs join transactions of PostgreSQL, this one is of {connection.vendor}")
        with connection.cursor() as cursor:
            cursor.execute(*_percent(statement))
            row = cursor.fetchone()
    elif library == "psycopg" and "Async" not in type(connection).__name__:
        row = connection.execute(*_percent(statement)).fetchone()
    else:
        raise InvalidOption(f"a {type(connection).__qualname__} is to be awaited: use enqueue_in and complete_in, without _sync")
    return None if row is None else row[0] if not isinstance(row, dict) else next(iter(row.values()))


async def run(connection: Any, statement: Statement) -> Any:
    """The same through an async connection."""
    try:
        return await _run(connection, statement)
    except Exception as error:
        raise _refused(error) or error from error


async def _run(connection: Any, statement: Statement) -> Any:
    library = _library(connection)
    if library == "asyncpg":
        return await connection.fetchval(statement["text"], *_values(statement))
    if library == "sqlalchemy" and "Async" in type(connection).__name__:
        on = await connection.connection() if hasattr(connection, "get_bind") else connection
        text, values = _of_sqlalchemy(on, statement)
        row = (await on.exec_driver_sql(text, values)).fetchone()
    elif library == "psycopg" and "Async" in type(connection).__name__:
        row = await (await connection.execute(*_percent(statement))).fetchone()
    else:
        raise InvalidOption(f"a {type(connection).__qualname__} is not to be awaited: use enqueue_in_sync and complete_in_sync")
    return None if row is None else row[0] if not isinstance(row, dict) else next(iter(row.values()))
