"""How often each job was handled, and when it started: memory shared by the worker processes and the measuring one."""

import mmap
import os
import struct
import time
from pathlib import Path


class Marks:
    """One worker process's counters: a byte for each job id, and its start time in nanoseconds where that is wanted."""

    def __init__(self, folder: str, size: int, times: bool):
        self.counts = grow(Path(folder) / f"counts-{os.getpid()}", size)
        self.times = grow(Path(folder) / f"times-{os.getpid()}", size * 8) if times else None

    def started(self, job_id: int) -> None:
        if self.times is not None:
            struct.pack_into("q", self.times, job_id * 8, time.monotonic_ns())

    def handled(self, job_id: int) -> None:
        self.counts[job_id] += 1


class AllMarks:
    """The counters of all worker processes, as the measuring process sees them."""

    def __init__(self, folder: str, size: int):
        self.folder, self.size, self.maps = Path(folder), size, {}

    def mapped(self, kind: str, size: int) -> list:
        for path in self.folder.glob(kind + "-*"):
            if path not in self.maps and path.stat().st_size == size:
                self.maps[path] = grow(path, size)
        return [marks for path, marks in self.maps.items() if path.name.startswith(kind)]

    def total(self, jobs: int) -> int:
        """The number of handled ids below jobs, over all processes."""
        return sum(jobs - counts[:jobs].count(0) for counts in self.mapped("counts", self.size))

    def start_of(self, job_id: int) -> int | None:
        """The nanosecond at which the job's handler started, None if it has not."""
        for times in self.mapped("times", self.size * 8):
            if nanos := struct.unpack_from("q", times, job_id * 8)[0]:
                return nanos
        return None

    def check(self, jobs: int) -> None:
        """Fails unless each id below jobs was handled exactly once, and no other id at all."""
        sums = [0] * jobs
        for counts in self.mapped("counts", self.size):
            if counts[jobs:].count(0) != self.size - jobs:
                raise SystemExit(f"ids from {jobs} on were handled, though never enqueued")
            for job_id, count in enumerate(counts[:jobs]):
                sums[job_id] += count
        missing, again = sums.count(0), sum(1 for count in sums if count > 1)
        if missing or again:
            raise SystemExit(f"of {jobs} jobs {missing} were not handled and {again} more than once")


def grow(path: Path, size: int) -> mmap.mmap:
    with open(path, "a+b") as file:
        file.truncate(size)
        return mmap.mmap(file.fileno(), size)
