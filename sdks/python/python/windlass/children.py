"""Handlers in child processes, the parent's side: for what keeps a processor busy, or may take its process along.

A child is a fresh interpreter that imports the module of the job's function. Between the two go messages of JSON, never pickles; what the
child is told and says is listed in ``_child.py``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection as Channel
from typing import TYPE_CHECKING, Any

from . import _native
from ._telling import logger
from .connection import Connection
from .errors import InvalidOption, WindlassError
from .handler import Ended, failed_elsewhere
from .threads import Runner

if TYPE_CHECKING:
    from .job import Job

LOOK = 0.1  # seconds: how often one looks whether the job should stop
# How many seconds a handler has to end when its job should: less than the engine gives before it takes the job away.
GRACE = {"cancelled": 4.0, "timeout": 4.0}
SHORT_GRACE = 0.4
FAREWELL = 0.3  # for a child that has nothing to do
DEATH = 5.0  # for one that closed its end of the channel
_SIGNALS = frozenset(map(int, signal.Signals))  # those that have names

_BOOT = "import sys, json; sys.path[:] = json.loads(sys.argv[2]); from windlass._child import main; main(int(sys.argv[1]), int(sys.argv[3]))"


def place_of(job: Job[...]) -> tuple[str, str]:
    """Module and name by which a child finds the job's function. Raises where it cannot."""
    function = job.handler.function
    module, name = function.__module__, function.__qualname__
    if job.handler.is_async:
        raise InvalidOption(f"{name} is async, and process=True is for plain functions: an async one runs in the worker's event loop")
    if "<" in name:
        raise InvalidOption(f"process=True needs a function that a child process can import, and {name} is inside another: define it in {module} itself")
    return module, name


def stopped(reason: str) -> Ended:
    """What became of a job whose child was ended since the job should stop."""
    return "retry", None, f"stopped: {reason}"


