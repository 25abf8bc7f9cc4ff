"""What is measured: each scenario's name, the adapter's environment for it, and the figure that is compared."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Scenario:
    name: str  # what tables, folders and peer.json call it
    verb: str  # the argument of the adapter's `run`
    title: str
    counts: dict  # what peer.json may set otherwise: jobs, samples or seconds
    environment: dict = field(default_factory=dict)
    figure: str = "completed_per_second"
    more_is_better: bool = True
    rounds: int = 2
    own_batch: bool = False  # BENCH_BATCH is the system's own bulk_batch
    also: tuple = ()  # what else peer.json may call it
    held: bool = False  # another session holds a snapshot from HELD_FROM on


# The snapshot is held from this part of a run's seconds on, so that the same curve shows before and after.
HELD_FROM = 1 / 6

ENQUEUED = "enqueued_per_second"

SCENARIOS = [
    Scenario("enqueue-one", "enqueue", "single enqueue, 1 client", {"jobs": 5_000}, {"BENCH_CLIENTS": 1, "BENCH_BATCH": 1}, ENQUEUED),
    Scenario("enqueue-ten", "enqueue", "single enqueue, 10 clients", {"jobs": 20_000}, {"BENCH_CLIENTS": 10, "BENCH_BATCH": 1}, ENQUEUED),
    Scenario("enqueue-bulk", "enqueue", "bulk enqueue, 1 client, the system's best batch", {"jobs": 200_000}, {"BENCH_CLIENTS": 1}, ENQUEUED, own_batch=True),
    Scenario("enqueue-bulk-ten", "enqueue", "bulk enqueue by 1,000, 10 clients", {"jobs": 200_000}, {"BENCH_CLIENTS": 10, "BENCH_BATCH": 1_000}, ENQUEUED),
    Scenario("drain-default", "drain", "drain no-op jobs, default settings", {"jobs": 20_000}, {"BENCH_PROCESSES": 1, "BENCH_TUNED": 0}, rounds=3),
    Scenario("drain", "drain", "drain no-op jobs, tuned, 1 process", {"jobs": 200_000}, {"BENCH_PROCESSES": 1, "BENCH_TUNED": 1}, rounds=3),
    Scenario("drain-two", "drain", "drain no-op jobs, tuned, 2 processes", {"jobs": 200_000}, {"BENCH_PROCESSES": 2, "BENCH_TUNED": 1}, rounds=3, also=("drain-2p", "drain-2")),
    Scenario("work-10", "work", "10 ms jobs, 10 at once", {"jobs": 5_000}, {"BENCH_SLEEP_MS": 10, "BENCH_CONCURRENCY": 10}),
    Scenario("work-100", "work", "10 ms jobs, 100 at once", {"jobs": 20_000}, {"BENCH_SLEEP_MS": 10, "BENCH_CONCURRENCY": 100}),
    Scenario("serial", "serial", "drain no-op jobs of 1,000 keys, the jobs of a key one after the other", {"jobs": 50_000}, {"BENCH_KEYS": 1_000}),
    Scenario("limited", "limited", "drain no-op jobs of a queue that may start 5,000 in a second", {"jobs": 30_000}, {"BENCH_RATE": 5_000}),
    Scenario("latency", "latency", "enqueue to start of handler, one job each 10 ms", {"samples": 1_000}, {"BENCH_GAP_MS": 10}, "average_us", more_is_better=False),
    Scenario("mixed", "mixed", "enqueue and work together", {"seconds": 20}, {"BENCH_BACKLOG": 20_000}),
    Scenario("held", "mixed", "enqueue and work together, another session holding a snapshot", {"seconds": 60}, {"BENCH_BACKLOG": 20_000}, held=True),
]
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}

LEAST = {"jobs": 200, "samples": 50, "seconds": 3}


def own(scenario, peer):
    """What peer.json says of the scenario, under its name or another; else of its verb; "held" is a mixed run."""
    for name in (scenario.name, *scenario.also, scenario.verb):
        if name in peer["scenarios"]:
            return peer["scenarios"][name]
    return None


def counts(scenario, peer, scale=1.0):
    """How many jobs, samples or seconds: the system's own number where it gives one, scaled.

    Seconds are the same for all: a curve over time is compared as a whole.
    """
    chosen = own(scenario, peer) or {}
    numbers = {name: default if name == "seconds" else chosen.get(name, default) for name, default in scenario.counts.items()}
    return {name: max(min(LEAST[name], number), round(number * scale)) for name, number in numbers.items()}


def environment(scenario, peer, scale=1.0):
    """The BENCH_ variables of a run, without the URL."""
    values = dict(scenario.environment)
    if scenario.own_batch:
        values["BENCH_BATCH"] = peer["bulk_batch"]
    if scenario.verb == "mixed":  # what suits it: a slow system would never get through a deep backlog
        chosen = own(scenario, peer) or {}
        values |= {"BENCH_" + name.upper(): chosen[name] for name in ("backlog", "batch") if name in chosen}
    for name, count in counts(scenario, peer, scale).items():
        values["BENCH_" + name.upper()] = count
    return {name: str(value) for name, value in values.items()}


def left_out(scenario, peer):
    """Why the system does not run this scenario; None when it does."""
    reasons = peer.get("left_out", {})
    for name in (scenario.name, *scenario.also, scenario.verb):
        if name in reasons:
            return reasons[name]
    return None if own(scenario, peer) is not None else "not among the scenarios of its peer.json"
