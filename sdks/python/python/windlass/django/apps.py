"""What ``INSTALLED_APPS`` finds."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    AppConfig = object  # Django has no types
else:
    from django.apps import AppConfig


class WindlassConfig(AppConfig):
    """The app ``windlass.django``. It has no models: the store's tables are Windlass's own (``manage.py windlass migrate``)."""

    name: str = "windlass.django"
    label: str = "windlass"
    verbose_name: str = "Windlass"
