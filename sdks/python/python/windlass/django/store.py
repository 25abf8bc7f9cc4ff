"""The store of a backend: the database of a Django connection, or one by its URL."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from .. import _native
from ..app import App
from ..connection import Connection, mailbox

if TYPE_CHECKING:
    from ..traces import Traces

# What both libpq and Windlass know; the rest of a connection's options is Django's own.
_PARAMETERS = ("sslmode", "sslrootcert", "application_name", "connect_timeout")

_SOCKETS = ("/var/run/postgresql", "/tmp")  # as distributions build PostgreSQL, and as it comes


def url_of(using: str) -> str:
    """The store's URL of the database that a Django connection is for."""
    connection = connections[using]
    if connection.vendor != "postgresql":
        raise ImproperlyConfigured(
            f"the database {using!r} is {connection.vendor}, whose transactions Windlass cannot join: give the backend a store of its own, "
            "as in OPTIONS={'store': 'sqlite:jobs.db'}, and an app its URL, as in App('sqlite:jobs.db')"
        )
    settings: dict[str, Any] = connection.settings_dict
    if not settings["NAME"]:
        raise ImproperlyConfigured(f"the database {using!r} has no NAME: give the backend OPTIONS={{'store': 'postgres://...'}}")
    user = quote(settings["USER"], safe="")
    if settings["PASSWORD"]:
        user += ":" + quote(settings["PASSWORD"], safe="")
    port = str(settings["PORT"] or os.environ.get("PGPORT") or "")
    host = settings["HOST"] or os.environ.get("PGHOST") or _host_of_sockets(port or "5432")
    host = quote(host, safe="" if host.startswith("/") else "[]:")
    query = urlencode({name: settings["OPTIONS"][name] for name in _PARAMETERS if name in settings["OPTIONS"]})
    return f"postgresql://{user + '@' if user else ''}{host}{':' + port if port else ''}/{quote(settings['NAME'], safe='')}{'?' + query if query else ''}"


@cache
def _host_of_sockets(port: str) -> str:
    """Where Django's driver connects without a HOST: to a socket of this machine. The same for as long as the process lives, also while the server is away."""
    there = [folder for folder in _SOCKETS if os.path.exists(f"{folder}/.s.PGSQL.{port}")]
    return there[0] if there else _SOCKETS[0] if os.path.isdir(_SOCKETS[0]) else "localhost"


def app_of(using: str = "default", *, name: str = "", keys: str | None = None, traces: Traces | None = None) -> App:
    """An app whose store is in a database of Django's, for jobs that are no tasks::

        app = app_of("default")

        @app.job("mail.send")
        def send_mail(to: str) -> None: ...

    In tests that is the test database, also where the app is made when its module is imported. The other parameters are those of :class:`windlass.App`.
    """
    return App(OfDatabase(using, keys), name=name, traces=traces)


class OfDatabase(Connection):
    """The store in a database of Django's, wherever that is by now: Django's test runner and its parallel processes have it be another one."""

    def __init__(self, using: str, keys: str | None) -> None:
        super().__init__("postgresql:", keys)  # until it is asked for: settings may not be there yet
        self._using = using

    @property
    def url(self) -> str:
        """The store's; with its password, so not to be shown."""
        self._follow()
        return super().url

    def native(self) -> _native.Client:
        """The native client; opens the store on first use, and anew where the database is another one."""
        self._follow()
        return super().native()

    async def opened(self) -> _native.Client:
        """The same without blocking the event loop."""
        self._follow()
        return await super().opened()

    async def call(self, op: str, payload: str) -> Any:
        """Does an operation."""
        if not self._is_of_a_test():
            return await super().call(op, payload)
        with self._alone() as native:
            return json.loads(await mailbox().operate(native, op, payload))

    def call_sync(self, op: str, payload: str) -> Any:
        """Does an operation while this thread waits."""
        if not self._is_of_a_test():
            return super().call_sync(op, payload)
        with self._alone() as native:
            return json.loads(native.run(op, payload))

    def _is_of_a_test(self) -> bool:
        self._follow()
        return self._instead is None and self._opened is None and hasattr(mail, "outbox")  # which is there in tests alone

    @contextmanager
    def _alone(self) -> Iterator[_native.Client]:
        """For one call in a test: with a connection that stays the test database could not be removed."""
        native = _native.Client(self.url, self._keys, self._is_test)
        try:
            yield native
        finally:
            native.close()

    def _follow(self) -> None:
        if self._instead is not None:
            return
        url = url_of(self._using)
        if url != self._url:
            self.close()
            self._url = url
