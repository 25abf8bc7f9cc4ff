"""Concurrent clients that enqueue: processes, as a Python server runs them."""

import multiprocessing
import time


def timed_clients(jobs: int, clients: int, connect) -> float:
    """Forks the clients, lets each call connect(), which returns a function of a range of ids, and gives each an equal
    part of the ids. The seconds from when all are connected until all have ended."""
    forking = multiprocessing.get_context("fork")
    barrier = forking.Barrier(clients + 1)

    def client(ids: range) -> None:
        enqueue = connect()
        barrier.wait(60)
        enqueue(ids)

    shares = [range(jobs * i // clients, jobs * (i + 1) // clients) for i in range(clients)]
    processes = [forking.Process(target=client, args=(share,)) for share in shares]
    for process in processes:
        process.start()
    barrier.wait(60)
    began = time.monotonic()
    for process in processes:
        process.join()
    if failed := sum(process.exitcode != 0 for process in processes):
        raise SystemExit(f"{failed} of {clients} clients failed, see above")
    return time.monotonic() - began


def in_parts(ids: range, batch: int):
    """The ids in ranges of at most batch."""
    return (range(start, min(ids.stop, start + batch)) for start in range(ids.start, ids.stop, batch))
