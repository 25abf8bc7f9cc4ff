"""Windlass in Django: a backend of its Tasks, and ``manage.py windlass``::

    INSTALLED_APPS = [..., "windlass.django"]
    TASKS = {"default": {"BACKEND": "windlass.django.backend.Backend"}}

Tasks are Django's own from version 6 on, and of the package ``django-tasks`` before. A task is a job whose kind is the path of its function, and
whose args are ``args`` and ``kwargs``.
"""

from .store import app_of

__all__ = ["app_of"]
