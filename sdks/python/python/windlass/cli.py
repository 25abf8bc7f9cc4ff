"""The command ``windlass``: that of the engine, and ``windlass worker`` for the jobs of a Python app."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import _native, _reload
from ._farewell import work
from ._locate import load
from .errors import WindlassError


def main(args: list[str] | None = None) -> int:
    """Runs a command line, by default the process's own, and gives its exit code."""
    args = sys.argv[1:] if args is None else args
    if args[:1] == ["--store"] and args[2:3] == ["worker"]:  # as the engine's commands take it
        args = [*args[2:], *args[:2]]
    if args[:1] == ["worker"]:
        return _worker(args[1:])
    if args[:1] in (["--help"], ["-h"], ["help"], []):
        print("windlass worker MODULE:APP works the jobs of a Python app (windlass worker --help); besides:\n", flush=True)
    return _native.cli(["windlass", *args])


def _worker(args: list[str]) -> int:
    options = _parser().parse_args(args)
    if options.reload:
        command = [sys.executable, "-m", "windlass", "worker", *(arg for arg in args if arg != "--reload")]
        return _reload.run(command, Path.cwd())
    logging.basicConfig(level=options.log.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if options.store:
        os.environ["WINDLASS_STORE"] = options.store  # before the app is made, also that of a child process
    try:
        app = load(options.app)
        queues = dict(options.queue) if options.queue else None
        worker = app.worker(queues, processes=options.processes, program=options.app, **worker_options(vars(options)))
        if app.jobs or app._any:  # else it says that there are none
            queued = ", ".join(f"{name}={jobs}" for name, jobs in worker._queues.items())
            logging.getLogger("windlass").info("works %s; kinds: %s", queued, ", ".join(app.jobs) or "any")
        work(worker)
    except WindlassError as error:
        print(f"error: {error} [{error.code}]", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 3 if isinstance(error, ConnectionError) else 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="windlass worker",
        description="Works the jobs of an app until Ctrl-C or SIGTERM.",
        allow_abbrev=False,  # --reload is taken from what the reloader's worker is started with: by another name, that would be a reloader, too
    )
    parser.add_argument("app", metavar="MODULE:APP", help="where the app is, as in shop.jobs:app")
    parser.add_argument(
        "--queue",
        metavar="NAME=JOBS",
        type=queue_option,
        action="append",
        help="a queue, and how many of its jobs run at once; may be repeated. Default: 10 of each queue that a job names, or as many as there are "
        "processes where all its jobs have process=True",
    )
    parser.add_argument(
        "--processes", type=int, metavar="N", help="how many child processes run functions with process=True; default: one for each processor"
    )
    parser.add_argument("--store", metavar="URL", help="where the jobs are, instead of the app's own URL; default: what WINDLASS_STORE says")
    add_worker_options(parser)
    parser.add_argument("--log", default="info", choices=["debug", "info", "warning", "error"], help="what is logged")
    parser.add_argument("--reload", action="store_true", help="starts anew when a Python file below this folder changes, but for those of environments and of hidden folders; for development")
    return parser


def add_worker_options(parser: argparse.ArgumentParser) -> None:
    """Those that a worker has whatever its jobs are; their names are those of :meth:`windlass.App.worker`."""
    parser.add_argument("--threads", type=int, metavar="N", help="how many threads run functions that are not async; default: 32 at most")
    parser.add_argument("--name", metavar="TEXT", help="its name for people; default: the host's and the process's")
    parser.add_argument("--app-version", metavar="TEXT", help="the version of the application, for people; default: what WINDLASS_APP_VERSION says")
    parser.add_argument("--timeout", metavar="TIME", help="how long an attempt may take whose job does not say, as in 90s, 5m or 1h30m; default: as long as it takes")
    parser.add_argument("--lease", metavar="TIME", help="how long it may be silent before others take its jobs; default: 30s")
    parser.add_argument("--grace-period", metavar="TIME", help="how long running jobs may go on after the first signal; a second one hands them back; default: 30s")


def worker_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of what was given."""
    return {name: given[name] for name in ("threads", "name", "app_version", "timeout", "lease", "grace_period")}


def queue_option(text: str) -> tuple[str, int]:
    """A queue and how many of its jobs run at once, as in ``mail=50``."""
    name, _, concurrency = text.partition("=")
    if not name or not concurrency.isdigit() or int(concurrency) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no queue; write it as mail=50")
    return name, int(concurrency)
