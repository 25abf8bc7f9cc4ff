"""Temporary Redis servers, one for each durability, spoken to without a client library."""

import shutil
import socket
import subprocess
import tempfile
import time

from bench.measure import usage

APPENDFSYNC = {"redis-everysec": "everysec", "redis-always": "always"}


class Redis:
    def __init__(self, server):
        binary = shutil.which("redis-server")
        if not binary:
            raise FileNotFoundError("redis-server is not installed (Debian: apt-get install redis-server)")
        self.port, self.folder = free_port(), tempfile.mkdtemp(prefix="bench-redis-")
        command = [binary, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", self.folder, "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", APPENDFSYNC[server], "--maxmemory-policy", "noeviction"]
        # A session of its own: Ctrl-C reaches us first, and we stop it.
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        try:
            self.wait()
        except BaseException:
            self.stop()
            raise

    def wait(self):
        for _ in range(200):
            try:
                if self.command("PING") == "+PONG":
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"redis-server does not answer on port {self.port}")

    def command(self, line):
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(line.encode() + b"\r\n")
            return connection.makefile().readline().strip()

    def fresh(self):
        answer = self.command("FLUSHALL SYNC")
        if answer != "+OK":
            raise RuntimeError(f"redis FLUSHALL answered {answer}")
        return self.url

    def version(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(b"INFO server\r\n")
            for line in connection.makefile():
                if line.startswith("redis_version:"):
                    return "Redis " + line.split(":")[1].strip()
        return "Redis"

    def counters(self):
        return {"server_cpu_seconds": usage.tree_cpu_seconds(self.process.pid)}

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
