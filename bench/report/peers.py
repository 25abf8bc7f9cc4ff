"""Every system in every scenario: medians, least to most, cost; and how each was set."""

from bench import arithmetic
from bench.measure import ratios
from bench.measure.scenarios import SCENARIOS
from bench.report.results import deep, measured_apart

# A figure beside the one that is compared, where one number does not tell enough.
SECOND = {"latency": ("p99_us", "p99")}


def tables(results):
    parts = [scenario_table(results, scenario) for scenario in SCENARIOS if results.compare(scenario.name)]
    return "\n\n".join(parts + [tuning(results), missing(results)])


def scenario_table(results, scenario):
    header = ["system", "median", "least to most", "ours / system" if scenario.more_is_better else "system / ours", "WAL per job", "CPU s per million jobs: workers + server", "peak memory"]
    second = SECOND.get(scenario.name)
    if second:
        header.insert(2, second[1])
    rows = []
    for system, record, least, middle, most, ratio in results.compare(scenario.name):
        runs = ratios.by_system(results.records, scenario.name)[system]
        name = f"**{record['title']}**" if system in ratios.OURS_TOO else f"{record['title']}{kind(record)}"
        row = [name, figure(middle, scenario), f"{figure(least, scenario)} to {figure(most, scenario)}", arithmetic.times(ratio), *costs(runs)]
        if second:
            row.insert(2, figure(arithmetic.median(run["figures"].get(second[0]) for run in runs), scenario))
        rows.append(row)
    apart = measured_apart(run for run in results.records if run["scenario"] == scenario.name)
    unit = "jobs/s" if scenario.more_is_better else "ms"
    about = f"`{scenario.name}`, {unit}; a ratio above 1 means that Windlass is ahead. {apart}".rstrip()
    return f"### {scenario.title[0].upper()}{scenario.title[1:]}\n\n{about}\n\n" + arithmetic.table(header, rows)


def kind(record):
    return {"events": " (events, not jobs)", "baseline": " (baseline)"}.get(record["kind"], "")


def figure(value, scenario):
    if value is None:
        return "-"
    return arithmetic.number(value) if scenario.more_is_better else arithmetic.number(value / 1000)


def costs(runs):
    """Medians over the rounds. A run is measured as a whole, with what it sets up and verifies."""
    jobs = [float(deep(run, "environment.BENCH_JOBS") or sum(deep(run, "figures.per_second") or [])) for run in runs]
    each = lambda name, factor: arithmetic.median(  # noqa: E731
        run["measured"][name] * factor / count for run, count in zip(runs, jobs) if count and run["measured"].get(name) is not None
    )
    wal, own, server = each("wal_bytes", 1), each("cpu_seconds", 1e6), each("server_cpu_seconds", 1e6)
    memory = arithmetic.median(run["measured"].get("peak_memory_bytes") for run in runs)
    return [
        "-" if wal is None else f"{arithmetic.number(round(wal))} B",
        "-" if own is None or server is None else f"{arithmetic.number(own)} + {arithmetic.number(server)}",
        "-" if memory is None else f"{memory / 2**20:.0f} MiB",
    ]


def tuning(results):
    versions = {run["system"]: run.get("version") for run in results.records if run["status"] == "ok"}
    rows = [
        [about["title"], versions.get(name, "-"), about["language"], about["durability"], about["tuning"]]
        for name, about in sorted(results.systems.items(), key=lambda item: (item[0] not in ratios.OURS_TOO, item[0]))
    ]
    return "### How each was set\n\n" + arithmetic.table(["system", "version", "language", "durability", "tuning, by its own documentation"], rows)


def missing(results):
    """What was not measured, and why: nothing is left out in silence."""
    lines = [f"* {about['title']}: not installed: {about['reason']}" for about in results.about.get("skipped", {}).values()]
    for system, reasons in results.about.get("left_out", {}).items():
        title = results.systems.get(system, {}).get("title", system)
        lines += [f"* {title}, {', '.join(names)}: {reason}" for reason, names in grouped(reasons).items()]
    for run in results.records:
        if run["status"] != "ok":
            lines.append(f"* {run['title']}, {run['scenario']}, round {run['round']}: {run['reason']}")
    return "### Not measured\n\n" + ("\n".join(lines) if lines else "Nothing: every system ran every scenario.")


def grouped(reasons):
    names = {}
    for scenario, reason in reasons.items():
        names.setdefault(reason, []).append(scenario)
    return names
