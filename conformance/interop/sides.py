"""The sides of the interop matrix: how each language enqueues the vectors, and how it works them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
WINDLASS = str(TARGET / "windlass")
PROGRAMS = {
    "rust": [str(TARGET / "examples" / "interop")],
    "python": [sys.executable, str(Path(__file__).parent / "in_python.py")],
    "node": ["node", str(ROOT / "sdks" / "node" / "build" / "conformance" / "interop.js")],
}
ENQUEUERS = ["rust", "python", "node", "sql", "cli"]
WORKERS = ["rust", "python", "node", "stdio"]
QUEUES = [f"for-{worker}" for worker in WORKERS]
VECTORS = json.loads((ROOT / "conformance" / "vectors" / "args.json").read_text("utf-8"))

Enqueued = dict[str, Any]
"""``ids``: those of the accepted vectors by queue; ``refused``: what was said to each refused one."""


def enqueue(side: str, store: str) -> Enqueued:
    if side == "sql":
        return _enqueue_by_sql(store)
    if side == "cli":
        return _enqueue_by_command(store)
    return answer(_run([*PROGRAMS[side], "enqueue", store, *QUEUES]))


def work(side: str, store: str) -> subprocess.Popen[str]:
    queue = QUEUES[WORKERS.index(side)]
    stdio = f"exec {sys.executable} {Path(__file__).parent / 'in_stdio.py'}"
    command = [WINDLASS, "--store", store, "work", "--stdio", stdio, "--queue", queue] if side == "stdio" else [*PROGRAMS[side], "work", store, queue]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def answer(ran: subprocess.CompletedProcess[str]) -> Enqueued:
    assert ran.returncode == 0, f"{ran.args[:2]} ended with {ran.returncode}: {ran.stderr}"
    said: Enqueued = json.loads(ran.stdout)
    return said


def _run(command: list[str], given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=given, text=True, capture_output=True, timeout=120)


def _enqueue_by_command(store: str) -> Enqueued:
    command = [WINDLASS, "--json", "--store", store, "enqueue"]
    ids = {}
    for queue in QUEUES:
        # One line each: line breaks are white space between tokens there.
        texts = [vector["text"].replace("\n", " ").replace("\r", " ") for vector in VECTORS["accepted"]]
        jobs = "".join(f'{{"kind":"echo","queue":"{queue}","args":{text}}}\n' for text in texts)
        said = answer(_run([*command, "--many"], jobs))
        ids[queue] = list(range(said["first_id"], said["last_id"] + 1))
        assert len(ids[queue]) == len(texts)
    refused = [_run([*command, "echo", f"--args={vector['text']}"]) for vector in VECTORS["refused"]]
    return {"ids": ids, "refused": [json.loads(ran.stdout or ran.stderr)["error"]["code"] if ran.returncode == 2 else "enqueued" for ran in refused]}


def _enqueue_by_sql(store: str) -> Enqueued:
    import psycopg

    statement = "SELECT windlass.enqueue('echo', %s::text::jsonb, queue => %s)"
    with psycopg.connect(store, autocommit=True) as connection:

        def send(text: str, queue: str) -> int:
            row = connection.execute(statement, [text, queue]).fetchone()
            assert row is not None
            return int(row[0])

        ids = {queue: [send(vector["text"], queue) for vector in VECTORS["accepted"]] for queue in QUEUES}
        refused = []
        for vector in VECTORS["refused"]:
            try:
                send(vector["text"], "refused")
                refused.append("enqueued")
            except psycopg.Error as error:
                # WL004 is the SQL of invalid_args; what jsonb itself refuses has codes of class 22.
                refused.append("invalid_args" if error.sqlstate == "WL004" else "no value" if (error.sqlstate or "").startswith("22") else str(error))
    return {"ids": ids, "refused": refused}
