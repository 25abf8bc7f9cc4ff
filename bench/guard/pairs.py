"""What is compared, the pairs of runs in alternating order, and the verdict."""

import json
import os
import subprocess
from dataclasses import dataclass

from bench import arithmetic

TOLERANCE = 0.10  # a case is slower only when every one of its pairs is slower by more than this
SQLITE, POSTGRES = "sqlite", "postgres"


@dataclass(frozen=True)
class Case:
    """A command that versions from the first benchmark on know."""

    name: str
    arguments: tuple
    figure: str
    more_is_better: bool = True


CASES = [
    Case("drain", ("drain", "--jobs", "1000000"), "completed_per_second"),
    Case("enqueue in bulk", ("enqueue", "--mode", "copy", "--clients", "1", "--jobs", "500000"), "enqueued_per_second"),
    Case("enqueue one by one, 10 clients", ("enqueue", "--mode", "single", "--clients", "10", "--jobs", "20000"), "enqueued_per_second"),
    Case("latency, average", ("latency", "--samples", "1000"), "latency.average_us", more_is_better=False),
    Case("10 ms jobs, 100 at once", ("work", "--sleep-ms", "10", "--jobs", "30000"), "completed_per_second"),
    Case("enqueue scheduled jobs in bulk", ("burst", "--jobs", "50000", "--ahead", "3"), "enqueued_per_second"),
    Case("1,000 jobs due at once, median", ("burst", "--jobs", "1000", "--ahead", "2"), "lateness.p50_us", more_is_better=False),
]


class Refused(Exception):
    """A version that does not run a case."""


def run(command, case, url=None, timeout=120):
    """A case's figure, measured by a version's command; without a URL in a temporary SQLite file."""
    store = ["--store", url] if url else []
    environment = {name: value for name, value in os.environ.items() if name != "WINDLASS_STORE"}
    answer = json.loads(call([*command, *case.arguments, *store, "--json"], environment, timeout))
    value = answer["figures"]
    for part in case.figure.split("."):
        value = value[part]
    return value


def call(command, environment, timeout):
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise Refused(f"took longer than {timeout} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise Refused(f"exit code {done.returncode}: {lines[0][:200] if lines else 'it said nothing'}")
    return done.stdout


def pairs(count, measure):
    """`count` times (base, ours), who comes first alternating: measure("base") and measure("ours") give a figure."""
    found = []
    for turn in range(count):
        order = ("base", "ours") if turn % 2 == 0 else ("ours", "base")
        pair = {who: measure(who) for who in order}
        found.append((pair["base"], pair["ours"]))
    return found


def judge(case, store, found, tolerance=TOLERANCE):
    """Ratios above 1: this work tree is the faster."""
    ratios = [arithmetic.advantage(ours, base, case.more_is_better) for base, ours in found]
    least, middle, most = arithmetic.spread(ratios)
    return {
        "case": case.name,
        "store": store,
        "figure": case.figure,
        "pairs": [{"base": base, "ours": ours} for base, ours in found],
        "ratio": {"least": round(least, 3), "median": round(middle, 3), "most": round(most, 3)},
        "slower": most < 1 - tolerance,
    }
