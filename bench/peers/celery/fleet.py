"""The worker processes of a run, started by Celery's own command line."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tasks import app

LIGHT = ["--without-gossip", "--without-mingle", "--without-heartbeat"]


def options(settings) -> list[str]:
    """What a worker process gets on its command line; none without tuning. The pools are winners of a sweep."""
    if settings.command == "work":
        return ["--pool", "threads", "--concurrency", str(settings.concurrency), *LIGHT]
    if not settings.tuned:
        return []
    if settings.processes > 1:
        return ["--pool", "solo", *LIGHT]
    return ["--pool", "prefork", "--concurrency", "2", *LIGHT]


class Fleet:
    """The workers get ready on an empty queue; go lets them consume the jobs' queue too."""

    def __init__(self, settings, folder: str, size: int):
        here = Path(__file__).parent
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(here), str(here.parent / "measuring")]),
            "PEER_FOLDER": folder,
            "PEER_SIZE": str(size),
            "PEER_TIMES": str(int(settings.command == "latency")),
            "PEER_TUNED": str(settings.tuned),
            "PEER_SLEEP_SECONDS": str(settings.sleep_ms / 1000),
        }
        self.processes = []
        for index in range(settings.processes):
            command = [sys.executable, "-m", "celery", "--quiet", "--app", "tasks", "worker", "--loglevel", "ERROR"]
            command += ["--queues", "idle", "--hostname", f"worker{index}@localhost", *options(settings)]
            self.processes.append(subprocess.Popen(command, env=environment, cwd=folder, stdout=sys.stderr))
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while len(app.control.ping(timeout=0.5)) < len(self.processes):
            if time.monotonic() > deadline or any(process.poll() is not None for process in self.processes):
                self.kill()
                raise SystemExit("a worker process did not get ready, see above")

    def go(self) -> None:
        app.control.add_consumer("celery")

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            if process.wait(timeout=60):
                raise SystemExit(f"a worker process ended with status {process.returncode}")

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
