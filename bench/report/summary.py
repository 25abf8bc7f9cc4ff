"""The first screen: the bars we set ourselves, and where we are first, level, or behind. The ratio decides, not a sentence."""

from bench import arithmetic
from bench.measure.scenarios import BY_NAME, SCENARIOS
from bench.report import own

LEVEL = 0.05  # closer than this is level: less than the rounds of one system differ


def goals(results):
    """(what must hold, the bar, what was reached, whether it holds), as far as measured."""
    rows = [
        against(results, "drain", "the best tuned PostgreSQL job queue", 8),
        against(results, "enqueue-bulk", "the best PostgreSQL job queue", 4),
        against(results, "enqueue-ten", "the best PostgreSQL job queue", 4),
        against(results, "latency", "the best PostgreSQL job queue", 1),
        against(results, "latency", "the best Redis queue", 0.5, servers=("redis-everysec", "redis-always")),
        *limit_goals(results),
        percent_goal(results),
        backlog_goal(results),
    ]
    return [row for row in rows if row]


def against(results, name, whom, bar, **among):
    ours, best = results.ours(name), results.best(name, **among)
    if not ours or not best:
        return None
    ratio = arithmetic.advantage(ours, best[3], BY_NAME[name].more_is_better)
    return [f"{BY_NAME[name].title}: against {whom}", f"{bar:g}x", f"{arithmetic.times(ratio)} ({best[1]['title']})", ratio >= bar]


def limit_goals(results):
    """The bar of 40 % was set for the drain; enqueueing and draining together is the harder reading of it."""
    parts = {what: part for what, _, _, part in own.limit(results)}
    rows = [(own.DRAINED, "drain"), (own.IN_AND_OUT, "enqueue in bulk and drain together")]
    of = "of the rate at which the same rows are written (COPY) and read without a queue"
    return [[f"{title}: {of}", "40 %", f"{parts[what]:.1%}", parts[what] >= 0.4] for what, title in rows if parts.get(what)]


def percent_goal(results):
    rate = results.ours("work-100")
    return rate and ["10 ms jobs, 100 at once: of the 10,000/s that are possible", "97 %", f"{rate / 100:.1f} %", rate >= 9_700]


def backlog_goal(results):
    rates = {run["settings"]["jobs"]: run["figures"]["completed_per_second"] for run in results.runs(scenario="backlog")}
    if len(rates) < 2:
        return None
    deep = rates[max(rates)] / rates[min(rates)]
    return [f"a backlog of {max(rates):,} drains as fast as one of {min(rates):,}", "90 %", f"{deep:.0%}", deep >= 0.9]


def goals_table(results):
    rows = [[what, bar, reached, "yes" if holds else "**no**"] for what, bar, reached, holds in goals(results)]
    return arithmetic.table(["what must hold", "bar", "measured", "holds"], rows) if rows else "Not measured in this run."


def standing(results):
    """Sentences: in which scenarios nobody is ahead of us, and who is ahead of us where."""
    first, behind, level = [], [], []
    for scenario in SCENARIOS:
        rows = [row for row in results.compare(scenario.name) if row[5]]
        if not rows:
            continue
        ahead = [row for row in rows if row[5] < 1 - LEVEL]
        close = [row for row in rows if abs(row[5] - 1) <= LEVEL]
        behind += [f"* **{scenario.title}**: {row[1]['title']}{note(row[1])} is {arithmetic.times(1 / row[5])} as fast as Windlass." for row in ahead]
        level += [f"* {scenario.title}: {row[1]['title']}{note(row[1])} is level with Windlass ({arithmetic.times(row[5])})." for row in close]
        if not ahead and not close:
            first.append(f"{scenario.title} ({arithmetic.times(min(row[5] for row in rows))} the next)")
    if not first and not behind and not level:
        return "The systems were not measured beside each other in this run."
    parts = [f"**Nobody here is ahead of Windlass in**: {'; '.join(first)}." if first else "**Windlass is first in none of the scenarios.**"]
    parts.append("**Where Windlass is not first:**\n\n" + "\n".join(behind + level) if behind or level else "No system measured here was ahead of it in any scenario.")
    return "\n\n".join(parts)


def note(record):
    return {"events": " (events without job semantics)", "baseline": " (a baseline without retries, leases or history)"}.get(record["kind"], "")
