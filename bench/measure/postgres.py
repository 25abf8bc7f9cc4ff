"""The temporary PostgreSQL that the runs share: a fresh database for each, what a run cost it, a snapshot held in it."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from bench.measure import usage


class Postgres:
    def __init__(self, url, data=None, binaries=None):
        self.url, self.data = url, data
        self.psql = shutil.which("psql", path=f"{binaries or ''}:{os.environ.get('PATH', '')}")
        if not self.psql:
            raise FileNotFoundError("psql is not installed: run 'make deps' or install package postgresql-client")

    def sql(self, *statements, database=None):
        command = [self.psql, "-qAtX", "-v", "ON_ERROR_STOP=1", self.at(database)]
        for statement in statements:
            command += ["-c", statement]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise RuntimeError(f"psql: {done.stderr.strip()}")
        return done.stdout.strip()

    def at(self, database=None):
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(path="/" + database)) if database else self.url

    def fresh(self, name):
        """An empty database, and a checkpoint so that no run pays for the pages of the one before."""
        self.sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)', f'CREATE DATABASE "{name}"', "CHECKPOINT")
        return self.at(name)

    def drop(self, name):
        self.sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def version(self):
        return "PostgreSQL " + self.sql("SHOW server_version").split()[0]

    def settings(self):
        names = ("shared_buffers", "max_wal_size", "fsync", "synchronous_commit", "wal_level", "full_page_writes", "autovacuum")
        return {name: self.sql(f"SHOW {name}") for name in names}

    def counters(self, database):
        """WAL position, commits in the database, CPU of the server: subtract two to get a run's cost."""
        quoted = f"SELECT pg_current_wal_insert_lsn() - '0/0', xact_commit FROM pg_stat_database WHERE datname = '{database}'"
        wal, commits = self.sql(quoted).split("|")
        return {"wal_bytes": int(wal), "commits": int(commits), "server_cpu_seconds": self.cpu_seconds()}

    def cpu_seconds(self):
        try:  # another server than that of scripts/with-postgres has no known process
            return usage.tree_cpu_seconds(int((Path(self.data) / "postmaster.pid").read_text().split()[0]))
        except (OSError, TypeError, ValueError):
            return None

    def settled(self, database, seconds=10):
        """Waits until the database's sessions are gone: each reports its commits when it ends."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.sql(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND backend_type = 'client backend'") == "0":
                return
            time.sleep(0.05)


class HeldSnapshot:
    """Another session that holds a snapshot and a transaction id, as a long report or a forgotten console would."""

    def __init__(self, postgres, database):
        self.session = subprocess.Popen(
            [postgres.psql, "-qAtX", "-v", "ON_ERROR_STOP=1", postgres.at(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.session.stdin.write("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id();\n")
        self.session.stdin.flush()
        self.transaction = self.session.stdout.readline().strip()
        if not self.transaction:
            raise RuntimeError("the session that should hold a snapshot ended at once")

    def release(self):
        """True when the session had held on until now."""
        held = self.session.poll() is None
        self.session.stdin.close()
        self.session.wait()
        self.session.stdout.close()
        return held
