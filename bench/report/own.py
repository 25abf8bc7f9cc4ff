"""Our own sweeps, and how far the physical limit is."""

from bench import arithmetic
from bench.report.results import deep, measured_apart

STORES = ("PostgreSQL", "SQLite")
# The figure that tells most of a bench, its unit, and what it is divided by.
MAIN = {
    "enqueue": ("enqueued_per_second", "jobs/s", 1),
    "latency": ("latency.average_us", "ms", 1000),
    "startup": ("idle_start_stop_ms", "ms", 1),
    "schedules": ("lateness.p99_us", "ms late at p99", 1000),
    "burst": ("lateness.p99_us", "ms late at p99", 1000),
    "cancel": ("cancel_call.p50_us", "ms for a call at p50", 1000),
    "events": ("events_per_second", "events/s", 1),
    "waiters": ("told_after.p99_us", "ms after its end at p99", 1000),
}
# A quiet key beside a busy one.
QUIET = ("beside.p99_us", "ms to start at p99", 1000)
DEFAULT = ("completed_per_second", "jobs/s", 1)
# What a main figure is a part of, in percent: the first of these that a run has is shown beside it.
PARTS = (
    ("of_theoretical_percent", ""),
    ("of_allowed_percent", " of the limit"),
    ("of_unlimited_percent", " of no limit"),
    ("of_without_keys_percent", " of without keys"),
)


def sweeps(results):
    """One table for each scenario: a row for each point, a column for each store."""
    parts, seen = [], []
    for run in results.own:
        if run["bench"] != "limit" and run.get("scenario") not in seen:
            seen.append(run.get("scenario"))
    for scenario in seen:
        rows = [row(results, scenario, point) for point in points(results, scenario)]
        header = ["point", "PostgreSQL", "SQLite", "WAL per job", "commits per job", "CPU s per million jobs: ours + server", "peak memory", "p50 / p99 / p99.9 ms", "command"]
        apart = measured_apart(run for run in results.own if run.get("scenario") == scenario)
        parts.append("\n\n".join(filter(None, [f"### {scenario}", apart, arithmetic.table(header, rows)])))
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
    path, unit, divide = QUIET if "beside" in sample["figures"] else MAIN.get(sample["bench"], DEFAULT)
    median = lambda name, store="PostgreSQL": arithmetic.median(deep(run["figures"], name) for run in here[store])  # noqa: E731
    main = []
    for store in STORES:
        value = median(path, store)
        part = next((f" ({percent:.1f} %{of})" for name, of in PARTS if (percent := median(name, store))), "")
        main.append("-" if value is None else f"{arithmetic.number(value / divide)} {unit}{part}")
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


# What the database does alone, and the scenario and figure of ours that is held against it.
DRAINED = "rows written and read / jobs completed"
IN_AND_OUT = "rows written and read / jobs enqueued and completed"
LIMITS = [
    ("rows written / jobs enqueued", "written_per_second", "drain", "enqueued_per_second"),
    ("rows read / jobs completed", "read_per_second", "drain", "completed_per_second"),
    (DRAINED, "written_and_read_per_second", "drain", "completed_per_second"),
    (IN_AND_OUT, "written_and_read_per_second", None, None),
    ("commits of one row, 1 connection / single enqueues, 1 client", "commits_per_second_1", "enqueue-one", "enqueued_per_second"),
    ("commits of one row, 10 connections / single enqueues, 10 clients", "commits_per_second_10", "enqueue-concurrent", "enqueued_per_second"),
]


def limit(results, store="PostgreSQL"):
    """Rows (what, the database alone, ours, our part of it), as far as measured."""
    rows = []
    for what, name, scenario, figure in LIMITS:
        most = results.own_figure(name, store, bench="limit")
        ours = results.own_figure(figure, store, scenario=scenario) if scenario else in_and_out(results, store)
        if most:
            rows.append((what, most, ours, ours / most if ours else None))
    return rows


def in_and_out(results, store):
    """Jobs a second when the seconds to enqueue them and those to drain them are added."""
    enqueued, completed = (results.own_figure(name, store, scenario="drain") for name in ("enqueued_per_second", "completed_per_second"))
    return 1 / (1 / enqueued + 1 / completed) if enqueued and completed else None


def limit_table(results):
    rows = [(store, *row) for store in STORES for row in limit(results, store)]
    if not rows:
        return "Not measured in this run."
    shown = [
        [store, what, f"{arithmetic.number(most)}/s", "-" if ours is None else f"{arithmetic.number(ours)}/s", "-" if part is None else f"{part:.0%}"]
        for store, what, most, ours, part in rows
    ]
    return arithmetic.table(["store", "what", "the database alone", "Windlass", "of it"], shown)
