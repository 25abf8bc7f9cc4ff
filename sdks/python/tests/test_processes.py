"""Whole programs: signals, forks, exits, the command line."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from programs import app_of, beside_jobs, with_jobs

from windlass import App

LONG = 60

JOBS = """
    import asyncio, os, sys, time
    import windlass.worker
    from windlass import App, Context

    app = App(f"sqlite:{os.path.dirname(os.path.abspath(__file__))}/jobs.db?synchronous=normal")

    @app.job("quick")
    async def quick(n: int = 0) -> int:
        return n + 1

    @app.job("slow")
    async def slow() -> None:
        print("slow begins", flush=True)
        await asyncio.sleep(60)

    @app.job("stuck")
    def stuck() -> None:
        windlass.worker.FAREWELL = 0.2  # it is waited for in vain
        print("stuck begins", flush=True)
        time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return with_jobs(tmp_path, JOBS)


def run(folder: Path, program: str, *, timeout: float = LONG) -> subprocess.CompletedProcess[str]:
    """Runs a program beside ``jobs.py``."""
    return subprocess.run(beside_jobs(folder, program), cwd=folder, capture_output=True, text=True, timeout=timeout, check=False)


def command(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "windlass", *args], cwd=folder, capture_output=True, text=True, timeout=LONG, check=False)


def begin(folder: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "windlass", *args], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_the_command_works_until_it_is_told_to_stop(folder: Path) -> None:
    app = app_of(folder)
    slow = enqueue(app, "slow")
    worker = begin(folder, "worker", "jobs:app", "--queue", "default=5")
    assert worker.stdout is not None and worker.stdout.readline() == "slow begins\n"
    worker.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGINT)  # the second hands it back at once
    out, err = worker.communicate(timeout=LONG)
    assert worker.returncode == 0, err
    assert "Traceback" not in err and "works default=5; kinds: quick, slow, stuck" in err, err
    job = app.sync.job(slow)
    assert job is not None and (job.state, job.attempt) == ("available", 0)


def test_what_the_program_had_for_a_signal_is_there_again_afterwards(folder: Path) -> None:
    done = run(
        folder,
        """
        import signal
        told = []
        signal.signal(signal.SIGTERM, lambda *_: told.append("the program"))
        async def main():
            workers = [asyncio.create_task(app.worker().run()) for _ in range(2)]
            await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.gather(*workers)
            print(told)
            os.kill(os.getpid(), signal.SIGTERM)
        asyncio.run(main())
        print(told)
        """,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n['the program']\n"), done


def test_a_handler_in_a_thread_that_never_ends_does_not_keep_the_process(folder: Path) -> None:
    app = app_of(folder)
    id = enqueue(app, "stuck")
    worker = begin(folder, "worker", "jobs:app")
    assert worker.stdout is not None and worker.stdout.readline() == "stuck begins\n"
    worker.send_signal(signal.SIGINT)
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=LONG)
    assert worker.returncode == 0 and "Traceback" not in err, err
    job = app.sync.job(id)
    assert job is not None and job.state == "available"


def enqueue(app: App, kind: str) -> int:
    @app.job(kind)
    def job() -> None: ...

    return job.enqueue_sync()


def test_the_command_names_what_is_wrong(folder: Path) -> None:
    for args, code, says in [
        (("worker", "nowhere:app"), 1, "there is no module 'nowhere'"),
        (("worker", "./shop/jobs.py"), 1, "is a file; name the module as an import does: windlass worker shop.jobs:app"),
        (("worker", "jobs.py:other"), 1, "windlass worker jobs:other"),
        (("worker", "jobs:nothing"), 1, "jobs has no 'nothing'; it has jobs:app"),
        (("worker", "jobs:app", "--queue", "mail"), 2, "write it as mail=50"),
        (("worker", "jobs:app", "--threads", "0"), 2, "threads must be at least 1"),
        (("jobs", "list", "--colour"), 2, "--colour"),
    ]:
        done = command(folder, *args)
        assert (done.returncode, says in done.stderr) == (code, True), (args, done)


def test_the_engines_own_commands_are_there(folder: Path) -> None:
    app = app_of(folder)
    enqueue(app, "quick")
    store = f"sqlite:{folder}/jobs.db"
    done = command(folder, "--store", store, "queues", "--json")
    assert done.returncode == 0 and '"available":1' in done.stdout.replace(" ", ""), done
    assert command(folder, "--version").stdout.startswith("windlass ")


def test_a_fork_opens_its_own_connection(folder: Path) -> None:
    done = run(
        folder,
        """
        first = quick.enqueue_sync(n=1)
        pid = os.fork()
        if pid == 0:
            quick.enqueue_sync(n=2)
            asyncio.run(quick.enqueue(n=3))
            async def work():
                async with app.worker() as worker:
                    await worker.until_idle()
            asyncio.run(work())
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        quick.enqueue_sync(n=4)
        print([job.args["n"] for job in sorted(app.sync.jobs().jobs, key=lambda job: job.id)])
        """,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1, 2, 3, 4]\n", ""), done


