"""What can be said of a job besides its args."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import Enum
from typing import Any, Literal, Mapping, Sequence

from .duration import Duration, millis
from .errors import InvalidOption


class _Said(Enum):
    NOT = "not said"

    def __repr__(self) -> str:
        return self.value


_NOT_SAID: Any = _Said.NOT  # None is what a program has that looked for a value and found none


@dataclass(frozen=True)
class Unique:
    """Makes a job unique: not stored while another one has its key.

    The key is one that you give (``Unique("user/7")``), some fields of its args (``Unique(fields=["user"])``), or all of them
    (``Unique()``).

    Raises :class:`windlass.errors.InvalidOption` for what excludes each other: ``key`` and ``fields``, ``window`` and ``until``, and a
    ``max_wait`` without ``on_conflict="replace"``; and for a ``key`` or ``fields`` of ``None``, which would make it unique by all of its args.
    """

    key: str = _NOT_SAID
    fields: Sequence[str] = _NOT_SAID
    scope: Literal["kind", "queue"] = "kind"
    """Among the jobs of its kind or of its queue."""
    until: Literal["finished", "started"] = "finished"
    """Until it is finished, or until a worker takes it."""
    window: Duration | None = None
    """For so long after the enqueue instead, whatever becomes of it."""
    on_conflict: Literal["keep", "replace", "extend", "error"] = "keep"
    """When another has the key: keep that; put this one in its place while that waits; let its window begin anew; raise."""
    max_wait: Duration | None = None
    """With ``replace``: the job is not put off further than this after its first enqueue."""

    def __post_init__(self) -> None:
        for name in ("key", "fields"):
            if getattr(self, name) is None:
                raise InvalidOption(f"unique: {name} is None, by which nothing is unique: leave unique out where that is meant, or {name} for all of the args")
        if isinstance(self.fields, str):
            raise InvalidOption(f"fields must be a list of names, as in Unique(fields=[{self.fields!r}]), got {self.fields!r}")
        if self.key is not _NOT_SAID and self.fields is not _NOT_SAID:
            raise InvalidOption("key and fields exclude each other: a unique job has one key")
        if self.window is not None and self.until != "finished":
            raise InvalidOption(f"window and until={self.until!r} exclude each other: a job has its key for a time, or until something happens")
        if self.max_wait is not None and self.on_conflict != "replace":
            raise InvalidOption(f"max_wait goes with on_conflict='replace', got on_conflict={self.on_conflict!r}")

    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"unique_in": self.scope, "on_conflict": self.on_conflict}
        if self.key is not _NOT_SAID:
            spec["unique_key"] = self.key
        elif self.fields is not _NOT_SAID:
            spec["unique_fields"] = list(self.fields)
        else:
            spec["unique_args"] = True
        if self.window is not None:
            spec["unique_for_ms"] = millis(self.window, "window")
        else:
            spec["unique_until"] = self.until
        if self.max_wait is not None:
            spec["max_wait_ms"] = millis(self.max_wait, "max_wait")
        return spec


@dataclass(frozen=True)
class Backoff:
    """How long failed attempts wait for the next one. Where the store tells of it, its times are in seconds."""

    base: Duration = 15
    """The first delay."""
    growth: Literal["exponential", "linear", "fixed"] = "exponential"
    max: Duration = "1d"
    """The longest delay."""
    jitter: float | None = None
    """The part of a delay, 0 to 1, that is left to chance: by default 0.1, and 0 where the delay is fixed."""
    factor: float | None = None
    """How many times as long each delay is as the one before, where they grow exponentially: by default 2."""

    def _spec(self) -> dict[str, Any]:
        policy: dict[str, Any] = {"backoff": self.growth, "base_ms": millis(self.base, "base")}
        if self.growth != "fixed":
            policy["max_ms"] = millis(self.max, "max")
        said = {"jitter": self.jitter, "factor": self.factor}
        return policy | {name: value for name, value in said.items() if value is not None}

    @classmethod
    def _read(cls, policy: dict[str, Any]) -> Backoff:
        return cls(policy["base_ms"] / 1000, policy["backoff"], policy["max_ms"] / 1000, policy["jitter"], policy["factor"])


@dataclass(frozen=True)
class Options:
    """The options of a job: those of its definition, and what :meth:`windlass.Job.with_options` changes."""

    queue: str | None = None
    priority: int | None = None
    """-100 to 100; lower runs first."""
    max_attempts: int | None = None
    delay: Duration | None = None
    at: datetime | None = None
    expires_in: Duration | None = None
    expires_at: datetime | None = None
    timeout: Duration | None = None
    """How long an attempt may take."""
    backoff: Backoff | None = None
    key: str | None = None
    """Whom or what the job is about, a tenant or a customer, where its queue limits each of them."""
    meta: Mapping[str, Any] | None = None
    tags: Sequence[str] = ()
    cost: int | None = None
    """What a start takes of the queue's rate."""
    unique: Unique | None = None
    encrypted: bool | None = None
    """Whether args, result and checkpoints are sealed before they leave the program. The app needs ``keys``."""
    idempotency_key: str | None = None
    """Enqueuing with a key that was used before stores nothing, and gives the id of what was stored then."""

    def __post_init__(self) -> None:
        refuse_other("unique", self.unique, Unique, "'user/7'")
        refuse_other("backoff", self.backoff, Backoff, "'1m'")
        if isinstance(self.tags, Iterator):  # which would give its tags to the first job only
            object.__setattr__(self, "tags", list(self.tags))

    def _with(self, changes: Mapping[str, Any]) -> Options:
        for name in changes:
            if name not in OPTIONS:
                raise InvalidOption(f"unknown option {name!r}; known are {', '.join(sorted(OPTIONS))}")
        if changes.get("idempotency_key", "") is None:  # as of a row that has none: it would be stored without the guard that was meant
            raise InvalidOption("idempotency_key is None: leave it out where a repeated call is to enqueue once more")
        return replace(self, **changes)

    def _spec(self, kind: str) -> dict[str, Any]:
        """The job as the engine takes it, without its args."""
        spec: dict[str, Any] = {"kind": kind}
        for name in ("queue", "priority", "max_attempts", "key", "meta", "cost", "encrypted"):
            value = getattr(self, name)
            if value is not None:
                spec[name] = value
        for name, value in (("delay", self.delay), ("expires_in", self.expires_in), ("timeout", self.timeout)):
            if value is not None:
                spec[f"{name}_ms"] = millis(value, name)
        for name, time in (("at", self.at), ("expires_at", self.expires_at)):
            if time is not None:
                spec["scheduled_at" if name == "at" else name] = instant(time, name)
        if self.tags:
            if isinstance(self.tags, str):
                raise InvalidOption(f"tags must be a list of texts, got {self.tags!r}")
            spec["tags"] = list(self.tags)
        if self.backoff is not None:
            spec["retry_policy"] = self.backoff._spec()
        if self.unique is not None:
            spec.update(self.unique._spec())
        return spec

    def _of_kind(self) -> dict[str, Any]:
        """What holds for all jobs of a kind whose definition says this, also for those that others enqueued."""
        rules: dict[str, Any] = {}
        if self.timeout is not None:
            rules["timeout_ms"] = millis(self.timeout, "timeout")
        if self.backoff is not None:
            rules["retry_policy"] = self.backoff._spec()
        return rules


def refuse_other(name: str, value: object, kind: type, example: str) -> None:
    """Refuses an option of another type."""
    if value is not None and not isinstance(value, kind):
        raise InvalidOption(f"{name} must be a {kind.__name__}, as in {name}={kind.__name__}({example}), got {value!r}")


OPTIONS: frozenset[str] = frozenset(field.name for field in fields(Options))
"""Their names."""


def instant(time: datetime, name: str) -> str:
    """A time with its zone as text."""
    if not isinstance(time, datetime):
        raise InvalidOption(f"{name} must be a datetime, got {time!r}")
    if time.tzinfo is None:
        raise InvalidOption(f"{name} must have a time zone, got {time.isoformat()}; use datetime.now(timezone.utc) or .astimezone()")
    return time.isoformat()
