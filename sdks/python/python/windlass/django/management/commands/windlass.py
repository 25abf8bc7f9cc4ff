"""``manage.py windlass worker`` and ``manage.py windlass migrate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.utils.module_loading import autodiscover_modules

from windlass._farewell import work
from windlass.cli import add_worker_options, queue_option, worker_options
from windlass.django._tasks import task_backends
from windlass.django.backend import Backend
from windlass.errors import WindlassError

if TYPE_CHECKING:

    class BaseCommand:  # Django has no types
        stdout: Any

else:
    from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """Works Django's tasks."""

    help: str = "Works Django's tasks until Ctrl-C or SIGTERM, or makes the tables of their store."

    def add_arguments(self, parser: Any) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        worker = commands.add_parser("worker", help="works tasks until Ctrl-C or SIGTERM; tasks.py of every installed app is imported")
        worker.add_argument(
            "--queue", metavar="NAME=JOBS", type=queue_option, action="append",
            help="a queue, and how many of its tasks run at once; may be repeated. Default: 10 of each queue",
        )  # fmt: skip
        add_worker_options(worker)
        migrate = commands.add_parser("migrate", help="makes the store's tables, or brings them up to date")
        for command in (worker, migrate):
            command.add_argument("--backend", default="default", metavar="ALIAS", help="which of settings.TASKS; default: default")

    def handle(self, *args: Any, command: str, backend: str, **options: Any) -> None:
        """Does it."""
        on = task_backends[backend]
        if not isinstance(on, Backend):
            raise CommandError(f"the task backend {backend!r} is a {type(on).__qualname__}, not windlass.django.backend.Backend")
        try:
            if command == "migrate":
                before, after = on.app.sync.migrate()
                self.stdout.write(f"the schema of the store is version {after}, and was {before}")
            else:
                self._work(on, options)
        except WindlassError as error:
            raise CommandError(f"{error} [{error.code}]") from None

    def _work(self, on: Backend, options: dict[str, Any]) -> None:
        autodiscover_modules("tasks")
        queues = dict(options["queue"]) if options["queue"] else None
        worker = on.worker(queues, **worker_options(options))
        self.stdout.write(f"working {len(on.tasks)} tasks")
        work(worker)
