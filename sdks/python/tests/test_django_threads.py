"""Jobs of an app that use Django's ORM in threads and child processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from programs import with_jobs

LONG = 60

JOBS = """
    import django
    from django.conf import settings
    from windlass import App

    if not settings.configured:
        settings.configure(DATABASES={"default": OF_THE_TEST}, USE_TZ=True)
        django.setup()

    from django.db import connection

    app = App("sqlite:jobs.db")

    def ask() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return cursor.fetchone()[0]

    @app.job("thread", max_attempts=1)
    def in_thread() -> int:
        return ask()

    @app.job("child", max_attempts=1, process=True)
    def in_child() -> int:
        return ask()
"""

PROGRAM = """
import asyncio, sys
import jobs

async def main():
    job = jobs.app.jobs[sys.argv[1]]
    async with jobs.app.worker(threads=1, processes=1):
        for _ in range(3):
            done = await jobs.app.client.wait(await job.enqueue(), "60s")
            print(done.state, flush=True)
            sys.stdin.readline()  # meanwhile the server ends all connections

asyncio.run(main())
"""
END_ALL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@pytest.mark.parametrize("kind", ["thread", "child"])
def test_a_job_finds_no_connection_that_died(tmp_path: Path, bare: str, kind: str) -> None:
    parts = psycopg.conninfo.conninfo_to_dict(bare)
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": parts["dbname"], "USER": parts["user"], "HOST": parts["host"], "PORT": parts["port"]}
    folder = with_jobs(tmp_path, JOBS.replace("OF_THE_TEST", repr(database)))
    (folder / "program.py").write_text(PROGRAM)
    program = subprocess.Popen(
        [sys.executable, "program.py", kind], cwd=folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdin is not None and program.stdout is not None
    said = []
    with psycopg.connect(bare, autocommit=True) as server:
        for _ in range(3):
            said.append(program.stdout.readline())
            server.execute(END_ALL)
            program.stdin.write("\n")
            program.stdin.flush()
    _, err = program.communicate(timeout=LONG)
    assert (said, program.returncode) == (["completed\n"] * 3, 0), err


def test_django_that_has_no_settings_is_left_alone(tmp_path: Path) -> None:
    """As where a library imports it and nobody uses it."""
    program = """
import asyncio
import django.db
from windlass import App

app = App("sqlite:jobs.db")

@app.job("a")
def job() -> str:
    return "done"

async def main():
    async with app.worker():
        print((await app.client.wait(await job.enqueue(), "60s")).result)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, text=True, capture_output=True, timeout=LONG, check=False)
    assert done.stdout == "done\n", done.stderr
