"""A child process that runs jobs: the other side of ``children.py``.

It is told ``job`` (one at a time), ``cancel`` with a reason, and ``answer`` to what it asked. It says ``ended`` with what became of the job,
and asks with ``progress``, ``log``, ``checkpoint``, ``last_checkpoint`` and ``complete_sql``. When the channel closes it ends.

Before it begins a job it writes a byte into a pipe: what dies before that, and not by its job, costs the job no attempt.
"""

from __future__ import annotations

import contextvars
import importlib
import json
import os
import queue
import signal
import sys
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
from .errors import LeaseLost, WindlassError, error_of
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
    os.set_inheritable(descriptor, False)  # programs that a handler starts would keep the channel open after this process
    channel: Channel[Any, Any] = Channel(descriptor)
    os.register_at_fork(after_in_child=channel.close)
    # None of a parent of the version before, whose package was replaced while it ran.
    taken = int(sys.argv[4]) if len(sys.argv) > 4 else None
    if taken is not None:
        os.set_inheritable(taken, False)
    Desk(channel, taken).work()


class Desk:
    """Where jobs come in and their ends go out. The parent takes what is said to be of the job that runs."""

    def __init__(self, channel: Channel[Any, Any], taken: int | None) -> None:
        self._channel = channel
        self._taken = taken
        self._jobs: queue.SimpleQueue[Turn | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._saying = threading.Lock()
        self._turn: Turn | None = None
        self._process = os.getpid()

    def work(self) -> None:
        """Runs one job after the other."""
        threading.Thread(target=self._listen, name="windlass-parent", daemon=True).start()
        while (turn := self._jobs.get()) is not None:
            if self._taken is not None:
                os.write(self._taken, b"1")
            ended, failed = contextvars.Context().run(self._run, turn)
            with self._saying:
                turn.is_over = True
                self._say({"type": "ended", "ended": ended, "failed": failed})

    def ask(self, turn: Turn, kind: str, **more: Any) -> Any:
        """Asks the parent for something. Raises where the job has ended: threads that it left behind speak of it, not of the next one."""
        with self._asking:
            with self._saying:
                if turn.is_over:
                    raise LeaseLost(f"job {turn.told['job']['id']} has ended, and what is said of it comes too late")
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
                    self._turn = Turn(told)
                    self._jobs.put(self._turn)
                elif told["type"] == "cancel":
                    assert self._turn is not None
                    self._turn.reason = told["reason"]
                else:
                    self._answers.put(told)
        except (EOFError, OSError):
            if self._turn is not None and not self._turn.is_over:
                os._exit(1)  # nobody waits for the handler any more
            self._jobs.put(None)

    def _run(self, turn: Turn) -> tuple[Ended | None, bool]:
        try:
            told = turn.told
            job = find(told["module"], told["name"], told["job"]["kind"])
            if job._connection.url != told["store"]:  # a test's
                job._connection._lend(Connection(told["store"], job._connection._keys))
            of: Any = ChildJob(self, turn)
            context = ChildContext(of, job._connection, self, turn)
            _current.set(context)
            with fresh_connections():
                value = job.handler.call(of, context)
            end_in_fork(self._process)
            return returned(value, job.kind), False
        except BaseException as error:  # also SystemExit: it ends the job, not the child
            end_in_fork(self._process, error)
            return failure(error), not isinstance(error, Outcome)


class Turn:
    """One attempt of a job in this process, until its handler has ended."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.reason: str | None = None
        self.is_over = False


class ChildJob(SimpleNamespace):
    """One attempt of a job, as ``_native.Job`` is."""

    def __init__(self, desk: Desk, turn: Turn) -> None:
        super().__init__(**turn.told["job"])
        self._desk, self._turn = desk, turn

    @property
    def args(self) -> Any:
        return _native.parse(self.args_json)

    def progress(self, percent: float, note: str | None = None) -> None:
        self._desk.ask(self._turn, "progress", percent=percent, note=note)

    def log(self, line: str) -> None:
        self._desk.ask(self._turn, "log", text=line)


class ChildContext(Context):
    """The context of a job in a child: what is the store's goes through the parent."""

    __slots__ = ("_desk", "_turn")

    def __init__(self, job: Any, connection: Connection, desk: Desk, turn: Turn) -> None:
        super().__init__(job, connection, lambda _: turn.reason)
        self._desk, self._turn = desk, turn

    async def checkpoint(self, value: Any) -> None:
        self.checkpoint_sync(value)

    def checkpoint_sync(self, value: Any) -> None:
        self._desk.ask(self._turn, "checkpoint", value=encode(value))

    async def last_checkpoint(self) -> Any:
        return self.last_checkpoint_sync()

    def last_checkpoint_sync(self) -> Any:
        return json.loads(self._desk.ask(self._turn, "last_checkpoint"))

    def _complete_sql(self) -> Statement:
        statement: Statement = json.loads(self._desk.ask(self._turn, "complete_sql"))
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
