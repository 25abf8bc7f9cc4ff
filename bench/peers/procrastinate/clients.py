"""Concurrent clients that enqueue: threads, each with a connection of the pool at hand."""

import time
from concurrent.futures import ThreadPoolExecutor

from store import Store


def enqueue_concurrently(store: Store, count: int, clients: int, batch: int) -> float:
    """The seconds it took; the connections are open already."""

    def client(index: int) -> None:
        ids = range(count * index // clients, count * (index + 1) // clients)
        if batch == 1:
            for job_id in ids:
                store.enqueue_one(job_id)
            return
        for start in range(ids.start, ids.stop, batch):
            store.enqueue(range(start, min(ids.stop, start + batch)))

    began = time.monotonic()
    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(client, range(clients)))  # asking for the results raises a client's error here
    return time.monotonic() - began
