"""How programs are started, and what is beside them: flags of the interpreter, event loops, child processes, modules of the user's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from programs import beside_jobs, with_jobs

import windlass

LONG = 60
PACKAGE = Path(windlass.__file__).parent

JOBS = """
    import asyncio, os, sys
    from windlass import App, Context

    app = App(f"sqlite:{os.path.dirname(os.path.abspath(__file__))}/jobs.db?synchronous=normal")

    @app.job("quick")
    async def quick(ctx: Context, n: int = 0) -> int:
        return n + 1

    @app.job("in.thread")
    def in_thread(n: int = 0) -> int:
        return n + 1

    @app.batch("many")
    async def many(args: list) -> list:
        return [one["n"] + 1 for one in args]

    @app.job("in.child", process=True)
    def in_child(n: int = 0) -> int:
        return n + 1

    async def main() -> None:
        async with app.worker(processes=1):
            ids = [(await job.enqueue_many([{"n": 1}]))[0] for job in app.jobs.values()]
            print([(await app.client.wait(id, "60s")).result for id in ids], type(asyncio.get_running_loop()).__module__)
"""
RESULTS = "[2, 2, 2, 2]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return with_jobs(tmp_path, JOBS)


def run(folder: Path, program: str, *flags: str, **environment: str) -> tuple[int, str, str]:
    python, *rest = beside_jobs(folder, program)
    done = subprocess.run(
        [python, *flags, *rest], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=LONG, check=False
    )
    return done.returncode, done.stdout.strip(), done.stderr


@pytest.mark.parametrize("flags", [["-O"], ["-OO"], ["-X", "dev"], ["-W", "error", "-b"]], ids=" ".join)
def test_flags_of_the_interpreter(folder: Path, flags: list[str]) -> None:
    code, out, err = run(folder, "asyncio.run(main(), debug=True)", *flags)
    assert (code, out) == (0, f"{RESULTS} asyncio.unix_events"), err
    assert "Error" not in err and "Warning" not in err, err


def test_uvloop(folder: Path) -> None:
    code, out, err = run(folder, "import uvloop\nuvloop.run(main())")
    assert (code, out, err) == (0, f"{RESULTS} uvloop", "")


def test_cells_of_a_notebook_share_an_event_loop_that_runs(folder: Path) -> None:
    cells = """
        import asyncio, threading
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()

        def cell(work):
            return asyncio.run_coroutine_threadsafe(work, loop).result(60)

        async def begins():
            global worker
            worker = app.worker(processes=1)
            await worker.start()
            return quick.enqueue_sync(n=1), await in_thread.enqueue(n=2)

        async def looks(id):
            return (await app.client.wait(id, "60s")).result

        ids = cell(begins())
        print([cell(looks(id)) for id in ids], in_child.enqueue_sync(n=3) > 0)
        cell(worker.close())
    """
    code, out, err = run(folder, cells)
    assert (code, out, err) == (0, "[2, 3] True", "")


def test_a_module_that_is_run_names_its_jobs_itself(tmp_path: Path) -> None:
    """It is ``__main__`` there, and another process knows it by its own name."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "jobs.py").write_text(
        'import asyncio\nfrom windlass import App\napp = App("sqlite:jobs.db")\n\n@app.job("named")\nasync def named(n: int) -> int:\n    return n + 1\n\n'
        "async def main():\n    id = await named.enqueue(n=1)\n    async with app.worker():\n        print((await app.client.wait(id, '60s')).result)\n\n"
        "if __name__ == '__main__':\n    asyncio.run(main())\n"
    )
    command = [sys.executable, "-m", "shop.jobs"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LONG, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")
    source = (tmp_path / "shop" / "jobs.py").read_text()
    (tmp_path / "shop" / "jobs.py").write_text(source.replace('@app.job("named")', "@app.job"))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 1 and "name the job, as in @app.job('mail.send')" in done.stderr, done


def test_modules_named_as_ours_are_the_users(folder: Path) -> None:
    for ours in [*PACKAGE.glob("*.py"), PACKAGE / "django"]:
        if not ours.stem.startswith("__"):
            (folder / f"{ours.stem}.py").write_text("raise AssertionError('this module is the program's own')\n".replace("'s", "s"))
    code, out, err = run(folder, "asyncio.run(main())")
    assert (code, out, err) == (0, f"{RESULTS} asyncio.unix_events", "")


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_processes_of_a_pool_enqueue(folder: Path, method: str) -> None:
    """Beside a worker. A job goes there by its name, as a function does."""
    code, out, err = run(
        folder,
        f"""
        import multiprocessing, pickle
        from concurrent.futures import ProcessPoolExecutor

        async def enqueue():
            async with app.worker(processes=1):
                with ProcessPoolExecutor(2, multiprocessing.get_context("{method}")) as pool:
                    loop = asyncio.get_running_loop()
                    ids = await asyncio.gather(*(loop.run_in_executor(pool, quick.enqueue_sync, n) for n in range(10)))
                print(sorted([(await app.client.wait(id, "60s")).result for id in ids]))
            assert pickle.loads(pickle.dumps(in_thread)) is in_thread
            try:
                pickle.dumps(quick.with_options(priority=5))
            except pickle.PicklingError as error:
                print(error)

        if __name__ == "__main__":
            asyncio.run(enqueue())
        """,
        PYTHONWARNINGS="ignore::DeprecationWarning",  # of fork beside threads, from Python 3.12 on
    )
    assert (code, err) == (0, ""), err
    results, refused = out.splitlines()
    assert results == str(list(range(1, 11))) and "not the same object as jobs.quick" in refused


def test_a_free_threaded_python_is_told_what_to_do(tmp_path: Path) -> None:
    """Its own ending of native modules is another, so it finds none."""
    shutil.copytree(PACKAGE, tmp_path / "windlass", ignore=shutil.ignore_patterns("_native.abi3.so", "__pycache__"))
    program = """
import sysconfig
known = sysconfig.get_config_var
sysconfig.get_config_var = lambda name: 1 if name == "Py_GIL_DISABLED" else known(name)
import windlass
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=LONG, check=False
    )
    assert done.returncode == 1 and "for free-threaded Python there is no windlass yet: use a Python with the GIL" in done.stderr, done.stderr


