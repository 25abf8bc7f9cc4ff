"""A child process that runs jobs: the other side of ``children.py``.

It is told ``job`` (one at a time), ``cancel`` with a reason, and ``answer`` to what it asked. It says ``ended`` with what became of the job,
and asks with ``progress``, ``log``, ``checkpoint``, ``last_checkpoint`` and ``complete_sql``. When the channel closes it ends.
"""

from __future__ import annotations

import contextvars
import importlib
import json
import os
import queue
import signal
import threading
from multiprocessing.connection import Connection as Channel
from types import SimpleNamespace
from typing import Any

from . import _native
from ._forks import end_in_fork
from ._orm import fresh_connections
from .args import encode
from .connection import Connection
from .context import Context, _current
from .drivers import Statement
from .errors import WindlassError, error_of
from .handler import Ended, failure, returned
from .job import Job
from .outcome import Outcome


def main(descriptor: int, parent: int) -> None:
    """Works until the channel is closed."""
    _native.die_with_parent()
    if os.getppid() != parent:
        return  # it is gone already
    for number in (signal.SIGINT, signal.SIGTERM):  # of whoever stops the whole group; ends come through the channel
        signal.signal(number, lambda *_: None)
    Desk(Channel(descriptor)).work()


class Desk:
    """Where jobs come in and their ends go out."""

    def __init__(self, channel: Channel[Any, Any]) -> None:
        self._channel = channel
        self._jobs: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._is_busy = False
        self._process = os.getpid()
        self.reason: str | None = None

    def work(self) -> None:
        """Runs one job after the other."""
        threading.Thread(target=self._listen, name="windlass-parent", daemon=True).start()
        while (told := self._jobs.get()) is not None:
            self.reason = None
            ended, failed = contextvars.Context().run(self._run, told)
            self._is_busy = False
            self._say({"type": "ended", "ended": ended, "failed": failed})

    def ask(self, kind: str, **more: Any) -> Any:
        """Asks the parent for something."""
        with self._asking:
            self._say({"type": kind, **more})
            answer = self._answers.get()
        if "error" in answer:
            error = answer["error"]
            raise error_of(error.pop("code"), error.pop("message"), **error)
        return answer["value"]

    def _say(self, message: dict[str, Any]) -> None:
        # Whatever an error says, also what is no text, such as halves of surrogate pairs.
        self._channel.send_bytes(json.dumps(message).encode())

    def _listen(self) -> None:
        try:
            while True:
                told = json.loads(self._channel.recv_bytes())
                if told["type"] == "job":
                    self._is_busy = True
                    self._jobs.put(told)
                elif told["type"] == "cancel":
                    self.reason = told["reason"]
                else:
                    self._answers.put(told)
        except (EOFError, OSError):
            if self._is_busy:
                os._exit(1)  # nobody waits for the handler any more
            self._jobs.put(None)

    def _run(self, told: dict[str, Any]) -> tuple[Ended | None, bool]:
        try:
            job = find(told["module"], told["name"], told["job"]["kind"])
            if job._connection.url != told["store"]:  # a test's
                job._connection._lend(Connection(told["store"]))
            of: Any = ChildJob(self, told["job"])
            context = ChildContext(of, job._connection, self)
            _current.set(context)
            with fresh_connections():
                value = job.handler.call(of, context)
            end_in_fork(self._process)
            return returned(value, job.kind), False
        except BaseException as error:  # also SystemExit: it ends the job, not the child
            end_in_fork(self._process, error)
            return failure(error), not isinstance(error, Outcome)


class ChildJob(SimpleNamespace):
    """One attempt of a job, as ``_native.Job`` is."""

    def __init__(self, desk: Desk, facts: dict[str, Any]) -> None:
        super().__init__(**facts)
        self._desk = desk

    @property
    def args(self) -> Any:
        return _native.parse(self.args_json)

    def progress(self, percent: float, note: str | None = None) -> None:
        self._desk.ask("progress", percent=percent, note=note)

    def log(self, line: str) -> None:
        self._desk.ask("log", text=line)


class ChildContext(Context):
    """The context of a job in a child: what is the store's goes through the parent."""

    __slots__ = ("_desk",)

    def __init__(self, job: Any, connection: Connection, desk: Desk) -> None:
        super().__init__(job, connection, lambda _: desk.reason)
        self._desk = desk

    async def checkpoint(self, value: Any) -> None:
        self.checkpoint_sync(value)

    def checkpoint_sync(self, value: Any) -> None:
        self._desk.ask("checkpoint", value=encode(value))

    async def last_checkpoint(self) -> Any:
        return self.last_checkpoint_sync()

    def last_checkpoint_sync(self) -> Any:
        return json.loads(self._desk.ask("last_checkpoint"))

    def _complete_sql(self) -> Statement:
        statement: Statement = json.loads(self._desk.ask("complete_sql"))
        return statement


def find(module: str, name: str, kind: str) -> Job[...]:
    """The job of a function."""
    found: Any = importlib.import_module(module)
    here = list(vars(found).values())
    for part in name.split("."):
        found = getattr(found, part, None)
    for job in [found, *here]:
        if isinstance(job, Job) and job.kind == kind:
            return job
    raise WindlassError(f"a child process finds no job {kind!r} in {module}: let @app.job decorate {name} there")
