"""Does a worker's memory grow? Works jobs of all kinds of handlers on SQLite and prints the resident set after each tenth.

    PYTHONPATH=python python bench/memory.py [JOBS]        default: 1,000,000

Exit code 1 when the second half grew by more than 5 % of what there was in the middle. What jobs leave in the store's file is no matter here.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from windlass import App, Context, Retry

TENTHS = 10
CHUNK = 10_000
ALLOWED = 1.05


def resident() -> int:
    """Bytes in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def main(jobs: int) -> int:
    with tempfile.TemporaryDirectory(prefix="windlass-memory-") as folder:
        app = App(f"sqlite:{folder}/jobs.db?synchronous=normal")

        @app.job("task")
        async def task(ctx: Context, n: int, text: str) -> Any:
            if n % 100 == 7 and ctx.attempt == 1:
                raise Retry("once", after=0)
            if n % 100 == 8:
                await asyncio.sleep(0)
            return {"n": n} if n % 10 == 0 else None

        @app.job("thread")
        def thread(ctx: Context, n: int, text: str) -> None:
            ctx.progress(n % 100)

        @app.batch("batch", max_size=100)
        async def batch(jobs: list[Any]) -> None: ...

        sizes = []
        async with app.worker(queues={"default": 100}, threads=4) as worker:
            for _ in range(TENTHS):
                for _ in range(jobs // TENTHS // CHUNK):
                    args = [{"n": n, "text": "x" * (n % 200)} for n in range(CHUNK)]
                    await task.enqueue_many(args[: CHUNK // 2])
                    await batch.enqueue_many(args[CHUNK // 2 : -CHUNK // 10])
                    await thread.enqueue_many(args[-CHUNK // 10 :])
                    await worker.until_idle()
                sizes.append(resident())
                print(f"{worker.stats['completed']:>9,} jobs  {sizes[-1] / 1e6:7.1f} MB", flush=True)
        app.close()
    grown = sizes[-1] / sizes[TENTHS // 2 - 1]
    print(f"the second half grew by {(grown - 1) * 100:.1f} %")
    return 0 if grown <= ALLOWED else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)))
