"""The store of a backend: the database of a Django connection, or one by its URL."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from django.core.exceptions import ImproperlyConfigured
from django.db import connections

# What both libpq and Windlass know; the rest of a connection's options is Django's own.
_PARAMETERS = ("sslmode", "sslrootcert", "application_name", "connect_timeout")


def url_of(using: str) -> str:
    """The store's URL of the database that a Django connection is for."""
    connection = connections[using]
    if connection.vendor != "postgresql":
        raise ImproperlyConfigured(
            f"the database {using!r} is {connection.vendor}, whose transactions Windlass cannot join: give the backend a store of its own, "
            "as in OPTIONS={'store': 'sqlite:jobs.db'}"
        )
    settings: dict[str, Any] = connection.settings_dict
    if not settings["NAME"]:
        raise ImproperlyConfigured(f"the database {using!r} has no NAME: give the backend OPTIONS={{'store': 'postgres://...'}}")
    user = quote(settings["USER"], safe="")
    if settings["PASSWORD"]:
        user += ":" + quote(settings["PASSWORD"], safe="")
    host = quote(settings["HOST"] or "localhost", safe="[]:")
    if settings["HOST"].startswith("/"):
        host = quote(settings["HOST"], safe="")
    port = f":{settings['PORT']}" if settings["PORT"] else ""
    query = urlencode({name: settings["OPTIONS"][name] for name in _PARAMETERS if name in settings["OPTIONS"]})
    return f"postgresql://{user + '@' if user else ''}{host}{port}/{quote(settings['NAME'], safe='')}{'?' + query if query else ''}"
