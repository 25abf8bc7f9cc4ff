"""A worker of windlass-chaos in Python: `actor.py ORDER`. docs/design/proof.md, "Actors in other languages", says what it is told and notes.

Async handlers (kind ``work``) and plain ones (kind ``rare``) do what the args of their jobs ask for. The native module must be that of
``windlass-py-witness``, which notes what the worker asks of the store; scripts/chaos-actors puts it in place.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from datetime import datetime, timezone
from typing import Any

import psycopg

from windlass import App, Backoff, Cancel, Context, Discard, Outcome, Retry, Snooze, _native
from windlass.errors import WindlassError

CHECKPOINTS = 2  # of an attempt, as in Rust
LOOK = 0.02  # seconds: how often a plain handler looks whether it should stop
ENDS: dict[type[Outcome], str] = {Retry: "retry", Snooze: "snooze", Cancel: "cancel", Discard: "discard"}


def note(ctx: Context, event: str, **fields: Any) -> None:
    _native.note(ctx._job, event, json.dumps(fields))  # type: ignore[attr-defined]


class Actor:
    """The worker of one order."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.number: int = order["number"]
        self.work: dict[str, Any] = order["role"]["Worker"]
        if any(self.work["timetable"].values()):
            raise SystemExit("this actor declares no schedules")
        self.app = App(order["store"])
        self.app.job("work")(self.in_a_task)
        if self.work["knows_rare"]:
            self.app.job("rare")(self.in_a_thread)
        # What is Windlass's in the URL means nothing to the driver.
        base, _, parameters = order["store"].partition("?")
        theirs = [one for one in parameters.split("&") if one and not one.startswith(("schema=", "pooler="))]
        self.database = f"{base}?{'&'.join(theirs)}" if theirs else base

    async def run(self) -> None:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self.dismissed)
        slots: int = self.work["slots"]
        while True:
            worker = self.app.worker(
                dict.fromkeys(self.work["queues"], slots),
                threads=slots,
                name=f"chaos-{self.number}",
                lease=self.work["lease_ms"] / 1000,
                grace_period=self.work["grace_ms"] / 1000,
                backoff=Backoff(0.03, "fixed"),
            )
            try:
                return await worker.run()
            except WindlassError as error:
                if not (error.retryable or error.ambiguous):
                    raise
                await asyncio.sleep(0.05)  # a service manager would start it again

    def dismissed(self) -> None:
        """Whoever started this process closed its standard input, or is gone: as if told to stop."""
        if not os.read(sys.stdin.fileno(), 64):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            os.kill(os.getpid(), signal.SIGTERM)

    async def in_a_task(self, ctx: Context, key: int, act: Any) -> Any:
        note(ctx, "Started", key=key, attempt=ctx.attempt)
        ended = "interrupted"
        try:
            said = await self.act(ctx, key, act)
            ended = ENDS.get(type(said), "complete")
            return said
        except Exception:
            ended = "retry"
            raise
        finally:
            note(ctx, "Finished", outcome=ended)

    def in_a_thread(self, ctx: Context, key: int, act: Any) -> Any:
        async def watched() -> Any:
            task, is_told = asyncio.create_task(self.in_a_task(ctx, key, act)), False
            while not (await asyncio.wait([task], timeout=LOOK))[0]:
                if ctx.cancelled and not is_told:
                    is_told = task.cancel()
            return await task

        return asyncio.run(watched())

    async def act(self, ctx: Context, key: int, act: Any) -> Any:
        """What a handler does: `Act` of crates/windlass-chaos/src/actor/task.rs, its name alone or with a number."""
        [(name, number)] = act.items() if isinstance(act, dict) else [(act, 0)]
        if name == "sleep":
            await asyncio.sleep(number / 1000)
        elif name == "return":
            note(ctx, "Returned")
            return {"key": key}
        elif name == "fail":
            return Retry(f"attempt {ctx.attempt} fails on request") if ctx.attempt <= number else None
        elif name == "checkpoint":
            return await self.keep_checkpoints(ctx, number)
        elif name == "panic":
            if ctx.attempt == 1:
                raise RuntimeError("raises on request")
        elif name == "snooze":
            age = (datetime.now(timezone.utc) - ctx.enqueued_at).total_seconds()
            return Snooze(0.02) if age < number / 1000 else None
        elif name in ("cancel", "discard"):
            return Cancel("on request") if name == "cancel" else Discard("on request")
        elif name == "effect":
            return await self.effect(ctx, number / 1000)
        elif name == "abort":
            if ctx.crash_count < number:
                os.abort()
        elif name != "done":
            logging.critical("this actor knows no %s", name)
            os._exit(2)  # what a handler raises would be an attempt that failed
        return None

    async def keep_checkpoints(self, ctx: Context, times: int) -> Any:
        """Goes on from the last checkpoint."""
        try:
            start: int = await ctx.last_checkpoint() or 0
            note(ctx, "Resumed", **{"from": start})
            for value in range(start + 1, start + CHECKPOINTS + 1):
                ctx.progress(value % 100)
                note(ctx, "CheckpointSent", value=value)
                await ctx.checkpoint(value)
                note(ctx, "CheckpointKept", value=value)
        except WindlassError as error:
            return Retry(str(error))
        return None if ctx.attempt > times else Retry("goes on from its checkpoint")

    async def effect(self, ctx: Context, open_for: float) -> Any:
        """The effect and the completion in one transaction."""
        try:
            async with await psycopg.AsyncConnection.connect(self.database) as connection:
                await connection.execute("INSERT INTO public.chaos_effect (job) VALUES (%s)", [ctx.id])
                await ctx.complete_in(connection)
                await asyncio.sleep(open_for)
                note(ctx, "EffectSent")
                await connection.commit()
        except (psycopg.Error, WindlassError) as error:
            return Retry(f"{type(error).__name__}: {error}")
        return None


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if not hasattr(_native, "watch"):
        raise SystemExit("the native module has no witness: build windlass-py-witness, and start this as scripts/chaos-actors says")
    _native.watch(sys.argv[1])
    asyncio.run(Actor(json.loads(sys.argv[1])).run())
