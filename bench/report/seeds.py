"""The published figures that Windlass was conceived against, beside what the same systems and ours reach here."""

import json
from pathlib import Path

from bench import arithmetic

SEEDS = json.loads((Path(__file__).parent / "seeds.json").read_text())
HEADER = ["what", "published there", "the same system here", "Windlass here", "ours / published", "ours / same system here", "Windlass, SQLite"]


def tables(results):
    parts = []
    for seed in SEEDS:
        rows = [row(results, seed, each) for each in seed["rows"]]
        parts.append(f"### {seed['title']}\n\n{seed['source'][0].upper()}{seed['source'][1:]}. There: {seed['machine']}.\n\n{arithmetic.table(HEADER, rows)}")
    return "\n\n".join(parts)


def row(results, seed, each):
    more, unit, divide = each.get("more_is_better", True), each.get("unit", "jobs/s"), each.get("divide", 1)
    shown = lambda value: "-" if value is None else f"{arithmetic.number(value / divide)} {unit}"  # noqa: E731
    here = same_system(results, seed, each)
    ours = own(results, each)
    theirs = ", ".join(f"{system} {arithmetic.number(value)} {unit}" for system, value in each["theirs"].items())
    best = (max if more else min)(each["theirs"].values(), default=None)
    published = arithmetic.advantage(ours and ours / divide, best, more)
    sqlite = own(results, each, "SQLite", "windlass-sqlite")
    return [each["what"], theirs or "-", shown(here), shown(ours), arithmetic.times(published), arithmetic.times(arithmetic.advantage(ours, here, more)), shown(sqlite)]


def same_system(results, seed, each):
    if not each["here"]:
        return None
    found = results.named(each["here"], each["scenario"], seed.get("server", "postgres"))
    return found and found[3]


def own(results, each, store="PostgreSQL", system="windlass"):
    """From our own sweep where the row names a point of it, else from the run beside the peers.

    Seconds for a number of jobs follow from the rate: our runs may have had more.
    """
    if "own" in each:
        found = results.own_figure(each["figure"], store, **each["own"])
    else:
        found = results.beside(system, each["scenario"], each["figure"])
    return each["seconds_for"] / found if found and "seconds_for" in each else found
