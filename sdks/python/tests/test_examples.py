"""The programs of examples/, as they stand there."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from windlass.connection import Connection

EXAMPLES = Path(__file__).parents[1] / "examples"
LONG = 60


@pytest.fixture
def example(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A program, with a store of this test."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    module = importlib.import_module(request.param)
    store = Connection(f"sqlite:{tmp_path}/jobs.db?synchronous=normal")
    module.jobs.connection._lend(store)
    yield module
    module.jobs.connection._lend(None)
    store.close()


@pytest.mark.parametrize("example", ["fastapi_shop"], indirect=True)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fastapi(example: ModuleType) -> None:
    from fastapi.testclient import TestClient

    with TestClient(example.api) as client:
        id = client.post("/users", params={"mail": "a@example.com"}).json()["job"]
        assert client.get(f"/jobs/{id}", params={"wait": LONG}).json() == {"state": "completed", "result": "Welcome, a@example.com!"}
        assert client.get("/jobs/4711").status_code == 404
        assert client.get("/jobs/4711", params={"wait": 1}).status_code == 404


@pytest.mark.parametrize("example", ["flask_shop"], indirect=True)
def test_flask(example: ModuleType) -> None:
    client = example.web.test_client()
    ids = [client.post("/images/7/thumb", headers={"Idempotency-Key": key}).get_json()["job"] for key in ("a", "a", "b")]
    assert ids[0] == ids[1] != ids[2]
    assert client.get(f"/jobs/{ids[0]}").get_json() == {"state": "available", "result": None}
    assert client.get("/jobs/4711").status_code == 404


class Django:
    """A copy of the project."""

    def __init__(self, folder: Path, **environment: str) -> None:
        shutil.copytree(EXAMPLES / "django_shop", folder, dirs_exist_ok=True)
        self.folder, self.environment = folder, {**os.environ, **environment}

    def begin(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "manage.py", *args], cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def manage(self, *args: str) -> str:
        command = self.begin(*args)
        out, err = command.communicate(timeout=LONG)
        assert command.returncode == 0, err
        return out

    def shell(self, program: str) -> str:
        """What a program prints that runs inside the project."""
        (self.folder / "program.py").write_text(f"import os, django\nos.environ['DJANGO_SETTINGS_MODULE'] = 'settings'\ndjango.setup()\n{program}")
        done = subprocess.run(
            [sys.executable, "program.py"], cwd=self.folder, env=self.environment, text=True, capture_output=True, timeout=LONG, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(params=["sqlite", "postgres"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Django:
    if request.param == "sqlite":
        return Django(tmp_path)
    import psycopg

    database = psycopg.conninfo.conninfo_to_dict(request.getfixturevalue("bare"))
    return Django(tmp_path, SHOP_DATABASE=",".join(str(database[part]) for part in ("host", "port", "dbname", "user")))


def test_django_tasks(project: Django) -> None:
    assert "the schema of the store is version" in project.manage("windlass", "migrate")
    out = project.shell(
        """
import asyncio, datetime
from django.db import transaction
from django.utils import timezone
from mails.tasks import second_try, welcome

first = welcome.enqueue("a@example.com", greeting="Hello")
assert (first.status, first.args, first.kwargs) == ("READY", ["a@example.com"], {"greeting": "Hello"}), first
later = asyncio.run(welcome.using(run_after=timezone.now() + datetime.timedelta(days=1), priority=-3).aenqueue("b@example.com"))
twice = second_try.enqueue()
print(first.id, later.id, twice.id)
try:
    welcome.enqueue(object())
except TypeError:
    print("refused")
"""
    )
    [ids, refused] = out.splitlines()
    assert refused == "refused"
    first, later, twice = ids.split()

    worker = project.begin("windlass", "worker")
    states = f"""
import json
from mails.tasks import second_try, welcome
from windlass.django._tasks import task_backends

