"""What is measured of the packages of the other languages, each beside Rust in the same round, and the bars that they have to reach."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    name: str
    rust: tuple  # arguments of windlass-bench
    figure: str  # of its answer
    others: dict  # arguments of the scripts, by who
    bars: dict  # jobs/s


def drain(jobs):
    python = {f"python {how}": ("drain", how, str(jobs)) for how in ("async", "sync", "batch")}
    bars = {"python async": 200_000, "python sync": 300_000, "python batch": 450_000, "node": 350_000}
    return Case("drain, no work", ("drain", "--jobs", str(jobs), "--concurrency", "1000"), "completed_per_second", python | {"node": ("drain", str(jobs))}, bars)


def enqueue(name, tasks, batch, jobs, bars):
    mode = ("--mode", "single") if batch == 1 else ("--mode", "bulk", "--batch", str(batch))
    words = ("enqueue", str(tasks), str(batch), str(jobs))
    rust = ("enqueue", *mode, "--clients", str(tasks), "--jobs", str(jobs))
    return Case(name, rust, "enqueued_per_second", {"python": words, "node": words}, bars)


def cases(scale):
    scaled = lambda jobs: max(int(jobs * scale), 1_000)
    return [
        drain(scaled(1_000_000)),
        enqueue("enqueue, 10 tasks", 10, 1, scaled(60_000), {"python": 30_000, "node": 33_000}),
        enqueue("enqueue, 50 tasks", 50, 1, scaled(200_000), {"python": 80_000, "node": 90_000}),
        enqueue("enqueue by 10,000, one client", 1, 10_000, scaled(1_000_000), {"python": 350_000, "node": 350_000}),
    ]
