"""SIGINT and SIGTERM, for all workers of an event loop: asyncio itself tells one only."""

from __future__ import annotations

import asyncio
import signal
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_told: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[Callable[[], None]]] = weakref.WeakKeyDictionary()


@contextmanager
def signalled(tell: Callable[[], None]) -> Iterator[None]:
    """Has somebody told of each of these signals meanwhile, besides whoever else is."""
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
