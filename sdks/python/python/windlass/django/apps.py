"""What ``INSTALLED_APPS`` finds."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    AppConfig = object  # Django has no types
    post_migrate: Any = None
else:
    from django.apps import AppConfig
    from django.db.models.signals import post_migrate


class WindlassConfig(AppConfig):
    """The app ``windlass.django``. It has no models: the store's tables are Windlass's own. ``manage.py migrate`` makes them in the databases that
    backends use, and so does Django's test runner; ``manage.py windlass migrate`` in any store."""

    name: str = "windlass.django"
    label: str = "windlass"
    verbose_name: str = "Windlass"

    def ready(self) -> None:
        """Has ``migrate`` tell."""
        post_migrate.connect(_migrated, sender=self)


def _migrated(using: str, verbosity: int = 1, **_: Any) -> None:
    try:
        from ._migrate import after_migrate
    except ImportError:  # Django before 6, and without the package django-tasks
        return
    after_migrate(using, verbosity)