one, other, twice = [task_backends["default"].get_result(id) for id in {[first, later, twice]!r}]
done = one.status == "SUCCESSFUL" and twice.errors
print(json.dumps([done and [one.return_value, one.attempts, other.status, other.args, twice.status, twice.errors[0].exception_class_path]]))
backend = task_backends["default"]
job = backend.app.sync.job({later})
assert (job.queue, job.priority, job.max_attempts, job.state) == ("mail", 3, 3, "scheduled"), job
"""
    until = time.monotonic() + LONG
    while (said := project.shell(states)) == "[false]\n" or said == "[[]]\n":
        assert time.monotonic() < until and worker.poll() is None, worker.communicate()
    assert said == '[["Hello, a@example.com!", 1, "READY", ["b@example.com"], "READY", "builtins.ValueError"]]\n'
    retry = f"from mails import tasks\nfrom windlass.django._tasks import task_backends\napp = task_backends['default'].app\napp.sync.retry({twice})\n"
    assert "SUCCESSFUL 2" in project.shell(
        retry + f"app.sync.wait({twice}, '{LONG}s')\nresult = task_backends['default'].get_result('{twice}')\nprint(result.status, result.return_value)\n"
    )
    worker.terminate()
    out, err = worker.communicate(timeout=LONG)
    assert worker.returncode == 0 and out.startswith("working 2 tasks"), (out, err)


@pytest.mark.parametrize("project", ["postgres"], indirect=True)
def test_a_task_of_django_exists_if_and_when_its_transaction_commits(project: Django) -> None:
    project.manage("windlass", "migrate")
    assert (
        project.shell(
            """
from django.db import transaction
from mails.tasks import welcome
from windlass.django._tasks import TaskResultDoesNotExist, task_backends

def is_there(result):
    try:
        return bool(welcome.get_result(result.id))
    except TaskResultDoesNotExist:
        return False

with transaction.atomic():
    kept = welcome.enqueue("a@example.com")
    print(is_there(kept))
print(is_there(kept))
try:
    with transaction.atomic():
        lost = welcome.enqueue("b@example.com")
        raise LookupError
except LookupError:
    print(is_there(lost))
"""
        )
        == "False\nTrue\nFalse\n"
    )


def test_a_wrong_backend_of_django_says_what_is_wrong(tmp_path: Path) -> None:
    project = Django(tmp_path)
    settings = (tmp_path / "settings.py").read_text()
    for wrong, says in [
        ('{"store": "sqlite:jobs.db", "colour": "red"}', "unknown OPTIONS of the task backend 'default': colour"),
        ("{}", "the database 'default' is sqlite, whose transactions Windlass cannot join"),
    ]:
        (tmp_path / "settings.py").write_text(settings.replace('{"store": "sqlite:jobs.db", "max_attempts": 3}', wrong))
        command = project.begin("windlass", "worker")
        _, err = command.communicate(timeout=LONG)
        assert command.returncode != 0 and says in err, err


def test_tasks_of_django_are_encrypted_and_traced(tmp_path: Path) -> None:
    project = Django(tmp_path)
    settings = (tmp_path / "settings.py").read_text()
    options = f'{{"store": "sqlite:jobs.db", "keys": "k1:{"A" * 43}=", "encrypted": True, "traces": Traces()}}'
    settings = settings.replace('{"store": "sqlite:jobs.db", "max_attempts": 3}', options)
    (tmp_path / "settings.py").write_text("from windlass.traces import Traces\n" + settings)
    out = project.shell(
        """
import asyncio
from mails.tasks import welcome
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from windlass.django._tasks import task_backends

exporter = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
backend = task_backends["default"]
id = welcome.enqueue("a@example.com").id
assert "a@example.com" not in repr(backend.app.sync.job(int(id)))

async def main():
    async with backend.worker() as worker:
        await worker.until_idle()

