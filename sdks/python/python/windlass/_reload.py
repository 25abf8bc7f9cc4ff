"""``windlass worker --reload``: the worker as a child process, and a new one whenever a Python file has changed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.util import cache_from_source
from pathlib import Path

LOOK = 0.5  # seconds between two looks at the files
_OF_OTHERS = ("node_modules", "__pycache__")


def run(command: list[str], folder: Path) -> int:
    """Works until it is told to stop, and gives the exit code of the last child."""
    return _Reloader(command, folder).run()


class _Reloader:
    """The parent of the workers. It stops with its worker, never before it."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command = command
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None
        self._unsent = 0
        self._is_stopping = False

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                signal.signal(number, lambda *_: self._signalled())
        while True:
            before = seen(self._folder)
            child = self._begin()
            while not self._is_stopping and (after := seen(self._folder)) == before:
                time.sleep(LOOK)
            if not self._is_stopping:
                print("windlass: files have changed, the worker starts anew", file=sys.stderr)
                child.terminate()
            code, self._child = child.wait(), None  # so that what comes before the next one begins is kept for it
            if self._is_stopping:
                return code if code >= 0 else 128 - code  # as shells say it
            forget_compiled(file for file, at in after.items() if before.get(file) != at)

    def _begin(self) -> subprocess.Popen[bytes]:
        # In a session of its own: of Ctrl-C in a terminal it hears once, from here, as of what only this process is sent.
        self._child = child = subprocess.Popen(self._command, start_new_session=True)
        self._pass_on()
        return child

    def _signalled(self) -> None:
        self._is_stopping = True
        self._unsent += 1
        self._pass_on()

    def _pass_on(self) -> None:
        while self._child is not None and self._unsent > 0:
            self._unsent -= 1
            self._child.terminate()


def forget_compiled(files: Iterable[str]) -> None:
    """Removes what Python compiled of these files. It knows an edit by the second and the size alone: a second one within a second, as long, was not run."""
    for file in files:
        try:
            os.unlink(cache_from_source(file))
        except (OSError, NotImplementedError):  # there is none
            continue


def seen(folder: Path) -> dict[str, int]:
    """The Python files below a folder, each with when it was changed."""
    return dict(_files(str(folder)))


def _files(folder: str) -> Iterator[tuple[str, int]]:
    for path, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _is_of_the_program(path, name)]
        for name in files:
            if name.endswith(".py") and not name.startswith("."):
                file = os.path.join(path, name)
                try:
                    yield file, os.stat(file).st_mtime_ns
                except OSError:  # an editor, or a checkout, has just taken it away
                    continue


def _is_of_the_program(path: str, name: str) -> bool:
    """Whether a folder may have files of the program: not what an environment, a package manager or a tool keeps there."""
    return not (name.startswith(".") or name in _OF_OTHERS or os.path.exists(os.path.join(path, name, "pyvenv.cfg")))
