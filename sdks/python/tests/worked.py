"""Jobs are worked off, and looked at."""

from __future__ import annotations

from typing import Any

from windlass import App, JobRecord


async def drain(app: App, **options: Any) -> dict[str, int]:
    async with app.worker(**options) as worker:
        await worker.until_idle()
    return worker.stats


def record(app: App, id: int) -> JobRecord:
    job = app.sync.job(id)
    assert job is not None
    return job
