"""Whoever enqueues args, in whatever language, and whoever works them: the handler reads the same."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sides import ENQUEUERS, QUEUES, VECTORS, WORKERS, enqueue, work

from windlass import App

STORES = ["sqlite", "postgres"]
# SQLite has no functions to enqueue by.
PAIRS = [(store, side) for store in STORES for side in ENQUEUERS if (store, side) != ("sqlite", "sql")]
CELLS = [(*pair, worker) for pair in PAIRS for worker in WORKERS]


class Ran:
    """What came of all vectors on one store."""

    def __init__(self, url: str, enqueuers: list[str]) -> None:
        app = App(url)
        app.sync.migrate()
        self.enqueued = {side: enqueue(side, url) for side in enqueuers}
        with ExitStack() as stack:
            for side in WORKERS:
                stack.callback(self._end, side, work(side, url))
            self.results = {(side, worker): self._results(app, side, queue) for side in enqueuers for worker, queue in zip(WORKERS, QUEUES)}
        self.stored = [job.args for job in app.sync.jobs(queue="refused").jobs]
        app.close()

    def _results(self, app: App, side: str, queue: str) -> list[Any]:
        results: list[Any] = []
        for id in self.enqueued[side]["ids"][queue]:
            # Of a worker that is gone only one job is waited for.
            job = app.sync.wait(id, timeout="1ms" if None in results else "60s")
            results.append(job and (job.result if job.state == "completed" else f"{job.state}: {job.reason}"))
        return results

    def _end(self, side: str, worker: subprocess.Popen[str]) -> None:
        worker.send_signal(signal.SIGTERM)
        said, _ = worker.communicate(timeout=60)
        print(f"the worker of {side} ended with {worker.returncode}: {said}")


@pytest.fixture(scope="session")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    url = f"sqlite:{tmp_path_factory.mktemp('interop')}/jobs.db?synchronous=normal"
    return Ran(url, [side for store, side in PAIRS if store == "sqlite"])


@pytest.fixture(scope="session")
def on_postgres(server: str) -> Iterator[Ran]:
    import psycopg

    name = f"interop_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    yield Ran(f"{server.rsplit('/', 1)[0]}/{name}", ENQUEUERS)
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def expected(vector: dict[str, str], side: str, worker: str) -> str:
    """What the worker reads: numbers are as small as in the smaller language of the two."""
    if "node" in (side, worker):
        return vector.get("js", vector["canonical"])
    if "rust" in (side, worker):
        return vector.get("rust", vector["canonical"])
    return vector.get("sql", vector["canonical"]) if side == "sql" else vector["canonical"]


@pytest.mark.parametrize(("store", "side", "worker"), CELLS, ids=map(" ".join, CELLS))
def test_a_handler_reads_what_was_enqueued(request: pytest.FixtureRequest, store: str, side: str, worker: str) -> None:
    ran: Ran = request.getfixturevalue(f"on_{store}")
    wrong = {}
    for vector, result in zip(VECTORS["accepted"], ran.results[side, worker], strict=True):
        text = expected(vector, side, worker)
        if result != hashlib.sha256(text.encode()).hexdigest():
            wrong[vector["what"]] = f"is not read as {text[:200]}; the worker said {result}"
    assert not wrong


@pytest.mark.parametrize(("store", "side"), PAIRS, ids=map(" ".join, PAIRS))
def test_what_no_handler_could_read_is_refused(request: pytest.FixtureRequest, store: str, side: str) -> None:
    ran: Ran = request.getfixturevalue(f"on_{store}")
    for vector, said in zip(VECTORS["refused"], ran.enqueued[side]["refused"], strict=True):
        # What JSON cannot say is refused before Windlass sees it: by JSON.parse, json.loads, jsonb.
        may_be_no_value = side in ("python", "node", "sql")
        assert said == vector["code"] or (may_be_no_value and said == "no value"), f"{vector['what']}: {said}"
    assert ran.stored == []
