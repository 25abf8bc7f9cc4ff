"""The worker: jobs of async functions as tasks of the running event loop, those of plain functions in threads or child processes."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import functools
import os
import sys
import weakref
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Literal

from . import _logs, _native, _places
from ._around import Around
from ._forks import end_in_fork
from ._greenlets import patched_by
from ._in_thread import Left, in_thread
from ._pool import Pool
from ._pydantic import misfit
from ._shown import shown
from ._telling import logger
from ._twice import twice
from ._watch import Watch
from .args import encode
from .children import Child
from .connection import mailbox
from .context import Context, _current
from .duration import Duration, millis
from .errors import InvalidOption
from .handler import AnyHandler, Ended, Handler, each_of, failure, is_thrown_away, raised, returned, unfit
from .middleware import LayeredHandler
from .options import Backoff, refuse_other
from .outcome import Outcome, Retry
from .signals import signalled
from .threads import InThread

if TYPE_CHECKING:
    from ._program import Program
    from .job import Job

FAREWELL = 2.0  # seconds for handlers whose jobs were taken away
_MOST_THREADS = 32
_MOST_AT_ONCE = 256  # jobs that one turn of the event loop takes, but for a batch, which is never split
_running: weakref.WeakSet[_native.Worker] = weakref.WeakSet()
_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


class Worker:
    """Runs the jobs of an app. Made by :meth:`windlass.App.worker`::

        async with app.worker(queues={"mail": 20}):  # inside a program of your own
            ...
        await app.worker(queues={"mail": 20}).run()  # until Ctrl-C or SIGTERM
    """

    def __init__(
        self,
        app: Program,
        queues: Mapping[str, int] | None = None,
        *,
        threads: int | None = None,
        processes: int | None = None,
        name: str | None = None,
        program: str | None = None,
        app_version: str | None = None,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        grace_period: Duration | None = None,
        backoff: Backoff | None = None,
        settling: Literal["pipelined", "strict"] = "pipelined",
        accept_plain_args: bool = False,
    ) -> None:
        """
        :param queues: The queues that it works, with how many jobs of each run at once. By default those that the app's jobs name, with 10 each;
            one for each child process where all its jobs have ``process=True``.
        :param threads: How many threads run plain functions; by default as many as jobs run at once, 32 at most.
        :param processes: How many child processes run functions with ``process=True``; by default one for each processor.
        :param name: Its name for people; by default the host's and the process's.
        :param program: The name of the program, shown where workers are listed; by default that of its script.
        :param app_version: The version of the application, as you count: shown where workers are listed, so that people see how far a deploy is. By
            default what the environment variable ``WINDLASS_APP_VERSION`` says.
        :param timeout: How long an attempt may take, of jobs that do not say themselves.
        :param lease: How long it may be silent before others take its jobs; by default 30 s.
        :param grace_period: How long running jobs may go on when it stops; by default 30 s.
        :param backoff: How long failed attempts wait, of jobs that do not say themselves.
        :param settling: ``pipelined``: the next job begins while what became of the last is written; after a crash the jobs of some milliseconds
            run again. ``strict``: it begins when that is committed; after a crash no more than run at once.
        :param accept_plain_args: Takes plain args of encrypted kinds, too: those from before they were. Meanwhile whoever can write to the store
            can make up jobs of these.

        Raises :class:`windlass.errors.InvalidOption` for options that cannot be; some only when it starts.
        """
        self._app = app
        self._connection = app.connection
        self._around = Around(app.traces, tuple(app._middleware))
        self._jobs: dict[str, Job[...]] = {kind: self._around.job(job) for kind, job in app.jobs.items()}
        self._any = None if app._any is None else self._around.any(app._any)
        _places.at_least_one(threads, "threads")
        _places.at_least_one(processes, "processes")
        processors = os.cpu_count() or 1
        self._queues = _places.of_jobs(app.jobs.values(), processes or processors) if queues is None else _places.checked(queues)
        most = sum(self._queues.values())
        self._thread_count = min(_MOST_THREADS, most) if threads is None else threads
        self._process_count = processes or min(processors, most)
        if settling not in ("pipelined", "strict"):
            raise InvalidOption(f"settling must be 'pipelined' or 'strict', got {settling!r}")
        self._spec: dict[str, Any] = {"queues": list(self._queues.items()), "name": name, "accept_plain_args": accept_plain_args}
        self._spec |= {"program": program or _this_program(), "app_version": app_version, "language": "Python"}
        self._spec["strict"] = settling == "strict"
        self._spec["rules"] = {kind: rules for kind, job in self._jobs.items() if (rules := job.options._of_kind())}
        self._spec["encrypted_kinds"] = [kind for kind, job in self._jobs.items() if job.options.encrypted]
        for option, value in (("timeout", timeout), ("lease", lease), ("grace_period", grace_period)):
            if value is not None:
                self._spec[f"{option}_ms"] = millis(value, option)
        refuse_other("backoff", backoff, Backoff, "'1m'")
        if backoff is not None:
            self._spec["retry_policy"] = backoff._spec()
        self._pools: list[Pool] = []
        self._native: _native.Worker | None = None
        self._process = os.getpid()
        self._most = _MOST_AT_ONCE
        self._waits = True
        self._tasks: dict[_native.Job, asyncio.Task[None]] = {}
        self._batches: dict[asyncio.Task[None], list[_native.Job]] = {}
        self._reasons: dict[_native.Job, str] = {}
        self._reason_of: Callable[[_native.Job], str | None] = self._reasons.get
        self._completed: list[_native.Job] = []
        self._others: list[_native.Ended] = []
        self._is_due = False
        self._is_starting = False
        self._is_stopping = False
        self._interrupts = 0
        self._is_told = asyncio.Event()

    async def start(self) -> None:
        """Registers with the store and begins to run jobs."""
        if self._native is not None or self._is_starting:
            raise InvalidOption("the worker was started before; make a new one with app.worker()")
        self._is_starting = True
        try:
            await self._start()
        finally:
            self._is_starting = False

    async def _start(self) -> None:
        _refuse_greenlets()
        children = {kind: job for kind, job in self._jobs.items() if job.in_child}
        plain = {kind: job for kind, job in self._jobs.items() if not job.handler.is_async and not job.batching}
        blocking = {kind: job.handler for kind, job in plain.items() if kind not in children}
        self._spec["child_kinds"], self._spec["blocking_kinds"] = list(children), list(blocking)
        self._spec["kinds"] = [kind for kind, job in self._jobs.items() if kind not in plain and not job.batching]
        self._spec["batches"] = [
            {"kind": kind, "max_size": job.batching.max_size, "wait_ms": job.batching.wait_ms if self._waits else 0}
            for kind, job in self._jobs.items()
            if job.batching
        ]
        for kind, job in children.items():
            if job.handler.function.__module__ == "__main__":
                raise InvalidOption(
                    f"{kind} has process=True, and a child process cannot import {job.handler.function.__qualname__} from __main__: "
                    "run `windlass worker MODULE:APP`, or move the function into a module"
                )
        if self._any is not None:
            self._spec["any"] = "desk" if self._any.is_async else "blocking"
        elif not self._jobs:
            raise InvalidOption(f"the app has no jobs; {twice() or 'decorate a function with @app.job, and import its module'}")
        _logs.listen()  # the logger's level may be another than when the store was opened
        connection = self._app.connection
        # In threads that keep no process from ending: whose store does not answer may be told to stop.
        client = await in_thread(lambda on: on.native(), connection)
        await self._app.declare_schedules()
        self._loop, self._context = asyncio.get_running_loop(), contextvars.copy_context()
        self._ended = self._loop.create_future()
        self._left = Left(self._thread_count)
        native = await in_thread(lambda spec: _native.Worker(client, spec), encode(self._spec))
        try:
            self._serve(native, blocking, children)
        except BaseException:
            native.abort()  # what it took already goes back: nobody would run it
            for pool in self._pools:
                pool.join(0.0)
            self._pools.clear()
            raise
        self._native = native
        _running.add(native)
        _workers.add(self)
        self._exchange()

    def _serve(self, native: _native.Worker, blocking: dict[str, Handler], children: dict[str, Job[...]]) -> None:
        """Has its jobs run."""
        connection = self._app.connection
        if blocking or (self._any is not None and not self._any.is_async):
            self._pools.append(Pool(self._thread_count, native.thread_desk, lambda: InThread(blocking, self._any, connection), "windlass-job"))
        if children:
            self._pools.append(Pool(self._process_count, native.child_desk, lambda: self._around.child(Child(children, connection), connection), "windlass-child"))
        self._desk = native.desk()
        self._watch = Watch(self._loop, self._holder)
        self._loop.add_reader(self._desk.fileno(), self._exchange)
        self._until_end = self._loop.create_task(self._until_ended(), name="windlass-worker")

    async def _until_ended(self) -> None:
        # Whoever ends the event loop cancels all its tasks, this one among them: what would begin from here on could not end.
        try:
            await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            self._most = 0
            self.stop()
            raise

    async def run(self) -> None:
        """Works until SIGINT or SIGTERM, then lets running jobs end within the grace period; a second signal hands them back at once."""
        with signalled(self._signalled, self._interrupted):
            try:
                if not await self._begin():
                    return
                if self._is_stopping:
                    self.stop()
                await self.wait()
            except asyncio.CancelledError:
                if self._native is not None:  # it may have begun in this moment
                    self.stop()
                raise

    async def _begin(self) -> bool:
        """Starts. Whether it has before a signal came: a store that does not answer keeps nobody."""
        starting, told = asyncio.ensure_future(self.start()), asyncio.ensure_future(self._is_told.wait())
        try:
            await asyncio.wait((starting, told), return_when=asyncio.FIRST_COMPLETED)
            if self._native is None and not starting.done():
                return False
            await starting
            return True
        finally:
            told.cancel()
            starting.cancel()

    async def wait(self) -> None:
        """Waits for the worker's end."""
        self._started()
        await asyncio.shield(self._ended)
        if tasks := self._going_on():
            await asyncio.wait(tasks, timeout=FAREWELL)
            self._warn_of(self._going_on())
        for pool in self._pools:
            if not await asyncio.to_thread(pool.join, FAREWELL):
                logger.warning("a handler goes on in its thread, though its job was taken away when the worker ended")

    def _going_on(self) -> set[asyncio.Task[None]]:
        """The tasks of jobs that go on: when the worker has ended, though these were taken away."""
        return {task for task in (*self._tasks.values(), *self._batches) if not task.done() and task is not asyncio.current_task()}

    def _warn_of(self, left: set[asyncio.Task[None]]) -> None:
        jobs = [job for job, task in self._tasks.items() if task in left] + [job for task in left for job in self._batches.get(task, ())]
        for job in jobs:
            logger.warning("job %d (%s) goes on though it was taken away: its handler swallows CancelledError, or takes long to end by it", job.id, job.kind)

    async def close(self) -> None:
        """Ends: running jobs have the grace period, what has not begun goes back."""
        self._started().stop()
        await self.wait()

    async def until_idle(self) -> None:
        """Waits until nothing is available to the worker and nothing runs; for tests."""
        native = self._started()
        await mailbox().call(lambda port, number: native.start_wait(port, number, True))

    def stop(self) -> None:
        """Begins to end, and does not wait."""
        self._started().stop()

    def abort(self) -> None:
        """Hands running jobs back at once."""
        self._started().abort()

    @property
    def stats(self) -> dict[str, int]:
        """How many jobs it claimed, completed, retried, snoozed, cancelled, discarded, had no handler for (``no_handler``), returned and
        settled, and how many outcomes came too late (``refused``); how many jobs run, are ``ready`` to, and are ``unsettled`` now."""
        return dict(self._started().stats())

    async def __aenter__(self) -> Worker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _started(self) -> _native.Worker:
        if self._native is None:
            raise InvalidOption("the worker is not started; await worker.start() or worker.run()")
        if self._process != os.getpid():
            raise InvalidOption(
                f"the worker was started in process {self._process} and this is its fork {os.getpid()}, which has none of its threads; "
                "start one of its own after the fork"
            )
        return self._native

    def _interrupted(self) -> None:
        # Between any two steps of the main thread: it takes no lock that this may have, and so says nothing. The event loop does that, if it goes on.
        self._interrupts += 1
        if self._native is None:
            return
        if self._interrupts == 1:
            self._native.stop()
        else:
            self._native.abort()

    def _signalled(self) -> None:
        is_first, self._is_stopping = not self._is_stopping, True
        self._is_told.set()
        if self._native is None:
            return  # what comes of its start is stopped
        if is_first:
            logger.info("stopping: running jobs may end; a second signal hands them back at once")
            self._native.stop()
        else:
            self._native.abort()

    def _exchange(self) -> None:
        """Hands in what is done and starts what comes: once in each turn of the event loop at most."""
        self._is_due = False
        completed, self._completed = self._completed, []
        others, self._others = self._others, []
        jobs, told, more, is_closed = self._desk.exchange(completed, others, self._most)
        if told:  # first, so that who is to stop does so before others begin in its place
            self._tell(told)
        batches: dict[int, list[_native.Job]] = {}
        tasks, known, create_task = self._tasks, self._jobs, _task_maker(self._loop)
        for job in jobs:
            of = known.get(job.kind)
            if of is not None and of.batching:
                batches.setdefault(job.batch, []).append(job)
            else:
                task = create_task(self._run(job, self._any_handler() if of is None else of.handler))
                if not task.done():  # as it is where a factory begins tasks at once, and this one waited for nothing
                    tasks[job] = task
        for batch in batches.values():
            self._start_batch(known[batch[0].kind], batch)
        if more and self._most:
            self._hurry()
        if is_closed and not self._ended.done():
            self._loop.remove_reader(self._desk.fileno())
            self._watch.end()
            self._ended.set_result(None)

    def _holder(self) -> str | None:
        """Which job the event loop runs in this moment, in words, for another thread; ``None`` where it has none."""
        if not self._tasks and not self._batches:
            return None
        task = asyncio.current_task(self._loop)
        for job, its in list(self._tasks.items()):
            if its is task:
                return f"job {job.id} ({job.kind})"
        jobs = self._batches.get(task) if task is not None else None
        if jobs:
            return f"a batch of {len(jobs)} jobs ({jobs[0].kind})"
        return "no job that Windlass knows"

    def _hurry(self) -> None:
        if not self._is_due:
            end_in_fork(self._process)
            self._is_due = True
            # In the worker's own context: the caller may be a handler, and the next job's task would begin with what that has set.
            self._loop.call_soon(self._exchange, context=self._context)

    def _tell(self, told: list[tuple[int, str | None]]) -> None:
        """Stops jobs: in one look at all that run, since a shutdown tells all of them at once."""
        reasons: dict[int, str] = {}
        for ticket, reason in told:
            reasons.setdefault(ticket, reason or "lost")
        for job, task in self._tasks.items():
            if job.ticket in reasons:
                self._reasons.setdefault(job, reasons[job.ticket])
                task.cancel()
        for task, jobs in self._batches.items():
            meant = [job for job in jobs if job.ticket in reasons]
            for job in meant:
                self._reasons.setdefault(job, reasons[job.ticket])
            # A batch goes on for those of its jobs that may.
            if meant and all(job in self._reasons for job in jobs):
                task.cancel()

    def _any_handler(self) -> Handler | AnyHandler:
        assert self._any is not None  # no other jobs come of a kind that has no handler
        return self._any

    async def _run(self, job: _native.Job, handler: Handler | AnyHandler) -> None:
        # Once for each job, 2.6 us of the interpreter at best: what only some jobs need is not made here.
        try:
            context = Context(job, self._connection, self._reason_of)
            _current.set(context)
            value = await handler.call(job, context)
            if value is None:
                self._completed.append(job)
            else:
                self._end(job, returned(value, handler.function.__qualname__))
        except asyncio.CancelledError:
            self._end(job, self._stopped(self._reasons.get(job)))
        except BaseException as error:  # also SystemExit: it ends the job, not the worker
            if is_thrown_away(error, self._loop):
                raise
            end_in_fork(self._process, error)
            self._end(job, raised(error, job))
        self._tasks.pop(job, None)
        if self._reasons:
            self._reasons.pop(job, None)
        if not self._is_due:
            self._hurry()

    def _start_batch(self, job: Job[...], batch: list[_native.Job]) -> None:
        task = self._loop.create_task(self._run_batch(job, batch))
        self._batches[task] = batch
        task.add_done_callback(self._forget)

    async def _run_batch(self, job: Job[...], jobs: list[_native.Job]) -> None:
        ended: list[Ended | None] | None
        handler, fit = job.handler, jobs
        call = functools.partial(self._call_batch, handler)
        try:
            fit, args = self._read(job, jobs)
            if not fit:
                return
            if isinstance(handler, LayeredHandler):
                ended = self._of_each(fit, await handler.call_each(self._contexts(fit), args, call, job.kind), job.kind)
            else:
                value = await call(self._contexts(fit) if handler.takes_context else [], args)
                ended = None if value is None else _of_batch(value, len(fit), job.kind)
        except asyncio.CancelledError:
            stopped = self._stopped(next((self._reasons[one] for one in fit if one in self._reasons), None))
            ended = [stopped for _ in fit]
        except BaseException as error:
            if is_thrown_away(error, self._loop):
                raise
            end_in_fork(self._process, error)
            what = raised(error, fit[0])
            ended = [what for _ in fit]
        end_in_fork(self._process)
        if ended is None:
            self._completed += fit
        else:
            for one, said in zip(fit, ended):
                self._end(one, said)

    async def _call_batch(self, handler: Handler, contexts: list[Context], args: list[Any]) -> Any:
        call = functools.partial(handler.call_batch, contexts)
        if handler.is_async:
            return await call(args)
        await self._left.room(handler.function.__qualname__)
        return await in_thread(call, args, self._left)

    def _of_each(self, jobs: list[_native.Job], outcomes: list[Outcome], kind: str) -> list[Ended | None]:
        """What became of the jobs of a batch that have middleware around them; what was raised for several is told once."""
        ended: list[Ended | None] = []
        told: set[int] = set()
        for job, outcome in zip(jobs, outcomes):
            cause = outcome._raised if isinstance(outcome, Retry) else None
            if cause is None:
                ended.append(returned(outcome, kind))
            elif isinstance(cause, asyncio.CancelledError):
                ended.append(self._stopped(self._reasons.get(job)))
            else:
                ended.append(failure(cause) if id(cause) in told else raised(cause, job))
                told.add(id(cause))
        return ended

    def _stopped(self, reason: str | None) -> Ended:
        """What becomes of a job whose task was cancelled: by us for a reason; by whoever ends the event loop, which is no failure of the job (told
        apart from Python 3.11 on); or by itself, which is one: it would do so again at once."""
        if reason is None and self._loop_ends() and is_cancelled(asyncio.current_task()):
            return "snooze", 0.0, None
        return "retry", None, f"stopped: {reason or 'the handler was cancelled'}"

    def _loop_ends(self) -> bool:
        return self._most == 0 or is_cancelled(self._until_end)

    def _contexts(self, jobs: list[_native.Job]) -> list[Context]:
        return [Context(job, self._connection, self._reason_of) for job in jobs]

    def _read(self, job: Job[...], jobs: list[_native.Job]) -> tuple[list[_native.Job], list[Any]]:
        """The jobs whose args fit, and their args; the others are discarded."""
        model = job.handler.model
        if model is None:
            try:
                return jobs, _native.args_of(jobs)
            except Exception:
                pass  # one of them: which one it is shows below
        fit: list[_native.Job] = []
        args: list[Any] = []
        others: list[_native.Ended] = []  # handed in when all are read: whatever is raised here ends all of them
        for one in jobs:
            try:
                args.append(model.read(one) if model else one.args)
                fit.append(one)
            except Exception as error:
                others.append((one, *unfit(one, shown(error, misfit))._told()))
        self._others += others
        return fit, args

    def _end(self, job: _native.Job, ended: Ended | None) -> None:
        if ended is None:
            self._completed.append(job)
        else:
            self._others.append((job, *ended))

    def _forget(self, task: asyncio.Task[None]) -> None:
        jobs = self._batches.pop(task)
        if task.cancelled():  # by somebody, before its first step
            self._others += [(job, "snooze", 0.0, None) for job in jobs]
        if self._reasons:
            for job in jobs:
                self._reasons.pop(job, None)
        self._hurry()


