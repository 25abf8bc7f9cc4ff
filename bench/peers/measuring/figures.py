"""The figures of the scenarios, from what the measuring process sees while the workers run."""

import time

from marks import AllMarks

PATIENCE = 60.0  # seconds without progress after which a run counts as stuck
WARM_UP = 200


class Series:
    """Jobs handled in each second since the start."""

    def __init__(self):
        self.start, self.moved, self.total, self.seconds = time.monotonic(), time.monotonic(), 0, []

    def reach(self, total: int, jobs: int) -> None:
        now = time.monotonic()
        if total != self.total:
            second = int(now - self.start)
            self.seconds += [0] * (second + 1 - len(self.seconds))
            self.seconds[second] += total - self.total
            self.total, self.moved = total, now
        elif now - self.moved > PATIENCE:
            raise SystemExit(f"no job was handled for {PATIENCE:.0f} s: {total} of {jobs} are")


def drained(marks: AllMarks, jobs: int, begin, unfinished) -> dict:
    """Calls begin, then waits until all jobs are handled and unfinished() of the store says 0."""
    series = Series()
    begin()
    while series.total < jobs:
        time.sleep(0.005)
        series.reach(marks.total(jobs), jobs)
    wait_for_store(unfinished)
    took = time.monotonic() - series.start
    return {"completed_per_second": jobs / took, "completed_seconds": took, "per_second": series.seconds}


def wait_for_store(unfinished) -> None:
    deadline = time.monotonic() + PATIENCE
    while left := unfinished():
        if time.monotonic() > deadline:
            raise SystemExit(f"all jobs were handled, but the store still holds {left} unfinished after {PATIENCE:.0f} s")
        time.sleep(0.002)


def fed(marks: AllMarks, settings, enqueue, unfinished) -> tuple[dict, int]:
    """Feeds the workers for a time; what is left at the end is handled too, but does not count."""
    series, fed_jobs = Series(), 0
    end = series.start + settings.seconds
    while time.monotonic() < end or series.total < fed_jobs:
        room = settings.backlog - (fed_jobs - series.total)
        if time.monotonic() < end and room >= settings.batch:
            enqueue(range(fed_jobs, fed_jobs + settings.batch))
            fed_jobs += settings.batch
        else:
            time.sleep(0.002)
        series.reach(marks.total(fed_jobs), fed_jobs)
    wait_for_store(unfinished)
    seconds = series.seconds[: settings.seconds]
    return {"completed_per_second": sum(seconds) / settings.seconds, "per_second": seconds}, fed_jobs


def latency(marks: AllMarks, settings, enqueue) -> dict:
    """From the call of enqueue here to the start of the handler in the worker process, by the machine's monotonic clock."""
    samples = []
    for job_id in range(WARM_UP + settings.samples):
        began = time.monotonic_ns()
        enqueue(job_id)
        while (started := marks.start_of(job_id)) is None:
            if time.monotonic_ns() - began > PATIENCE * 1e9:
                raise SystemExit(f"job {job_id} did not start within {PATIENCE:.0f} s")
            time.sleep(0.0005)
        if job_id >= WARM_UP:
            samples.append((started - began) / 1000)
            time.sleep(max(0, settings.gap_ms / 1000 - (time.monotonic_ns() - began) / 1e9))
    return distribution(sorted(samples))


def distribution(samples: list[float]) -> dict:
    if not samples:
        return {"samples": 0}
    shares = {"p50_us": 0.5, "p90_us": 0.9, "p95_us": 0.95, "p99_us": 0.99, "p999_us": 0.999}
    at = {name: samples[min(len(samples) - 1, int(share * len(samples)))] for name, share in shares.items()}
    return {"samples": len(samples), "average_us": sum(samples) / len(samples), **at, "max_us": samples[-1]}
