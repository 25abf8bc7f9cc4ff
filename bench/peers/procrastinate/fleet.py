"""The worker processes of a run."""

import os
import signal
import subprocess
import sys


class Fleet:
    def __init__(self, settings, folder: str, size: int):
        command = [sys.executable, __file__.replace("fleet.py", "main.py"), "worker", settings.command, folder, str(size)]
        start = lambda: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes = [start() for _ in range(settings.processes)]
        for process in self.processes:
            if process.stdout.readline() != "ready\n":
                self.kill()
                raise SystemExit("a worker process did not get ready, see above")

    def go(self) -> None:
        for process in self.processes:
            process.stdin.write("go\n")
            process.stdin.flush()

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            if process.wait(timeout=60):
                raise SystemExit(f"a worker process ended with status {process.returncode}")

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