def _task_maker(loop: asyncio.AbstractEventLoop) -> Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]:
    """What ``loop.create_task`` comes to, at half the cost where it is asyncio's own. One name for all: a number for each costs 0.2 us."""
    if type(loop).create_task is asyncio.BaseEventLoop.create_task and loop.get_task_factory() is None:
        return functools.partial(asyncio.Task, loop=loop, name="windlass-job")
    return loop.create_task


def is_cancelled(task: asyncio.Task[Any] | None) -> bool:
    """Whether somebody has cancelled a task, though it goes on as yet; Python 3.10 does not know."""
    cancelling = getattr(task, "cancelling", None)
    return cancelling is not None and cancelling() > 0


def _of_batch(value: Any, count: int, kind: str) -> list[Ended | None]:
    """What became of each job of a batch, where something is said."""
    return [returned(one, kind) for one in each_of(value, count, kind)]


def _this_program() -> str | None:
    script = os.path.basename(sys.argv[0]) if sys.argv else ""
    return None if script.startswith("-") else "".join(char for char in script if char.isprintable())[:50] or None


def _refuse_greenlets() -> None:
    name = patched_by()
    if name:
        raise InvalidOption(
            f"{name} has replaced the threads of this process, and a worker needs real ones: run it in a process of its own, "
            "with `windlass worker MODULE:APP`; enqueuing works here"
        )


def _at_exit() -> None:
    # Whoever forgot to close it: what runs goes back to the store, where others take it at once.
    for native in list(_running):
        native.abort()
    for native in list(_running):
        native.wait(3.0)


def _forked() -> None:
    """The workers of the parent are not this process's to stop."""
    _of_parents.extend(_running)
    _running.clear()
    for worker in list(_workers):
        worker._is_due = False  # so that who comes back from the handler that forked is seen at once


_of_parents: list[_native.Worker] = []  # never dropped here: their threads are in another process
atexit.register(_at_exit)
os.register_at_fork(after_in_child=_forked)
