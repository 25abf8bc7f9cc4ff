"""What goes wrong around a native library that has threads, as whole programs: forks, greenlets, interpreters, signals, processes that stand still."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from programs import app_of, beside_jobs, with_jobs
from worked import record

from windlass import App, JobRecord

LONG = 60

JOBS = """
    import asyncio, logging, os, sys, time
    import windlass.worker, windlass._farewell
    from windlass import App, Context
    from windlass.errors import WindlassError

    FOLDER = os.path.dirname(os.path.abspath(__file__))
    app = App(f"sqlite:{FOLDER}/jobs.db?synchronous=normal")

    @app.job("quick")
    async def quick(n: int = 0) -> int:
        return n + 1

    @app.job("slow")
    async def slow() -> None:
        print("slow begins", flush=True)
        await asyncio.sleep(60)

    @app.job("held")
    async def held() -> str:
        print("held begins", flush=True)
        while not os.path.exists(f"{FOLDER}/free"):
            time.sleep(0.01)  # the event loop stands still
        return "the first"

    @app.job("in.thread")
    def in_thread() -> None:
        windlass.worker.FAREWELL = 0.2  # it is waited for in vain
        print("in.thread begins", flush=True)
        time.sleep(60)

    @app.job("in.child", process=True)
    def in_child() -> None:
        print("in.child begins", flush=True)
        time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return with_jobs(tmp_path, JOBS)