asyncio.run(main())
result = welcome.get_result(id)
print(result.status, result.args, result.return_value, *[span.name for span in exporter.get_finished_spans()], sep="|")
"""
    )
    assert out == "SUCCESSFUL|['a@example.com']|Welcome, a@example.com!|send mail|process mail\n"


ENDS = """

import asyncio

from windlass import Complete, Discard, Retry, Snooze


def _work(how):
    if how == "raise":
        raise ValueError("no route")
    if how == "cancel":
        raise asyncio.CancelledError  # of something that it waited for, say
    if how == "coroutine":
        return asyncio.sleep(0)
    said = {"discard": Discard("bad"), "retry": Retry("again"), "snooze": Snooze("1h"), "object": object(), "result": Complete(object())}
    return said.get(how, how)


@task
def ends(how):
    return _work(how)


@task
async def ends_async(how):
    return _work(how)
"""


@pytest.mark.parametrize("task", ["ends", "ends_async"])
def test_django_is_told_when_a_task_has_finished(tmp_path: Path, task: str) -> None:
    project = Django(tmp_path)
    with (tmp_path / "mails/tasks.py").open("a") as tasks:
        tasks.write(ENDS)
    out = project.shell(
        f"""
import asyncio
from mails.tasks import {task}
from windlass.django._tasks import task_backends, task_finished

def told(task_result, **_):
    print(task_result.args[0], task_result.status, *[error.exception_class_path for error in task_result.errors])

async def drain():
    async with backend.worker() as worker:
        await worker.until_idle()

task_finished.connect(told)
backend = task_backends["default"]
for how in ["fine", "discard", "snooze", "retry", "raise", "cancel", "object", "result", "coroutine"]:
    id = int({task}.enqueue(how).id)
    asyncio.run(drain())
    while backend.app.sync.job(id).state == "retryable":
        backend.app.sync.retry(id)
        asyncio.run(drain())
"""
    )
    wanted = ["fine SUCCESSFUL", "discard FAILED windlass.outcome.Discard", "retry FAILED windlass.outcome.Retry", "raise FAILED builtins.ValueError"]
    wanted += ["cancel FAILED asyncio.exceptions.CancelledError", "object FAILED windlass.outcome.Discard", "result FAILED windlass.outcome.Discard"]
    wanted += ["coroutine FAILED windlass.outcome.Retry"]
    assert out.splitlines() == wanted


def test_the_command_of_django_takes_what_a_worker_takes(tmp_path: Path) -> None:
    project = Django(tmp_path)
    worker = project.begin("windlass", "worker", "--name", "tasks of ours", "--lease", "soon")
    _, err = worker.communicate(timeout=LONG)
    assert worker.returncode != 0 and "lease must be a length of time" in err, err
    worker = project.begin("windlass", "worker", "--name", "tasks of ours", "--app-version", "2.4.1", "--lease", "5s", "--grace-period", "1s", "--timeout", "1m")
    named = "import json\nfrom windlass.django._tasks import task_backends\napp = task_backends['default'].app\nprint(json.dumps([[one['name'], one['app_version']] for one in app.sync.status()['workers']]))\n"
    until = time.monotonic() + LONG
    while (said := project.shell(named)) == "[]\n":
        assert time.monotonic() < until and worker.poll() is None, worker.communicate()
    worker.terminate()
    worker.communicate(timeout=LONG)
    assert said == '[["tasks of ours", "2.4.1"]]\n' and worker.returncode == 0


def test_ids_that_are_none_of_ours_have_no_result(tmp_path: Path) -> None:
    """As in ``/tasks/<id>`` of a web application: what is no id of a job is not found."""
    out = Django(tmp_path).shell(
        """
from mails.tasks import welcome
from windlass.django._tasks import TaskResultDoesNotExist

welcome.enqueue("a@example.com")
for id in ["4711", "9" * 30, "", "-1", "1.5", "\u0661", "5f3a-no-id"]:
    try:
        print(welcome.get_result(id))
    except TaskResultDoesNotExist:
        print("none")
"""
    )
    assert out == "none\n" * 7
