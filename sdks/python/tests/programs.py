"""Programs of their own, in a folder with a module ``jobs``, whose app works on the folder's SQLite file."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from windlass import App


def with_jobs(folder: Path, jobs: str) -> Path:
    """The folder, with this module."""
    (folder / "jobs.py").write_text(textwrap.dedent(jobs))
    return folder


def app_of(folder: Path) -> App:
    return App(f"sqlite:{folder}/jobs.db?synchronous=normal")


def beside_jobs(folder: Path, program: str) -> list[str]:
    """The command of a program that has all that is in ``jobs``."""
    (folder / "program.py").write_text("from jobs import *\n" + textwrap.dedent(program))
    return [sys.executable, "program.py"]
