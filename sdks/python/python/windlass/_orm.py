"""Django's connections in the threads of handlers. Django looks after those of requests; here nobody else would."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def fresh_connections() -> Iterator[None]:
    """Has a handler find no connection that died or is too old since this thread's last job, and leave none."""
    close_old()
    try:
        yield
    finally:
        close_old()


def close_old() -> None:
    """The same before and after each job of a thread, without the cost of a context manager: half of all that is done for a job of nothing."""
    # Of a program that does not use Django nothing is imported; before its settings are read it has no connections.
    database: Any = sys.modules.get("django.db")
    if database is None:
        return
    close = getattr(database, "close_old_connections", None)  # not there yet while another thread imports it
    if close is not None and sys.modules["django.conf"].settings.configured:
        close()
