"""Handlers that fork: their children are no workers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from programs import beside_jobs, with_jobs

LONG = 60

JOBS = """
    import asyncio, os, sys
    from windlass import App

    app = App(f"sqlite:{os.path.dirname(os.path.abspath(__file__))}/jobs.db?synchronous=normal")

    def forked(how):
        pid = os.fork()
        if pid == 0:
            if how == "exit":
                sys.exit(3)
            if how == "raise":
                raise ValueError("of the child")
            if how == "closed":
                sys.stderr.close()
                raise ValueError("that nobody hears of")
            if how == "odd":
                raise SyntaxError("no line", ("t.html", 1, "7", "{{ x"))
        return pid

    def code_of(pid):
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if pid else "from the child"

    @app.job("task")
    async def task(how):
        pid = forked(how)
        return await asyncio.to_thread(code_of, pid) if pid else "from the child"

    @app.job("thread")
    def thread(how):
        return code_of(forked(how))

    @app.batch("batch")
    async def batch(args):
        pid = forked(args[0]["how"])
        return [await asyncio.to_thread(code_of, pid)] if pid else ["from the child"]

    @app.batch("batch.thread")
    def batch_thread(args):
        return [code_of(forked(args[0]["how"]))]

    @app.job("child", process=True)
    def child(how):
        return code_of(forked(how))

    @app.job("beside")
    async def beside(n):
        return n
"""

PROGRAM = """
    async def main():
        async with app.worker(queues={"default": 5}, threads=2, processes=1) as worker:
            for how in ("return", "exit", "raise", "odd", "closed"):
                [id] = await app.jobs["KIND"].enqueue_many([{"how": how}])
                job = await app.client.wait(id, "60s")
                print(how, job.state, job.result, job.attempt, flush=True)
            for id in await beside.enqueue_many([{"n": n} for n in range(20)]):
                assert (await app.client.wait(id, "60s")).state == "completed"
            print(worker.stats["refused"])

    asyncio.run(main())
    print("the end", flush=True)
"""


@pytest.mark.parametrize("kind", ["task", "thread", "batch", "batch.thread", "child"])
def test_a_child_that_comes_back_from_its_handler_ends(tmp_path: Path, kind: str) -> None:
    """It has copies of the event loop, the threads and the channel of its parent, and would take what is told there."""
    folder = with_jobs(tmp_path, JOBS)
    program = beside_jobs(folder, PROGRAM.replace("KIND", kind))
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=LONG, check=False)
    says = ["return completed 1 1", "exit completed 3 1", "raise completed 1 1", "odd completed 1 1", "closed completed 1 1", "0", "the end"]
    assert (done.returncode, done.stdout.splitlines()) == (0, says), done.stderr
    assert "End such a process by os._exit()" in done.stderr and "ValueError: of the child" in done.stderr
    assert "SyntaxError, which cannot be shown" in done.stderr


SIGNALLED = """
    import signal, time

    @app.job("signalled")
    def signalled():
        begun, begins = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(begins, b"1")
            time.sleep(60)
            os._exit(0)
        os.read(begun, 1)  # Python forgets what came in the midst of a fork
        os.kill(pid, signal.SIGTERM)
        return code_of(pid)

    async def main():
        worker = app.worker()
        run = asyncio.create_task(worker.run())
        for _ in range(2):
            job = await app.client.wait(await signalled.enqueue(), "60s")
            print(job.state, job.result, run.done(), flush=True)
        worker.stop()
        await run

    asyncio.run(main())
"""


def test_a_signal_for_a_child_is_none_for_the_worker(tmp_path: Path) -> None:
    """As `multiprocessing` sends it to end one: the child ends by it, and the worker goes on."""
    folder = with_jobs(tmp_path, JOBS)
    done = subprocess.run(beside_jobs(folder, SIGNALLED), cwd=folder, capture_output=True, text=True, timeout=LONG, check=False)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, ["completed -15 False"] * 2, "")
