"""Our own sweeps, and how far the physical limit is."""

from bench import arithmetic
from bench.report.results import deep

STORES = ("PostgreSQL", "SQLite")
# The figure that tells most of a bench, its unit, and what it is divided by.
MAIN = {
    "enqueue": ("enqueued_per_second", "jobs/s", 1),
    "latency": ("latency.average_us", "ms", 1000),
    "startup": ("idle_start_stop_ms", "ms", 1),
    "burst": ("lateness.p99_us", "ms late at p99", 1000),
}
DEFAULT = ("completed_per_second", "jobs/s", 1)


def sweeps(results):
    """One table for each scenario: a row for each point, a column for each store."""
    parts, seen = [], []
    for run in results.own:
        if run["bench"] != "limit" and run.get("scenario") not in seen:
            seen.append(run.get("scenario"))
    for scenario in seen:
        rows = [row(results, scenario, point) for point in points(results, scenario)]
        header = ["point", "PostgreSQL", "SQLite", "WAL per job", "commits per job", "CPU s per million jobs: ours + server", "peak memory", "p50 / p99 / p99.9 ms", "command"]
        parts.append(f"### {scenario}\n\n" + arithmetic.table(header, rows))
    return "\n\n".join(parts)


def points(results, scenario):
    found = []
    for run in results.own:
        if run.get("scenario") == scenario and run.get("point") not in found:
            found.append(run.get("point"))
    return found


def row(results, scenario, point):
    here = {store: results.runs(store, scenario=scenario, point=point) for store in STORES}
    sample = next(run for runs in here.values() for run in runs)
    path, unit, divide = MAIN.get(sample["bench"], DEFAULT)
    median = lambda name, store="PostgreSQL": arithmetic.median(deep(run["figures"], name) for run in here[store])  # noqa: E731
    main = []
    for store in STORES:
        value = median(path, store)
        percent = median("of_theoretical_percent", store)
        main.append("-" if value is None else f"{arithmetic.number(value / divide)} {unit}" + (f" ({percent:.1f} %)" if percent else ""))
    wal, commits, memory = median("wal_bytes_per_job"), median("commits_per_job"), median("peak_memory_bytes")
    own, server = median("cpu_seconds_per_million_jobs"), median("server_cpu_seconds_per_million_jobs")
    times = [median(f"latency.{name}") for name in ("p50_us", "p99_us", "p999_us")]
    return [
        point or "-",
        *main,
        "-" if wal is None else f"{arithmetic.number(round(wal))} B",
        "-" if commits is None else f"{commits:.3g}",
        "-" if own is None else arithmetic.number(own) + ("" if server is None else f" + {arithmetic.number(server)}"),
        "-" if memory is None else f"{memory / 2**20:.0f} MiB",
        " / ".join(arithmetic.number(time / 1000) for time in times) if None not in times else "-",
        f"`{sample['command']}`" if sample.get("command") else "-",
    ]


def limit(results):
    """What the server does with the same rows and no queue; ours in percent of it."""
    copy, select = (results.own_figure(name, bench="limit") for name in ("copy_per_second", "select_per_second"))
    if not copy or not select:
        return None
    enqueued = results.own_figure("enqueued_per_second", scenario="drain")
    completed = results.own_figure("completed_per_second", scenario="drain")
    both = lambda first, second: 1 / (1 / first + 1 / second) if first and second else None  # noqa: E731
    rows = [("rows in (COPY) / jobs enqueued", copy, enqueued), ("rows out (SELECT) / jobs completed", select, completed)]
    rows.append(("in and out, one after the other", both(copy, select), both(enqueued, completed)))
    rows += other(results)
    return [(what, most, ours, ours / most if ours and most else None) for what, most, ours in rows]


def other(results):
    commits = results.own_figure("commits_per_second", bench="limit")
    return [("commits (one client) / single enqueues", commits, results.own_figure("enqueued_per_second", scenario="enqueue-one"))] if commits else []


def limit_table(results):
    rows = limit(results)
    if not rows:
        return "Not measured in this run."
    shown = [[what, f"{arithmetic.number(most)}/s", "-" if ours is None else f"{arithmetic.number(ours)}/s", "-" if part is None else f"{part:.0%}"] for what, most, ours, part in rows]
    return arithmetic.table(["what", "the server alone", "Windlass", "of it"], shown)
