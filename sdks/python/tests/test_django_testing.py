"""Tests of Django's runner on a project with tasks: its database has Windlass's tables, and is removed in the end."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from test_examples import Django

TESTS = '''
import asyncio
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from mails.models import Customer
from mails.tasks import welcome
from windlass.django._tasks import TaskResultDoesNotExist
from windlass.django.testing import clear_tasks, drain_tasks
from windlass.errors import InvalidOption
from windlass.testing import TestJobs
import mails.plain


def stored():
    with connection.cursor() as cursor:
        cursor.execute("SELECT args FROM windlass.job")
        return cursor.fetchall()


class OfAnAppMadeAtImport(TransactionTestCase):
    def test_it_is_in_the_test_database(self):
        self.assertNotIn("test_", mails.plain.before)
        id = mails.plain.hello.enqueue_sync(name="a")
        with connection.cursor() as cursor:
            cursor.execute("SELECT kind FROM windlass.jobs WHERE id = %s", [id])
            self.assertEqual(cursor.fetchall(), [("plain.hello",)])
        self.assertEqual(TestJobs(mails.plain.app).drain()["completed"], 1)
        mails.plain.app.close()
        asyncio.run(mails.plain.app.client.queues())
        with self.assertRaises(RuntimeError), transaction.atomic():
            id = mails.plain.hello.enqueue_in_sync(connection, name="b")
            raise RuntimeError("roll back")
        self.assertIsNone(mails.plain.app.sync.job(id))


class InTransactions(TestCase):
    def enqueue(self):
        Customer.objects.create(email="a@example.com")
        result = welcome.enqueue("a@example.com")
        self.assertEqual((len(stored()), Customer.objects.count()), (1, 1))
        return result

    def test_once(self):
        result = self.enqueue()
        with self.assertRaisesMessage(TaskResultDoesNotExist, "is seen when it has committed"):
            welcome.get_result(result.id)
        with self.assertRaisesMessage(InvalidOption, "use a TransactionTestCase, or enqueued_tasks()"):
            drain_tasks()

    def test_again(self):
        self.enqueue()


class Committed(TransactionTestCase):
    def enqueue(self):
        clear_tasks()
        with self.subTest("what an earlier test enqueued is gone"):
            self.assertEqual(drain_tasks()["completed"], 0)
        return welcome.enqueue("a@example.com")

    def test_once(self):
        self.enqueue()

    def test_again(self):
        result = self.enqueue()
        self.assertEqual(drain_tasks()["completed"], 1)
        self.assertEqual(welcome.get_result(result.id).return_value, "Welcome, a@example.com!")
'''
PLAIN = """
from windlass.django import app_of

app = app_of("default")
app.sync.migrate()  # in the database of development: this opens it
before = app.connection.url


@app.job("plain.hello")
def hello(name: str) -> str:
    return f"Hello, {name}"
"""
SOCKET = """
from django.db import connections
from windlass.django import app_of, store

connections["default"].settings_dict["HOST"] = ""
store._SOCKETS = ("/nowhere", FOLDER)
print(store.url_of("default"), app_of().sync.migrate()[0])
connections["default"].settings_dict["PORT"] = "1"
print(store.url_of("default"))
"""
THREADS = """
import threading
from django.db import connection, connections
from mails.tasks import welcome

def enqueue():
    welcome.get_result(welcome.enqueue("a@example.com").id)
    connections.close_all()

for _ in range(20):
    thread = threading.Thread(target=enqueue)
    thread.start()
    thread.join()
with connection.cursor() as cursor:
    cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'windlass' AND datname = current_database()")
    print(cursor.fetchone()[0])
"""


@pytest.fixture
def project(tmp_path: Path, bare: str) -> Django:
    parts = psycopg.conninfo.conninfo_to_dict(bare)
    project = Django(tmp_path, SHOP_DATABASE=",".join(str(parts[part]) for part in ("host", "port", "dbname", "user")))
    (tmp_path / "mails/models.py").write_text("from django.db import models\n\nclass Customer(models.Model):\n    email = models.TextField()\n")
    (tmp_path / "mails/test_more.py").write_text(TESTS)
    (tmp_path / "mails/plain.py").write_text(PLAIN)
    (tmp_path / "mails/migrations").mkdir()
    (tmp_path / "mails/migrations/__init__.py").touch()
    project.manage("makemigrations", "mails")
    return project


@pytest.mark.parametrize("options", [[], ["--parallel", "2"]], ids=["alone", "parallel"])
def test_tests_of_a_project(project: Django, options: list[str], bare: str) -> None:
    command = project.begin("test", "--noinput", "-v", "2", *options)
    _, err = command.communicate(timeout=120)
    assert command.returncode == 0 and "Ran 8 tests" in err, err
    with psycopg.connect(bare) as server:
        stored = server.execute("SELECT count(*) FROM windlass.jobs").fetchone()
    assert stored == (0,), "the tests have a database of their own"


def test_migrate_makes_the_tables(project: Django, tmp_path: Path) -> None:
    settings = (tmp_path / "settings.py").read_text()
    (tmp_path / "settings.py").write_text(settings.replace('{"max_attempts": 3}', '{"max_attempts": 3, "migrate": False}'))
    assert "Windlass" not in project.manage("migrate")
    (tmp_path / "settings.py").write_text(settings)
    assert "Windlass: the schema of 'default' is version" in project.manage("migrate")
    assert "Windlass" not in project.manage("migrate")
    assert "is version" in project.manage("windlass", "migrate")


def test_a_database_without_a_host_is_that_of_a_socket(project: Django, bare: str) -> None:
    with psycopg.connect(bare) as server:
        [(folder,)] = server.execute("SHOW unix_socket_directories").fetchall()
    by_socket, by_name = project.shell(SOCKET.replace("FOLDER", repr(folder))).splitlines()
    assert quote(folder, safe="") in by_socket and by_socket.endswith(" 0")
    assert by_name.startswith("postgresql://postgres@localhost:1/")


def test_threads_of_a_web_server_share_their_connections(project: Django) -> None:
    """Django makes a backend for each thread."""
    project.manage("migrate")
    assert 1 <= int(project.shell(THREADS)) <= 2