def begin(folder: Path, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(beside_jobs(folder, program), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(folder: Path, program: str) -> str:
    """What a program printed that ended well, without a word of complaint."""
    begun = begin(folder, program)
    try:
        out, err = begun.communicate(timeout=LONG)
    finally:
        begun.kill()
    assert (begun.returncode, err) == (0, ""), (begun.returncode, out, err)
    return out


def says(program: subprocess.Popen[str], line: str) -> None:
    assert program.stdout is not None
    said = program.stdout.readline()
    assert said == f"{line}\n", (said, program.stderr and program.poll() is not None and program.stderr.read())


def enqueue(app: App, kind: str) -> int:
    @app.job(kind)
    async def job() -> str:
        return "the second"

    return job.enqueue_sync()


def test_gunicorn_with_preload(folder: Path) -> None:
    """What the master opened before it forked is not what its workers use."""
    (folder / "web.py").write_text(
        textwrap.dedent(
            """
            import os
            from jobs import quick

            quick.enqueue_sync(n=0)  # opens the store in the master

            def web(environ, start_response):
                id = quick.enqueue_sync(n=1)
                start_response("200 OK", [("Content-Type", "text/plain")])
                return [f"{id} {os.getpid()}".encode()]
            """
        )
    )
    server = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:0", "--no-control-socket", "web:web"],
        cwd=folder, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stderr is not None
        lines = []
        while not (port := re.search(r"Listening at: http://127.0.0.1:(\d+)", (lines.append(server.stderr.readline()), lines[-1])[1])):
            assert lines[-1], lines
        ids, workers = set(), set()
        # A worker that has not answered yet may miss the signal that ends it: gunicorn's own affair.
        while len(ids) < 20 or len(workers) < 2:
            connection = http.client.HTTPConnection("127.0.0.1", int(port[1]), timeout=20)
            connection.request("GET", "/")
            id, worker = connection.getresponse().read().split()
            ids.add(int(id))
            workers.add(worker)
            connection.close()
            time.sleep(0.01)  # the second worker may take seconds to come, and the list below has 1,000 jobs
        server.terminate()
        _, err = server.communicate(timeout=20)
    finally:
        server.kill()
    assert server.returncode == 0 and "Traceback" not in err, err
    [before] = [job.id for job in app_of(folder).sync.jobs(limit=1000).jobs if job.id not in ids]
    assert before < min(ids)


def test_a_prefork_parent_with_a_worker(folder: Path) -> None:
    """As Celery's and multiprocessing's: a child does not go on with its parent's worker, and may have one of its own."""
    out = run(
        folder,
        """
        import multiprocessing

        def child(worker):
            for use in (worker.stop, worker.abort, lambda: worker.stats):
                try:
                    use()
                except WindlassError as error:
                    assert "start one of its own after the fork" in str(error), error
                else:
                    raise AssertionError("the parent's worker is used")
            async def work():
                async with app.worker() as own:
                    await own.until_idle()
                return own.stats["completed"]
            quick.enqueue_sync(n=1)
            print("in the child", asyncio.run(work()), flush=True)

        async def main():
            async with app.worker(queues={"other": 1}) as worker:
                process = multiprocessing.get_context("fork").Process(target=child, args=(worker,))
                process.start()
                await asyncio.to_thread(process.join)
                print(process.exitcode, worker.stats["running"])

        asyncio.run(main())
        """,
    )
    assert out == "in the child 1\n0 0\n"


def test_forks_while_the_store_is_busy(folder: Path) -> None:
    """SQLite's locks would be copied in the midst of a transaction, and a child would wait for ever for one that nobody ends."""
    out = run(
        folder,
        """
        import os
        import threading

        forked, ids = threading.Event(), []

        def busy():
            while not forked.is_set():
                ids.append(quick.enqueue_sync(n=0))

        threads = [threading.Thread(target=busy) for _ in range(3)]
        for thread in threads:
            thread.start()
        codes = []
        for n in range(20):
            child = os.fork()
            if child == 0:
                quick.enqueue_sync(n=1)
                os._exit(0)
            codes.append(os.waitpid(child, 0)[1])
        forked.set()
        for thread in threads:
            thread.join()
        available = app.sync.queues()[0].available
        print(codes == [0] * 20, available == len(ids) + 20, len(set(ids)) == len(ids) > 20)
        """,
    )
    assert out == "True True True\n"


def test_gevent(folder: Path) -> None:
    """Under its monkey patches enqueuing works, and a worker says why it does not."""
    (folder / "jobs.py").write_text("import gevent.monkey\ngevent.monkey.patch_all()\n" + (folder / "jobs.py").read_text())
    out = run(
        folder,
        """
        import gevent

        jobs = [gevent.spawn(quick.enqueue_sync, n=n) for n in range(10)]
        gevent.joinall(jobs, raise_error=True)
        try:
            app.run_worker()
        except WindlassError as error:
            print(len({job.value for job in jobs}), error)
        """,
    )
    assert out.startswith("10 gevent has replaced the threads of this process, and a worker needs real ones"), out


def test_a_subinterpreter_is_refused(folder: Path) -> None:
    out = run(
        folder,
        """
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        quick.enqueue_sync()
        one = interpreters.create()
        interpreters.run_string(one, '''
        try:
            import windlass
        except ImportError as error:
            print(error, flush=True)
        ''')
        interpreters.destroy(one)
        quick.enqueue_sync()
        """,
    )
    assert out.startswith("windlass does not work in subinterpreters: import it in the main one"), out


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.run() lets a program end itself on Ctrl-C from Python 3.11 on")
@pytest.mark.parametrize("kind", ["slow", "in.thread", "in.child"])
def test_ctrl_c_hands_back_what_runs(folder: Path, kind: str) -> None:
    """In a program that has a worker inside: its own `finally` runs, and the job is there for others."""
    app = app_of(folder)
    id = enqueue(app, kind)
    program = begin(
        folder,
        """
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it

        async def main():
            try:
                async with app.worker(grace_period=0.05):
                    await asyncio.sleep(60)
            finally:
                print("ended", flush=True)

        asyncio.run(main())
        """,
    )
    says(program, f"{kind} begins")
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=LONG)
    assert (out, program.returncode) == ("ended\n", -signal.SIGINT) and "KeyboardInterrupt" in err, (out, err)
    job = app.sync.job(id)
    assert job is not None and (job.state, job.attempt, job.errors) == ("available", 0, []), job


@pytest.mark.parametrize("kind", ["slow", "in.thread", "in.child"])
def test_the_interpreter_may_end_while_a_worker_works(folder: Path, kind: str) -> None:
    app = app_of(folder)
    id = enqueue(app, kind)
    program = begin(
        folder,
        """
        import threading, windlass._pool
        windlass._pool.LOOK = 60  # a machine with much to do may have a handler look late, which is said then
        started = threading.Event()

        async def main():
            await app.worker().start()
            started.set()
            await asyncio.sleep(60)

        threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
        started.wait()
        while not os.path.exists(f"{FOLDER}/free"):
            time.sleep(0.01)
        """,
    )
    says(program, f"{kind} begins")
    (folder / "free").touch()
    _, err = program.communicate(timeout=LONG)
    # The engine says that it hands jobs back, and nobody else complains.
    assert program.returncode == 0 and err.splitlines() == ["windlass_runtime::shutdown: handing back running jobs now running=1"], err
    job = app.sync.job(id)
    assert job is not None and (job.state, job.attempt, job.errors) == ("available", 0, []), job


BLOCKS = """
    @app.job("blocks")
    async def blocks() -> None:
        print("blocks begins", flush=True)
        time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_heard_while_the_event_loop_stands_still(tmp_path: Path, number: signal.Signals) -> None:
    """The first begins the grace period, the second hands back at once, and where the loop tells of neither a third one ends the process."""
    folder = with_jobs(tmp_path, JOBS + BLOCKS)
    app = app_of(folder)
    id = enqueue(app, "blocks")
    command = [sys.executable, "-m", "windlass", "worker", "jobs:app", "--grace-period", "1h"]
    program = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    says(program, "blocks begins")
    program.send_signal(number)
    time.sleep(0.1)
    assert record(app, id).state == "running"
    program.send_signal(number)
    until = time.monotonic() + 30
    while record(app, id).state != "available":
        assert time.monotonic() < until and program.poll() is None
        time.sleep(0.05)
    time.sleep(1.1)
    program.send_signal(number)
    _, err = program.communicate(timeout=30)
    assert program.returncode == -number and "Traceback" not in err, err
    assert (record(app, id).attempt, record(app, id).errors) == (0, [])


def test_a_signal_that_came_while_the_event_loop_stood_still_counts_once(folder: Path) -> None:
    app = app_of(folder)
    id = enqueue(app, "held")
    program = begin(folder, "app.run_worker(grace_period=60)")
    says(program, "held begins")
    program.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    (folder / "free").touch()
    _, err = program.communicate(timeout=30)
    assert (program.returncode, record(app, id).state, record(app, id).result) == (0, "completed", "the first"), err


STUBBORN = """
    @app.job("stubborn")
    async def stubborn() -> None:
        windlass.worker.FAREWELL = windlass._farewell.FAREWELL = 0.2  # it is waited for in vain
        print("stubborn begins", flush=True)
        await asyncio.create_task(swallow())

    async def swallow() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
"""


@pytest.mark.parametrize("how", ["command", "run_worker"])
def test_a_worker_ends_whose_handler_swallows_its_cancellation(tmp_path: Path, how: str) -> None:
    """Also in a task of its own. The loop is the worker's, so nobody else waits for what goes on in it."""
    folder = with_jobs(tmp_path, JOBS + STUBBORN)
    app = app_of(folder)
    id = enqueue(app, "stubborn")
    if how == "command":
        command = [sys.executable, "-m", "windlass", "worker", "jobs:app", "--grace-period", "100ms"]
        program = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    else:
        program = begin(folder, "app.run_worker(grace_period=0.1)\nprint('ended', flush=True)")
    says(program, "stubborn begins")
    program.send_signal(signal.SIGTERM)
    out, err = program.communicate(timeout=30)
    assert (out, program.returncode) == ("" if how == "command" else "ended\n", 0), err
    assert f"job {id} (stubborn) goes on though it was taken away: its handler swallows CancelledError" in err
    assert "pending" not in err and "Traceback" not in err, err
    job = app.sync.job(id)
    assert job is not None and (job.state, job.attempt, job.errors) == ("available", 0, []), job


WORKER = "asyncio.run(app.worker(lease=1).run())"


def elsewhere(folder: Path, id: int) -> JobRecord:
    """Works a job in this process, and gives it when it has ended."""
    app = app_of(folder)

    @app.job("held")
    async def held() -> str:
        return "the second"

    async def main() -> JobRecord | None:
        async with app.worker(lease=1):
            return await app.client.wait(id, LONG)

    job = asyncio.run(main())
    assert job is not None
    return job


def test_a_killed_workers_job_runs_again_elsewhere(folder: Path) -> None:
    id = enqueue(app_of(folder), "held")
    program = begin(folder, WORKER)
    says(program, "held begins")
    program.kill()
    program.communicate()
    job = elsewhere(folder, id)
    assert (job.state, job.result, job.attempt, job.crash_count) == ("completed", "the second", 1, 1)


LOCKS = """
import sqlite3
db = sqlite3.connect("jobs.db", timeout=0, isolation_level=None)
db.execute("BEGIN IMMEDIATE")
"""


def stand_still(program: subprocess.Popen[str], folder: Path) -> None:
    """Stops a program outside its transactions: one that stands still within a write holds SQLite's lock, and nobody else can go on.

    Another process tries the lock: this one would lose its own locks of the file when it closes it a second time.
    """
    program.send_signal(signal.SIGSTOP)
    while err := subprocess.run([sys.executable, "-c", LOCKS], cwd=folder, capture_output=True, text=True).stderr:
        assert "database is locked" in err, err
        program.send_signal(signal.SIGCONT)
        time.sleep(0.01)
        program.send_signal(signal.SIGSTOP)


def test_what_a_worker_says_that_stood_still_for_three_leases_is_refused(folder: Path) -> None:
    app = app_of(folder)
    id = enqueue(app, "held")
    program = begin(folder, WORKER)
    says(program, "held begins")
    stand_still(program, folder)
    stopped = time.monotonic()
    job = elsewhere(folder, id)
    assert (job.state, job.result) == ("completed", "the second")
    time.sleep(max(0, 3 - (time.monotonic() - stopped)))
    (folder / "free").touch()
    program.send_signal(signal.SIGCONT)
    # It is well again, and works on.
    next = enqueue_held(app)
    assert app.sync.wait(next, LONG)
    program.terminate()
    _, err = program.communicate(timeout=LONG)
    assert program.returncode == 0 and "Traceback" not in err, err
    again = app.sync.job(id)
    assert again is not None and (again.result, again.attempt) == ("the second", 1)
    assert app.sync.result(next) == "the first"


def enqueue_held(app: App) -> int:
    return app.jobs["held"].enqueue_sync()


def test_the_engine_speaks_to_pythons_logging(folder: Path) -> None:
    program = """
        logging.basicConfig(level=LEVEL, format="%(levelname)s %(name)s %(message)s", stream=sys.stdout)

        async def main():
            await quick.enqueue()
            async with app.worker() as worker:
                await worker.until_idle()
                app.sync.cancel_where(queue="default")

        asyncio.run(main())
    """
    assert run(folder, program.replace("LEVEL", "logging.WARNING")) == ""
    assert "INFO windlass.engine windlass::audit: jobs were touched" in run(folder, program.replace("LEVEL", "logging.INFO"))
