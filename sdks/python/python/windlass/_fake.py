"""An attempt of a job that no store knows: what a handler by itself is given."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

from . import _native
from .args import encode
from .context import Context
from .drivers import Statement
from .duration import millis
from .errors import InvalidOption, Unsupported
from .job import Job
from .options import Options


class FakeJob(SimpleNamespace):
    """One attempt of a job, as ``_native.Job`` is; keeps what its handler says."""

    def __init__(self, job: Job[...], args: str, attempt: int = 1, id: int = 1) -> None:
        spec = json.loads(encode(job.options._spec(job.kind)))
        now = int(time.time() * 1000)
        super().__init__(
            ticket=id, id=id, kind=job.kind, queue=spec.get("queue", "default"), priority=spec.get("priority", 0), attempt=attempt,
            max_attempts=spec.get("max_attempts", 20), crash_count=0, enqueued_at_ms=now, expires_at_ms=_expiry(job.options, now), key=spec.get("key"),
            tags=spec.get("tags", []), meta=spec.get("meta"), args_json=args,
        )  # fmt: skip
        self.said: tuple[float, str | None] | None = None
        self.lines: list[str] = []

    @property
    def args(self) -> Any:
        return _native.parse(self.args_json)

    def progress(self, percent: float, note: str | None = None) -> None:
        if not 0 <= percent <= 100:
            raise InvalidOption(f"progress must be 0 to 100 (per cent), got {percent}")
        self.said = (percent, note)

    def log(self, line: str) -> None:
        self.lines.append(line)


def _expiry(options: Options, now: int) -> int | None:
    """From when on the job would not have been started any more."""
    if options.expires_in is not None:
        return now + millis(options.expires_in, "expires_in")
    return None if options.expires_at is None else int(options.expires_at.timestamp() * 1000)


class FakeContext(Context):
    """The context of such an attempt: checkpoints stay here, and no transaction can be joined."""

    __slots__ = ("kept",)

    def __init__(self, job: Job[...], fake: Any, cancelled: str | None, checkpoint: Any) -> None:
        super().__init__(fake, job._connection, lambda _: cancelled)
        self.kept: str = encode(checkpoint)

    async def checkpoint(self, value: Any) -> None:
        self.checkpoint_sync(value)

    def checkpoint_sync(self, value: Any) -> None:
        self.kept = encode(value)

    async def last_checkpoint(self) -> Any:
        return self.last_checkpoint_sync()

    def last_checkpoint_sync(self) -> Any:
        return json.loads(self.kept)

    def _complete_sql(self) -> Statement:
        raise Unsupported("a handler by itself has no job in a store that it could complete; enqueue the job and drain")
