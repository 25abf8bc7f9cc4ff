"""Windlass's tables in the databases of Django, after ``manage.py migrate`` and where its test runner makes a test database."""

from __future__ import annotations

from django.db import connections

from ..app import App
from ._tasks import task_backends
from .backend import Backend
from .store import url_of


def after_migrate(using: str, verbosity: int) -> None:
    """Makes them, or brings them up to date, where a backend uses this database."""
    backends = (task_backends[alias] for alias in task_backends)
    if connections[using].vendor != "postgresql" or not any(_wants(on, using) for on in backends):
        return
    app = App(url_of(using))
    try:
        before, after = app.sync.migrate()
    finally:
        app.close()
    if verbosity >= 1 and before != after:
        print(f"  Windlass: the schema of {using!r} is version {after}, and was {before}")


def _wants(backend: object, using: str) -> bool:
    return isinstance(backend, Backend) and backend.using == using and bool(backend.options.get("migrate", True))
