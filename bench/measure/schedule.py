"""The order of the runs, and each run: fresh store, adapter, cost, one JSON file written at once."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from bench.measure import adapter, scenarios
from bench.measure.postgres import HeldSnapshot
from bench.measure.systems import DURABILITY


def rotated(items, turn):
    """The items, beginning a little later each turn, so that none always comes first."""
    if not items:
        return []
    start = turn % len(items)
    return items[start:] + items[:start]


def plan(systems, chosen, rounds=None):
    """(scenario, round, system) in the order of the runs: a scenario's rounds interleave all systems."""
    for scenario in chosen:
        able = [system for system in systems if not left_out(scenario, system)]
        for turn in range(rounds or scenario.rounds):
            # Steps of a third: with three rounds each system runs early, in the middle, and late.
            for system in rotated(able, turn * max(1, len(able) // 3)):
                yield scenario, turn + 1, system


def left_out(scenario, system):
    if scenario.held and system.server != "postgres":
        return "only in PostgreSQL can another session hold back what is cleaned up"
    return scenarios.left_out(scenario, system.peer)


@dataclass
class Bench:
    """What all runs share."""

    out: Path
    home: Path
    postgres: object
    redis: dict  # server name -> Redis
    scale: float = 1.0
    timeout: float = 300.0

    def path(self, scenario, turn, system):
        return self.out / "runs" / scenario.name / f"{system.name}-{turn}.json"

    def done(self, scenario, turn, system):
        """The record of a run of the same scale that ended well."""
        try:
            record = json.loads(self.path(scenario, turn, system).read_text())
        except (OSError, ValueError):
            return None
        return record if record["scale"] == self.scale and record["status"] == "ok" else None

    def run(self, scenario, turn, system):
        path = self.path(scenario, turn, system)
        path.parent.mkdir(parents=True, exist_ok=True)
        log = self.out / "logs" / f"{scenario.name}-{system.name}-{turn}"
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            measured = {"postgres": self.on_postgres, "sqlite": self.on_file}.get(system.server, self.on_redis)
            record = measured(scenario, system, log)
        except (RuntimeError, OSError) as error:  # a server that refused: this run's failure, not the end of all
            record = {"status": "failed", "reason": str(error)}
        record = self.describe(scenario, turn, system) | record
        path.write_text(json.dumps(record, indent=1) + "\n")
        return record

    def describe(self, scenario, turn, system):
        peer = system.peer
        record = {"system": system.name, "title": system.title, "kind": peer["kind"], "language": peer["language"], "tuning": peer["tuning"]}
        record |= {"server": system.server, "durability": DURABILITY[system.server], "version": peer["version"]}
        record |= {"scenario": scenario.name, "round": turn, "scale": self.scale, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        return record | {"environment": scenarios.environment(scenario, peer, self.scale)}

    def adapter(self, scenario, system, url, log, watch=lambda seconds: None):
        values = scenarios.environment(scenario, system.peer, self.scale)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
        environment |= values | {"PEERS_HOME": str(self.home)} | ({"BENCH_URL": url} if url else {})
        timeout = self.timeout + float(values.get("BENCH_SECONDS", 0))
        return adapter.run([str(system.folder / "run"), scenario.verb], system.folder, environment, log, timeout, watch)

    def on_postgres(self, scenario, system, log):
        name = "bench_" + system.name.replace("-", "_")
        url = self.postgres.fresh(name)
        seconds = scenarios.counts(scenario, system.peer, self.scale).get("seconds", 0)
        hold = Hold(self.postgres, name, scenarios.HELD_FROM * seconds) if scenario.held else None
        before = self.postgres.counters(name)
        try:
            outcome = self.adapter(scenario, system, url, log, hold.watch if hold else lambda seconds: None)
        finally:
            kept = hold.release() if hold else None
        self.postgres.settled(name)
        after = self.postgres.counters(name)
        self.postgres.drop(name)
        record = result(outcome, before, after)
        if hold and outcome.status == "ok" and not kept:
            record |= {"status": "failed", "reason": "the snapshot was not held until the end of the run"}
        return record | ({"held_from_seconds": hold.since} if hold else {})

    def on_redis(self, scenario, system, log):
        redis = self.redis[system.server]
        url, before = redis.fresh(), redis.counters()
        outcome = self.adapter(scenario, system, url, log)
        return result(outcome, before, redis.counters())

    def on_file(self, scenario, system, log):
        return result(self.adapter(scenario, system, None, log), {}, {})


class Hold:
    """Takes the snapshot when its second has come."""

    def __init__(self, postgres, database, second):
        self.postgres, self.database, self.second = postgres, database, second
        self.snapshot, self.since = None, None

    def watch(self, seconds):
        if self.snapshot is None and seconds >= self.second:
            self.snapshot, self.since = HeldSnapshot(self.postgres, self.database), round(seconds, 1)

    def release(self):
        return self.snapshot.release() if self.snapshot else False


def result(outcome, before, after):
    cost = {name: round(after[name] - before[name], 3) for name in before if before[name] is not None and after.get(name) is not None}
    cost |= {"cpu_seconds": round(outcome.cpu_seconds, 3), "peak_memory_bytes": outcome.peak_memory_bytes, "wall_seconds": round(outcome.wall_seconds, 2)}
    record = {"status": outcome.status, "measured": cost}
    if outcome.status != "ok":
        return record | {"reason": outcome.reason}
    answer = {name: outcome.answer[name] for name in ("version", "settings", "figures") if name in outcome.answer}
    return record | answer
