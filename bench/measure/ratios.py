"""After the runs: each scenario's systems, the best peer, and how many times better ours is."""

from bench import arithmetic
from bench.measure.scenarios import BY_NAME, SCENARIOS

OURS = "windlass"  # on PostgreSQL: what every ratio is of
OURS_TOO = (OURS, "windlass-sqlite")  # no peers of ours


def by_system(records, scenario):
    """system -> its records of the scenario that ended well."""
    found = {}
    for record in records:
        if record["scenario"] == scenario and record["status"] == "ok":
            found.setdefault(record["system"], []).append(record)
    return found


def figure(records, name):
    """The median of a figure over a system's rounds."""
    return arithmetic.median(record["figures"].get(name) for record in records)


def compare(records, name):
    """Rows (system, record, least, median, most, advantage of ours), best first; ours among them."""
    scenario = BY_NAME[name]
    systems = by_system(records, name)
    ours = figure(systems[OURS], scenario.figure) if OURS in systems else None
    rows = []
    for system, runs in systems.items():
        spread = arithmetic.spread(run["figures"].get(scenario.figure) for run in runs)
        if spread:
            ratio = None if system in OURS_TOO else arithmetic.advantage(ours, spread[1], scenario.more_is_better)
            rows.append((system, runs[0], *spread, ratio))
    return sorted(rows, key=lambda row: row[3], reverse=scenario.more_is_better)


def best(rows, kinds=("queue",), servers=("postgres",)):
    """The best row that is not ours, among these kinds and servers."""
    peers = [row for row in rows if row[0] not in OURS_TOO and row[1]["kind"] in kinds and row[1]["server"] in servers]
    return peers[0] if peers else None


def text(records):
    parts = []
    for scenario in SCENARIOS:
        rows = compare(records, scenario.name)
        if not rows:
            continue
        parts.append(f"\n{scenario.title} ({scenario.figure}; ours/peer above 1: we are ahead)")
        for _, record, least, middle, most, ratio in rows:
            shown = f"{arithmetic.number(middle)} ({arithmetic.number(least)} to {arithmetic.number(most)})"
            parts.append(f"  {record['title']:44} {record['kind']:9} {shown:30} {arithmetic.times(ratio)}")
        peer = best(rows)
        if peer:
            parts.append(f"  best PostgreSQL queue beside us: {peer[1]['title']}, ours/peer {arithmetic.times(peer[5])}")
    failed = [record for record in records if record["status"] != "ok"]
    parts += ["\nnot measured:"] if failed else []
    parts += [f"  {record['title']}, {record['scenario']}, round {record['round']}: {record['reason']}" for record in failed]
    return "\n".join(parts)
