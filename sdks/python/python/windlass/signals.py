"""SIGINT and SIGTERM, for all workers of an event loop: asyncio itself tells one only."""

from __future__ import annotations

import asyncio
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .errors import InvalidOption

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_told: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[Callable[[], None]]] = weakref.WeakKeyDictionary()
_before: dict[signal.Signals, Any] = {}  # what the program had for them


@contextmanager
def signalled(tell: Callable[[], None]) -> Iterator[None]:
    """Has somebody told of each of these signals meanwhile, besides whoever else is."""
    if threading.current_thread() is not threading.main_thread():
        raise InvalidOption("signals come to the main thread alone: in another one work by `async with app.worker():`, which leaves them alone")
    loop = asyncio.get_running_loop()
    told = _told.setdefault(loop, [])
    if not told:
        for number in _SIGNALS:
            _before[number] = signal.getsignal(number)
            loop.add_signal_handler(number, _tell, told)
    told.append(tell)
    try:
        yield
    finally:
        told.remove(tell)
        if not told:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
                _put_back(number, _before.pop(number))


def _put_back(number: signal.Signals, before: Any) -> None:
    if before is None or str(getattr(before, "__module__", "")).startswith(("asyncio", "uvloop")):
        return  # one that Python does not know, or that of an event loop, which calls nothing any more
    signal.signal(number, before)


def _tell(told: list[Callable[[], None]]) -> None:
    for tell in list(told):
        tell()
