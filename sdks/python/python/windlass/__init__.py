"""Windlass: a durable background-job queue on PostgreSQL or SQLite.

See :class:`App` for where it begins, and docs/python.md for all of it.
"""

from . import errors
from ._loading import __version__
from .app import App
from .client import Client, SyncClient
from .context import Context
from .drivers import SqlCall
from .errors import WindlassError
from .events import Events
from .history import Count, History
from .job import Job
from .options import Backoff, Options, Unique
from .middleware import Around
from .outcome import Cancel, Complete, Discard, Outcome, Retry, Snooze
from .records import AuditRecord, EnqueuedUnique, Event, EventPage, HandlerReport, JobEdit, JobPage, JobRecord, QueueStats, ScheduleRecord, SchedulesPut, Touched
from .retention import RetentionRule
from .schedule import Schedule
from .timings import Failure, Mark, Quantiles, Timed
from .worker import Worker

__all__ = [
    "App",
    "Around",
    "AuditRecord",
    "Backoff",
    "Cancel",
    "Client",
    "Complete",
    "Context",
    "Count",
    "Discard",
    "EnqueuedUnique",
    "Event",
    "EventPage",
    "Events",
    "Failure",
    "HandlerReport",
    "History",
    "Job",
    "JobEdit",
    "JobPage",
    "JobRecord",
    "Mark",
    "Options",
    "Outcome",
    "Quantiles",
    "QueueStats",
    "RetentionRule",
    "Retry",
    "Schedule",
    "ScheduleRecord",
    "SchedulesPut",
    "Snooze",
    "SqlCall",
    "SyncClient",
    "Timed",
    "Touched",
    "Unique",
    "Worker",
    "WindlassError",
    "__version__",
    "errors",
]
