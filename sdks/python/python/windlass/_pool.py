"""The threads of a worker: each takes one job after the other. One that its handler never gives back is replaced."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ._telling import logger
from .handler import raised
from .threads import Runner

if TYPE_CHECKING:
    from . import _native

LOOK = 1.0  # seconds between two looks for handlers whose job was taken away


class Seat:
    """A thread, and the job that it runs."""

    def __init__(self, desk: _native.ThreadDesk) -> None:
        self.desk = desk
        self.job: _native.Job | None = None
        self.is_lost = False
        """Its handler goes on though its job was taken away: when that returns, the thread ends."""
        self.thread: threading.Thread | None = None


class Pool:
    """Threads that take one job after the other.

    A thread cannot be stopped. Where a handler goes on for longer than its job is this worker's, another thread takes the place of its own; of
    such handlers there are at most as many as there are threads.
    """

    def __init__(self, count: int, desk: Callable[[], _native.ThreadDesk], runner: Callable[[], Runner], name: str) -> None:
        self._count = count
        self._desk = desk
        self._runner = runner
        self._name = name
        self._lock = threading.Lock()
        self._seats: list[Seat] = []
        self._made = 0
        self._is_told = False
        self._over = threading.Event()
        for _ in range(count):
            self._seat()
        threading.Thread(target=self._watch, name=f"{name}-watch", daemon=True).start()

    def join(self, seconds: float) -> bool:
        """Waits so long for threads whose handlers have not returned yet. Whether all have."""
        self._over.set()
        until = time.monotonic() + seconds
        threads = [seat.thread for seat in self._all() if seat.thread is not None]
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _seat(self) -> None:
        seat = Seat(self._desk())
        seat.thread = threading.Thread(target=self._work, args=(seat,), name=f"{self._name}-{self._made}", daemon=True)
        self._made += 1
        with self._lock:
            self._seats.append(seat)
        seat.thread.start()

    def _all(self) -> list[Seat]:
        with self._lock:
            return list(self._seats)

    def _work(self, seat: Seat) -> None:
        desk = seat.desk
        with self._runner() as runner:
            job = desk.next()
            while job is not None:
                seat.job = job
                try:
                    told = runner.run(desk, job)
                except BaseException as error:  # of what is around it: this thread is to go on, or the job would be held for ever
                    told = raised(error, job)
                seat.job = None
                if seat.is_lost:
                    logger.info("job %d (%s) gave back its thread, though nobody waits for what it says", job.id, job.kind)
                    break
                job = desk.next(job) if told is None else desk.next(None, (job, *told))
        with self._lock:
            self._seats.remove(seat)

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            for seat in self._all():
                job = seat.job
                if job is not None and not seat.is_lost and seat.desk.is_dropped():
                    self._replace(seat, job)

    def _replace(self, seat: Seat, job: _native.Job) -> None:
        lost = sum(one.is_lost for one in self._all())
        if lost >= self._count:
            if not self._is_told:
                self._is_told = True
                logger.warning(
                    "job %d (%s) keeps its thread though its time is over, and so do %d others: no further thread takes the place of one, so fewer "
                    "jobs run at once until some return, or the worker is started anew", job.id, job.kind, lost,
                )  # fmt: skip
            return
        seat.is_lost = True
        logger.warning(
            "job %d (%s) keeps its thread %s though its time is over (%s), and its job was taken away: another thread takes its place, for %d of at most %d. "
            "A thread cannot be stopped: have the handler look at ctx.cancelled, or run it with process=True, which can",
            job.id, job.kind, seat.thread and seat.thread.name, seat.desk.reason() or "lost", lost + 1, self._count,
        )  # fmt: skip
        self._seat()
