"""Processes that handlers fork. One that comes back from its handler ends here: the event loop, the threads and the channel that it has copies of are its parent's."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from ._shown import traced
from ._telling import logger


_forks = 0


def forks() -> int:
    """How many forks lie between this process and the first: another number than before says that this is a fork, without the system call, which is a tenth
    of all that is done for a job of nothing."""
    return _forks


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


def end_in_fork(process: int, error: BaseException | None = None) -> None:
    """Ends the process where it is a fork of that one, with the exit code that it asked for by ``sys.exit``."""
    if os.getpid() != process:
        _end(error)


def _end(error: BaseException | None) -> NoReturn:
    code = 1
    try:
        code = _told(error)
    finally:  # also where there is no stderr to tell it
        os._exit(code)


def _told(error: BaseException | None) -> int:
    """Tells why it ends, and gives its exit code."""
    code = 1
    if isinstance(error, SystemExit):
        code = _code_of(error)
    elif error is not None:
        print(traced(error), end="", file=sys.stderr)
    else:
        logger.error("process %d was forked by a handler and came back from it, so it ends: only its parent works jobs. End such a process by os._exit()", os.getpid())
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # it is closed, or there is none
            pass
    return code


def _code_of(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)
    return 1
