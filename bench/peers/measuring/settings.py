"""What the caller of a Python adapter asked for, from the environment."""

import json
import os
import sys
from types import SimpleNamespace

WANTED = {
    "enqueue": ("jobs", "clients", "batch"),
    "drain": ("jobs", "processes", "tuned"),
    "work": ("jobs", "sleep_ms", "concurrency"),
    "serial": ("jobs", "keys"),
    "latency": ("samples", "gap_ms"),
    "mixed": ("seconds", "backlog", "batch"),
}


def read_settings(command: str) -> SimpleNamespace:
    if command not in WANTED:
        sys.exit(f"unknown scenario {command!r}: give one of {', '.join(WANTED)}")
    settings = SimpleNamespace(command=command, url=text("BENCH_URL"), processes=1, tuned=1, sleep_ms=0, concurrency=0)
    for name in WANTED[command]:
        setattr(settings, name, number("BENCH_" + name.upper()))
    return settings


def text(name: str) -> str:
    if not os.environ.get(name):
        sys.exit(f"{name} is not set")
    return os.environ[name]


def number(name: str) -> int:
    try:
        return int(text(name))
    except ValueError:
        sys.exit(f"{name} is {os.environ[name]!r}: give a whole number")


def tell(version: str, used: dict, figures: dict) -> None:
    """The one line of the result."""
    print(json.dumps({"version": version, "settings": used, "figures": figures}), flush=True)
