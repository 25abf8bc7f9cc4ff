"""Jobs that child processes run, for test_children.py. Children import this module anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from windlass import App, Cancel, Complete, Context, Discard, Retry, Snooze
from windlass.errors import WindlassError

app = App("sqlite:never-opened.db")
LONG = 60


@app.job("child.facts", process=True, tags=["x"], key="acme", meta={"who": "me"}, max_attempts=7)
def facts(ctx: Context, n: Any) -> Any:
    assert Context.current() is ctx
    known = (ctx.kind, ctx.queue, ctx.attempt, ctx.max_attempts, ctx.tags, ctx.key, ctx.meta, ctx.cancelled)
    return {"pid": os.getpid(), "n": n, "known": known, "args": ctx.args_json, "age": time.time() - ctx.enqueued_at.timestamp()}


@app.job("child.steps", process=True)
def steps(ctx: Context) -> Any:
    before = ctx.last_checkpoint_sync()
    ctx.progress(50, "half")
    ctx.log(f"attempt {ctx.attempt}")
    if before is None:
        ctx.checkpoint_sync({"step": 1})
        raise Retry("again", after=0)
    try:
        ctx.progress(1000)
    except ValueError as error:
        return [before, type(error).__name__]
    return None


@app.job("child.say", process=True)
def say(how: str, raises: bool) -> Any:
    outcome = {"cancel": Cancel("no"), "discard": Discard("never"), "retry": Retry("later", after="1h"), "snooze": Snooze("1h")}[how]
    if raises:
        raise outcome
    return outcome


@app.job("child.fail", process=True, max_attempts=2)
def fail(how: str) -> Any:
    if how == "exit":
        raise SystemExit(3)
    if how == "vanish":
        os._exit(7)
    if how == "json":
        return object()
    if how == "signal":
        os.kill(os.getpid(), signal.SIGRTMIN + 1)  # which has no name
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "odd":
        raise SyntaxError("bad template", ("t.html", 1, "7", "{{ x"))  # type: ignore[arg-type]
    raise RuntimeError("outer") from ValueError("inner")


@app.job("child.leave", process=True)
def leave(ctx: Context, n: int) -> object:
    """The first leaves a thread behind, which speaks of its job while the second runs, and of what became of that."""
    if n == 1:
        _left.append(threading.Thread(target=_speak, args=[ctx]))
        return None
    _left[0].start()
    _left[0].join()
    return [_told, ctx.last_checkpoint_sync()]


_left: list[threading.Thread] = []
_told: list[str] = []


def _speak(ctx: Context) -> None:
    for say in (lambda: ctx.log("late"), lambda: ctx.progress(77), lambda: ctx.checkpoint_sync("late"), lambda: ctx._complete_sql()):
        try:
            say()
            _told.append("accepted")
        except Exception as error:
            _told.append(type(error).__name__)


@app.job("child.chatter", process=True, max_attempts=1)
def chatter(ctx: Context) -> int:
    """Logs from a thread while it ends, with more than a channel takes at once."""
    began = threading.Event()

    def log() -> None:
        while True:
            try:
                ctx.log("y" * 4_000)
            except WindlassError:
                return
            began.set()

    threading.Thread(target=log, daemon=True).start()
    began.wait(LONG)
    raise Complete("r" * 900_000)


@app.job("child.open", process=True, max_attempts=2)
def stay_open(folder: str) -> None:
    """Dies while a process that it started lives on, with all that it had open but what Python closes."""
    other = os.fork()
    if other == 0:
        time.sleep(LONG)
        os._exit(0)
    with subprocess.Popen(["sleep", str(LONG)], close_fds=False) as sleeper:
        Path(folder, "new").write_text(f"{other} {sleeper.pid}")
        Path(folder, "new").rename(Path(folder, "others"))
        os.kill(os.getpid(), signal.SIGKILL)


@app.job("child.count", process=True)
def count(n: int) -> int:
    return n


@app.job("child.begin", process=True)
def begin(folder: str, looks: bool) -> str | None:
    """Says that it began, with its process, and goes on until it is told to stop, if it looks."""
    ctx = Context.current()
    new = Path(folder, f"new-{ctx.attempt}")
    new.write_text(str(os.getpid()))
    new.rename(Path(folder, f"began-{ctx.attempt}"))
    until = time.monotonic() + LONG
    while time.monotonic() < until and not (looks and ctx.cancelled) and ctx.attempt == 1:
        pass  # keeps a processor busy
    if looks:
        raise Cancel(f"told: {ctx.cancelled}")
    return "the second attempt"


@app.job("child.talk", process=True)
def talk(folder: str, looks: bool) -> None:
    """Says something all the time, and ends when it is told to stop, if it looks."""
    ctx = Context.current()
    Path(folder, f"talks-{ctx.attempt}").touch()
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        ctx.progress(1)
        time.sleep(0.005)
        if looks and ctx.cancelled:
            raise Cancel(f"told: {ctx.cancelled}")


@app.job("child.enqueue", process=True)
def enqueue(n: int) -> int:
    return add.enqueue_sync(n=n, to=1)


@app.job("add")
def add(n: int, to: int) -> int:
    return n + to


@app.job("child.signals", process=True)
def signals() -> int:
    """Signals for the whole group are the worker's affair; programs that a handler starts get them as ever."""
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    program = "import signal; print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)"
    return int(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "True\n")


@app.job("child.every", process=True, expires_in="1h")
def every(ctx: Context) -> dict[str, str]:
    """All that a context says of itself."""
    return {name: str(getattr(ctx, name)) for name, member in vars(Context).items() if isinstance(member, property)}
