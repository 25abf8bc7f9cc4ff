"""What the engine says of itself, in the logger ``windlass.engine``: nothing is made of what its level leaves out."""

from __future__ import annotations

import atexit
import logging
import os
import threading

from . import _native
from ._greenlets import patched_by
from ._telling import Teller

logger: Teller = Teller(logging.getLogger("windlass.engine"))

_MARK = 0  # the level of a line that says: all before it is logged
_PATIENCE = 10.0  # seconds, at the end of the process

_thread: threading.Thread | None = None
_starting = threading.Lock()
_marked = threading.Event()


def listen() -> None:
    """Listens from the logger's level on, as it is now: called when a store is opened and when a worker starts."""
    global _thread
    if patched_by() or not _native.listen(min(logger.logger.getEffectiveLevel(), 255)):
        return
    with _starting:
        if _thread is None or not _thread.is_alive():  # a fork has none
            _thread = threading.Thread(target=_pass_on, name="windlass-logs", daemon=True)
            _thread.start()


def _pass_on() -> None:
    while True:
        lines, lost = _native.logged()
        for level, target, text in lines:
            if level == _MARK:
                _marked.set()
            else:
                logger.log(level, "%s: %s", target, text)
        if lost:
            logger.warning("%d lines of the engine are lost: they came faster than they were logged", lost)
        if not lines:
            return


def _forked() -> None:
    global _starting
    _starting = threading.Lock()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _at_exit() -> None:
    if _thread is not None and _thread.is_alive() and _native.mark_logs():
        _marked.wait(_PATIENCE)