class Child(Runner):
    """Has a child process run the jobs of a thread; starts another one when it died."""

    def __init__(self, jobs: dict[str, Job[...]], connection: Connection) -> None:
        self._jobs = jobs
        self._connection = connection
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel[Any, Any] | None = None
        self._takes: Channel[Any, Any] | None = None
        """Where the child writes a byte before it begins a job. Nobody waits at it: a message would wake this thread for each job."""

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._channel is not None:
            self._channel.close()  # by which an idle child ends
            try:
                self._process.wait(FAREWELL)
            except subprocess.TimeoutExpired:
                pass
            self._end()

    def run(self, desk: _native.ThreadDesk, job: _native.Job) -> Ended | None:
        return self._run(desk, job, is_last=False)

    def _run(self, desk: _native.ThreadDesk, job: _native.Job, is_last: bool) -> Ended | None:
        try:
            channel = self._started()
            self._send(channel, self._line(job))
            ended = self._wait(channel, desk, job)
            self._took()
            return ended
        except (EOFError, OSError, ValueError) as error:
            is_taken = self._took()
            # At its end of the channel it is dying: the machine may be busy.
            how = self._end(DEATH if isinstance(error, EOFError) else FAREWELL) or str(error)
            if not is_taken and not is_last and not isinstance(error, ValueError):
                # It died while it had nothing to do, of the OOM killer perhaps: that costs the job no attempt.
                logger.warning("job %d (%s): the child process that was to run it %s before it began; another one runs it", job.id, job.kind, how)
                return self._run(desk, job, is_last=True)
            logger.warning("job %d (%s): its child process %s in attempt %d", job.id, job.kind, how, job.attempt)
            return "retry", None, f"the child process that ran the job {how}"

    def _started(self) -> Channel[Any, Any]:
        if self._is_dead():
            logger.info("a child process %s while it had nothing to do; another one takes its place", self._end())
        if self._channel is None:
            ours, theirs = Pipe()
            takes, taken = Pipe(duplex=False)
            os.set_blocking(takes.fileno(), False)
            with theirs, taken:
                path = [place for place in sys.path if isinstance(place, str)]  # others than texts Python leaves out, too
                given = [theirs.fileno(), taken.fileno()]
                args = [str(given[0]), json.dumps(path), str(os.getpid()), str(given[1])]
                # A session of its own: Ctrl-C in a terminal is the worker's affair.
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _BOOT, *args], stdin=subprocess.DEVNULL, pass_fds=given, start_new_session=True
                )
            self._channel, self._takes = ours, takes
        return self._channel

    def _line(self, job: _native.Job) -> dict[str, Any]:
        module, name = place_of(self._jobs[job.kind])
        facts = {fact: getattr(job, fact) for fact in FACTS}
        return {"type": "job", "module": module, "name": name, "store": self._connection.url, "job": facts}

    def _wait(self, channel: Channel[Any, Any], desk: _native.ThreadDesk, job: _native.Job) -> Ended | None:
        """Waits for the end of a job, and stops it when it should stop."""
        reason, until = None, 0.0
        next_look = time.monotonic() + LOOK
        while True:
            if channel.poll(LOOK):
                said = json.loads(channel.recv_bytes())
                if said["type"] == "ended":
                    return self._ended(said, job)
                self._send(channel, self._answer(said, job))
            elif self._is_dead() and not channel.poll():
                raise EOFError  # though what it started, such as a pool of processes, may have the channel open
            now = time.monotonic()  # however much the child says
            if reason is None and now >= next_look:
                next_look = now + LOOK
                reason = desk.reason()
                if reason is not None:
                    self._send(channel, {"type": "cancel", "reason": reason})
                    until = now + GRACE.get(reason, SHORT_GRACE)
            elif reason is not None and now > until:
                self._end()
                return stopped(reason)

    def _took(self) -> bool:
        """Whether the child took a job since this was asked before."""
        try:
            return self._takes is not None and os.read(self._takes.fileno(), 64) != b""
        except BlockingIOError:
            return False

    def _is_dead(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _ended(self, said: dict[str, Any], job: _native.Job) -> Ended | None:
        ended = said["ended"]
        if said["failed"]:
            failed_elsewhere(ended[2], job)
        return None if ended is None else (ended[0], ended[1], ended[2])

    def _answer(self, said: dict[str, Any], job: _native.Job) -> dict[str, Any]:
        """What the child asked for: a value, or an error."""
        try:
            return {"type": "answer", "value": self._do(said, job)}
        except WindlassError as error:
            told = {"code": error.code, "message": str(error), "retryable": error.retryable, "ambiguous": error.ambiguous}
        except Exception as error:  # what it asked for is nonsense
            told = {"code": InvalidOption.code, "message": str(error)}
        return {"type": "answer", "error": told}

    def _do(self, said: dict[str, Any], job: _native.Job) -> str | None:
        kind = said["type"]
        if kind == "progress":
            job.progress(said["percent"], said["note"])
        elif kind == "log":
            job.log(said["text"])
        elif kind == "checkpoint":
            self._connection.native().run_checkpoint(job, said["value"])
        elif kind == "last_checkpoint":
            return self._connection.native().run_checkpoint(job)
        else:
            return self._connection.native().complete_sql(job)
        return None

    def _send(self, channel: Channel[Any, Any], message: dict[str, Any]) -> None:
        channel.send_bytes(json.dumps(message).encode())

    def _end(self, patience: float = FAREWELL) -> str | None:
        """Ends the child, where it has not ended itself. How it ended, in words, if it did."""
        process, ends = self._process, (self._channel, self._takes)
        self._process = self._channel = self._takes = None
        for end in ends:
            if end is not None:
                end.close()
        if process is None:
            return None
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return "was not to be reached and was killed"
        if code >= 0:
            return f"ended with exit code {code}"
        return f"was killed by {signal.Signals(-code).name if -code in _SIGNALS else f'signal {-code}'}"


FACTS = (
    "id", "kind", "queue", "priority", "attempt", "max_attempts", "crash_count", "enqueued_at_ms", "expires_at_ms", "key", "tags", "meta", "args_json",
)  # fmt: skip
"""What a child knows of its job: attributes of ``_native.Job``."""
