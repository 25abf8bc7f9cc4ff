"""The committed figures, and the questions that the tables ask of them."""

import json
from pathlib import Path

from bench import arithmetic
from bench.measure import ratios
from bench.measure.scenarios import BY_NAME


class Results:
    def __init__(self, windlass, peers, machine):
        self.own = windlass.get("runs", [])
        self.own_machine = windlass.get("machine") or {}
        self.systems = peers.get("systems", {})
        self.records = [run | self.systems[run["system"]] for run in peers.get("runs", [])]
        self.machine = machine.get("machine") or self.own_machine
        self.about = machine

    @classmethod
    def load(cls, folder):
        def part(name):
            path = Path(folder) / name
            return json.loads(path.read_text()) if path.exists() else {}

        return cls(part("windlass.json"), part("peers.json"), part("machine.json"))

    def compare(self, scenario):
        """Rows (system, record, least, median, most, advantage of ours), best first."""
        return ratios.compare(self.records, scenario)

    def best(self, scenario, **among):
        return ratios.best(self.compare(scenario), **among)

    def ours(self, scenario, figure=None):
        """Our median in the run beside the peers."""
        return self.beside("windlass", scenario, figure)

    def beside(self, system, scenario, figure=None):
        """A system's median in the run beside the others."""
        runs = ratios.by_system(self.records, scenario).get(system, [])
        return arithmetic.median(run["figures"].get(figure or BY_NAME[scenario].figure) for run in runs)

    def named(self, title, scenario, server="postgres"):
        """The row of the peer of this title on this server; a title may go on with where it runs."""
        for row in self.compare(scenario):
            if row[1]["server"] == server and (row[1]["title"] + ",").startswith((f"{title},", f"{title} (")):
                return row
        return None

    def runs(self, store="PostgreSQL", **wanted):
        """Our own runs on a store whose bench, scenario, point or settings have these values."""
        return [run for run in self.own if run["store"].startswith(store) and all(self.has(run, name, value) for name, value in wanted.items())]

    @staticmethod
    def has(run, name, value):
        return run.get(name) == value if name in ("bench", "scenario", "point", "settling") else run.get("settings", {}).get(name) == value

    def own_figure(self, figure, store="PostgreSQL", **wanted):
        """The median of a figure over such runs; a dot goes deeper: latency.average_us."""
        return arithmetic.median(deep(run["figures"], figure) for run in self.runs(store, **wanted))


def measured_apart(runs):
    """On which day runs were made that were not made with the others; nothing where they were."""
    days = sorted({run["date"] for run in runs if "date" in run})
    return f"Measured by itself on {days[-1]}." if days else ""


def deep(figures, name):
    for part in name.split("."):
        figures = figures.get(part) if isinstance(figures, dict) else None
    return figures