def test_a_worker_does_not_go_on_in_a_fork(folder: Path) -> None:
    done = run(
        folder,
        """
        async def main():
            async with app.worker() as worker:
                pid = os.fork()
                if pid == 0:
                    try:
                        worker._native.desk()
                    except Exception as error:
                        os.write(1, f"{type(error).__name__}: {error}".encode())
                    os._exit(0)
                os.waitpid(pid, 0)
        asyncio.run(main())
        """,
    )
    assert done.returncode == 0 and "after the fork" in done.stdout, done


def test_whoever_forgets_to_close_a_worker_loses_nothing(folder: Path) -> None:
    done = run(
        folder,
        """
        async def main():
            id = await slow.enqueue()
            worker = app.worker()
            await worker.start()
            while worker.stats["running"] == 0:
                await asyncio.sleep(0.01)
            sys.exit(5)
        asyncio.run(main())
        """,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (5, False), done
    [job] = app_of(folder).sync.jobs().jobs
    # Put off where it had begun, for no time.
    assert job.state in ("available", "scheduled") and job.attempt == 0, job


def test_ctrl_c_ends_a_call_that_waits(folder: Path) -> None:
    done = run(
        folder,
        """
        import signal, threading
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
        id = quick.enqueue_sync()
        try:
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            app.sync.wait(id, "1m")
        except KeyboardInterrupt:
            print("interrupted")
        """,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done


def test_many_event_loops_in_many_threads(folder: Path) -> None:
    done = run(
        folder,
        """
        import threading
        def enqueue(n):
            for _ in range(5):
                asyncio.run(quick.enqueue(n=n))
        quick.enqueue_sync()
        asyncio.run(quick.enqueue())
        before = len(os.listdir("/proc/self/fd"))
        threads = [threading.Thread(target=enqueue, args=(n,)) for n in range(20)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        import gc; gc.collect()
        print(app.sync.queues()[0].available, len(os.listdir("/proc/self/fd")) - before)
        """,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    available, descriptors = map(int, done.stdout.split())
    assert available == 102 and descriptors <= 4, done


@pytest.mark.skipif(os.environ.get("WINDLASS_ALLOW_SKIP") == "1", reason="slow")
def test_exchanges_and_calls_and_collections_at_once_do_not_lock(folder: Path) -> None:
    done = run(
        folder,
        """
        import gc, threading
        stop = threading.Event()
        def collect():
            while not stop.is_set():
                gc.collect()
        def enqueue():
            for n in range(200):
                quick.enqueue_sync(n=n)
        async def main():
            threads = [threading.Thread(target=collect), *(threading.Thread(target=enqueue) for _ in range(4))]
            async with app.worker(queues={"default": 50}) as worker:
                [thread.start() for thread in threads]
                for thread in threads[1:]:
                    await asyncio.to_thread(thread.join)
                stop.set()
                await worker.until_idle()
                print(worker.stats["completed"])
        asyncio.run(main())
        """,
    )
    assert (done.returncode, done.stdout) == (0, "800\n"), done


def test_a_signal_ends_a_worker_whose_store_does_not_answer(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"postgres://me@127.0.0.1:{server.getsockname()[1]}/shop?connect_timeout=3600&call_timeout=3600"
        worker = subprocess.Popen(
            [sys.executable, "-m", "windlass", "worker", "jobs:app"], cwd=folder, env={**os.environ, "WINDLASS_STORE": url}, stderr=subprocess.PIPE, text=True
        )
        connection, _ = server.accept()
        try:
            worker.send_signal(signal.SIGTERM)
            _, said = worker.communicate(timeout=LONG)
        finally:
            connection.close()
            worker.kill()
    assert worker.returncode == 0 and "Traceback" not in said, said


@pytest.mark.parametrize("call", ["quick.enqueue_sync()", "asyncio.run(quick.enqueue())", "asyncio.run(asyncio.wait_for(quick.enqueue(), 0.1))"])
def test_ctrl_c_ends_a_call_that_opens_a_store_that_does_not_answer(folder: Path, call: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"postgres://me@127.0.0.1:{server.getsockname()[1]}/shop?connect_timeout=3600&call_timeout=3600"
        program = subprocess.Popen(
            beside_jobs(folder, call), cwd=folder, env={**os.environ, "WINDLASS_STORE": url}, stderr=subprocess.PIPE, text=True
        )
        connection, _ = server.accept()
        try:
            if "wait_for" not in call:
                program.send_signal(signal.SIGINT)
            _, said = program.communicate(timeout=LONG)
        finally:
            connection.close()
            program.kill()
    assert ("TimeoutError" if "wait_for" in call else "KeyboardInterrupt") in said, said
