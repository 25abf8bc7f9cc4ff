"""The examples of docs/python.md, each run as it stands there. The first line of one names its file; what comes later for a file is added."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from windlass import App

GUIDE = Path(__file__).parents[3] / "docs" / "python.md"
PACKAGE = Path(__file__).parents[1] / "python"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for block in re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL):
        name = block.split("\n", 1)[0].removeprefix("# ")
        assert re.fullmatch(r"\w+\.py", name), f"a block of the guide begins with no file's name: {name}"
        with (tmp_path / name).open("a") as file:
            file.write(block)
    return tmp_path


def run(folder: Path, *args: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *args], cwd=folder, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **environment}
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done
    return done.stdout


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_programs_run_one_after_the_other(folder: Path, request: pytest.FixtureRequest, kind: str) -> None:
    """As whoever follows the guide runs them, with one store for all, and again."""
    url = f"{request.getfixturevalue('bare')}?migrate=auto" if kind == "postgres" else f"sqlite:{folder}/jobs.db?synchronous=normal"
    programs = ["hello.py", "kinds.py", "around.py", "enqueue.py", "look.py", "service.py", "traced.py", "sealed.py"]
    for program in [*programs, "enqueue.py", "look.py"]:
        run(folder, program, WINDLASS_STORE=url)


def test_the_first_job_is_worked_by_the_command(folder: Path) -> None:
    run(folder, "hello.py")
    worker = subprocess.Popen([sys.executable, "-u", "-m", "windlass", "worker", "jobs:app"], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None and worker.stdout.readline() == "a mail to you@example.com: welcome\n"
    worker.terminate()
    assert worker.wait(60) == 0
    worker.stdout.close()


def test_the_tests_pass(folder: Path) -> None:
    assert "5 passed" in run(folder, "-m", "pytest", "-p", "windlass.pytest_plugin", "test_jobs.py")


def test_the_transaction_moves_all_or_nothing(folder: Path, postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE account (id int, cents int)")
        connection.execute("INSERT INTO account VALUES (1, 500)")
    app = App(postgres)
    (folder / "main.py").write_text(
        "import asyncio\nfrom pay import app, debit\nasync def main():\n"
        "    id = await debit.enqueue(account=1, cents=50)\n"
        "    async with app.worker() as worker:\n        await worker.until_idle()\n"
        "    print((await app.client.job(id)).state)\nasyncio.run(main())\n"
    )
    assert run(folder, "main.py", WINDLASS_STORE=postgres) == "completed\n"
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SELECT cents FROM account").fetchone() == (450,)
    assert [job.kind for job in app.sync.jobs(state="completed").jobs].count("receipt.send") == 1
    run(folder, "by_hand.py", WINDLASS_STORE=postgres)
    [receipt] = app.sync.jobs(state="available").jobs
    assert (receipt.kind, receipt.args) == ("receipt.send", {"payment": 7})
    app.close()


def test_the_jobs_are_typed_as_they_say(folder: Path) -> None:
    run(folder, "-m", "mypy", "--strict", "jobs.py", "hello.py", "enqueue.py", "look.py", "service.py", MYPYPATH=str(PACKAGE))
