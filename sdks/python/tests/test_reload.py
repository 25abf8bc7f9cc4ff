"""``windlass worker --reload``: while one develops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import app_of, with_jobs

from windlass import _reload

LONG = 60

JOBS = """
    import os
    from windlass import App

    app = App("sqlite:jobs.db?synchronous=normal")

    @app.job("say", max_attempts=1)
    async def say() -> list:
        return ["the old code", os.getpid()]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return with_jobs(tmp_path, JOBS)


@pytest.fixture
def say(folder: Path) -> Iterator[Callable[[], Any]]:
    """What a job says now."""
    app = app_of(folder)
    job = app.job("say", max_attempts=1)(lambda: None)

    def ask() -> Any:
        ended = app.sync.wait(job.enqueue_sync(), LONG)
        assert ended is not None and ended.state == "completed", ended
        return ended.result

    yield ask
    app.close()


@pytest.fixture
def parent(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "windlass", "worker", "jobs:app", "--reload"]
    # Where nothing is compiled to files, none of them can be out of date.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    parent = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL, env=environment)
    yield parent
    parent.kill()
    parent.wait()


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_edit_has_the_worker_run_the_new_code(folder: Path, say: Callable[[], Any], parent: subprocess.Popen[bytes]) -> None:
    text, first = say()
    assert text == "the old code"
    jobs = folder / "jobs.py"
    was = jobs.stat()
    jobs.write_text(jobs.read_text().replace("the old code", "the new code"))
    os.utime(jobs, ns=(was.st_atime_ns, was.st_mtime_ns + 1))  # as if within the same second, by which Python tells compiled files apart
    until = time.monotonic() + LONG
    while (said := say())[0] == "the old code":  # the file is looked at now and then
        assert time.monotonic() < until
        time.sleep(0.05)
    assert said[0] == "the new code" and said[1] != first and not is_alive(first)
    parent.terminate()
    parent.wait(LONG)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_worker_ends_with_its_parent(say: Callable[[], Any], parent: subprocess.Popen[bytes], number: signal.Signals) -> None:
    _, worker = say()
    try:
        parent.send_signal(number)
        assert parent.wait(LONG) == 0
        assert not is_alive(worker)
    finally:
        if is_alive(worker):
            os.kill(worker, signal.SIGKILL)


def test_only_files_of_the_program_are_looked_at(tmp_path: Path) -> None:
    for file in ("a.py", "shop/b.py", ".git/c.py", "my_env/lib/d.py", "shop/node_modules/e.py", "shop/__pycache__/f.py", "g.txt", ".#h.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "my_env" / "pyvenv.cfg").touch()
    (tmp_path / "gone.py").symlink_to("nowhere.py")  # as a file that is taken away while the folder is read
    assert sorted(_reload.seen(tmp_path)) == [f"{tmp_path}/a.py", f"{tmp_path}/shop/b.py"]
