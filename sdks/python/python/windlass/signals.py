"""SIGINT and SIGTERM, for all workers of an event loop: asyncio itself tells one only, and none while the loop stands still."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .errors import InvalidOption

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 1.0  # seconds for a loop to tell of a signal, before another one ends the process
_before: dict[signal.Signals, Any] = {}  # what the program had for them


class _Told:
    """Whoever is told of the signals that come while a loop runs."""

    def __init__(self) -> None:
        self.by_loop: list[Callable[[], None]] = []
        self.at_once: list[Callable[[], None]] = []
        self._unheard: list[float] = []  # when those came that the loop has not told of yet
        self._process = os.getpid()

    def tell(self) -> None:
        """In the loop, as what asyncio calls for a signal."""
        self._unheard.clear()
        for tell in list(self.by_loop):
            tell()

    def interrupt(self, number: int, _: object) -> None:
        """In the midst of whatever the main thread does, a handler that keeps the loop standing still perhaps."""
        if os.getpid() != self._process or self._is_in_vain():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._unheard.append(time.monotonic())
        for tell in list(self.at_once):
            tell()

    def _is_in_vain(self) -> bool:
        """Whether two came already, and the loop will not tell of them: a third one is to end the process."""
        return len(self._unheard) >= 2 and time.monotonic() - self._unheard[1] > _PATIENCE


_told: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Told] = weakref.WeakKeyDictionary()


@contextmanager
def signalled(tell: Callable[[], None], at_once: Callable[[], None]) -> Iterator[None]:
    """Has somebody told of each of these signals meanwhile, besides whoever else is.

    :param at_once: Is called also while the loop stands still, before ``tell``. It may do what is done between any two steps of a program.
    """
    if threading.current_thread() is not threading.main_thread():
        raise InvalidOption("signals come to the main thread alone: in another one work by `async with app.worker():`, which leaves them alone")
    loop = asyncio.get_running_loop()
    told = _told.setdefault(loop, _Told())
    if not told.by_loop:
        for number in _SIGNALS:
            _before[number] = signal.getsignal(number)
            loop.add_signal_handler(number, told.tell)
            signal.signal(number, told.interrupt)  # the loop goes on to hear of them by its descriptor
    told.by_loop.append(tell)
    told.at_once.append(at_once)
    try:
        yield
    finally:
        told.by_loop.remove(tell)
        told.at_once.remove(at_once)
        if not told.by_loop:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
                _put_back(number, _before.pop(number))


def _forked() -> None:
    """The descriptor by which a loop hears of signals is the parent's, too: one for a fork would stop the workers there."""
    if any(told.by_loop for told in _told.values()):
        with suppress(ValueError):  # this is not the main thread, as it is of whoever forks in Python
            signal.set_wakeup_fd(-1)


os.register_at_fork(after_in_child=_forked)


def _put_back(number: signal.Signals, before: Any) -> None:
    if before is None or str(getattr(before, "__module__", "")).startswith(("asyncio", "uvloop")):
        return  # one that Python does not know, or that of an event loop, which calls nothing any more
    signal.signal(number, before)
