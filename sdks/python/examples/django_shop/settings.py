"""A Django project whose tasks are Windlass's jobs: on PostgreSQL in the transactions of its own database."""

import os

SECRET_KEY = "an example has no secrets"
USE_TZ = True
INSTALLED_APPS = ["windlass.django", "mails"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

if os.environ.get("SHOP_DATABASE"):
    host, port, name, user = os.environ["SHOP_DATABASE"].split(",")
    DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": name, "USER": user, "HOST": host, "PORT": port}}
    TASKS = {"default": {"BACKEND": "windlass.django.backend.Backend", "QUEUES": ["default", "mail"], "OPTIONS": {"max_attempts": 3}}}
else:
    DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}
    TASKS = {"default": {"BACKEND": "windlass.django.backend.Backend", "QUEUES": [], "OPTIONS": {"store": "sqlite:jobs.db", "max_attempts": 3}}}
