"""Runs one adapter once: a session of its own, a hard time limit, its memory sampled, its last line read."""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field

from bench.measure import usage
from bench.measure.systems import CANNOT, last_line

POLL = 0.02
SAMPLE = 0.25  # seconds between looks at the memory; one look costs about two milliseconds


@dataclass
class Outcome:
    status: str  # ok, failed, cannot
    reason: str = ""
    answer: dict = field(default_factory=dict)  # version, settings, figures
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    wall_seconds: float = 0.0


def run(command, folder, environment, log, timeout, watch=lambda seconds: None):
    """Runs it to its end. `watch` is called again and again with the seconds since the start."""
    out, err = log.with_suffix(".out"), log.with_suffix(".err")
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        try:
            child = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
            )
        except OSError as error:
            return Outcome("failed", f"cannot be run: {error}")
    start, peak, sampled = time.monotonic(), 0, -SAMPLE
    try:
        while True:
            pid, status, used = os.wait4(child.pid, os.WNOHANG)
            seconds = time.monotonic() - start
            if pid:
                break
            if seconds - sampled >= SAMPLE:
                sampled, peak = seconds, max(peak, usage.session_memory_bytes(child.pid))
            if seconds > timeout:
                end(child)
                return Outcome("failed", f"took longer than {timeout:.0f} s: {last_line(err)}", wall_seconds=seconds, peak_memory_bytes=peak)
            watch(seconds)
            time.sleep(POLL)
    finally:
        kill(child.pid, signal.SIGKILL)  # what it left behind, or itself when we were interrupted
    child.returncode = os.waitstatus_to_exitcode(status)
    outcome = judge(child.returncode, out, err)
    outcome.cpu_seconds, outcome.wall_seconds = used.ru_utime + used.ru_stime, seconds
    outcome.peak_memory_bytes = max(peak, used.ru_maxrss * 1024)
    return outcome


def judge(code, out, err):
    if code == CANNOT:
        return Outcome("cannot", last_line(err))
    if code != 0:
        return Outcome("failed", f"exit code {code}: {last_line(err)} (logs/{err.name})")
    try:
        answer = json.loads(last_line_whole(out))
        figures = answer["figures"]
        if not isinstance(figures, dict):
            raise TypeError(f"figures is no object: {figures!r}")
    except (ValueError, KeyError, TypeError) as error:
        return Outcome("failed", f"the last line of its stdout is not the JSON of the contract: {error!r} (logs/{out.name})")
    return Outcome("ok", answer=answer)


def last_line_whole(path):
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def kill(session, sign):
    try:
        os.killpg(session, sign)
    except ProcessLookupError:
        pass


def end(child):
    """Asks, waits five seconds, then kills."""
    kill(child.pid, signal.SIGTERM)
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        kill(child.pid, signal.SIGKILL)
        child.wait()
