"""SIGINT and SIGTERM, for all workers of an event loop: asyncio itself tells one only."""

from __future__ import annotations

import asyncio
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .errors import InvalidOption

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_told: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[Callable[[], None]]] = weakref.WeakKeyDictionary()


@contextmanager
def signalled(tell: Callable[[], None]) -> Iterator[None]:
    """Has somebody told of each of these signals meanwhile, besides whoever else is."""
    if threading.current_thread() is not threading.main_thread():
        raise InvalidOption("signals come to the main thread alone: in another one work by `async with app.worker():`, which leaves them alone")
    loop = asyncio.get_running_loop()
    told = _told.setdefault(loop, [])
    if not told:
        for number in _SIGNALS:
            loop.add_signal_handler(number, _tell, told)
    told.append(tell)
    try:
        yield
    finally:
        told.remove(tell)
        if not told:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


def _tell(told: list[Callable[[], None]]) -> None:
    for tell in list(told):
        tell()
