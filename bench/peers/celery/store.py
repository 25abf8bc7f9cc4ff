"""Jobs into the broker, and what the broker says of them."""

import redis
from clients import in_parts
from tasks import app, bench

SEED_BATCH = 1000


class Store:
    def __init__(self, url: str):
        self.redis = redis.Redis.from_url(url)

    def connect(self) -> None:
        """Opens the producer's connection, which is made on first use otherwise."""
        with app.producer_pool.acquire(block=True) as producer:
            producer.connection.ensure_connection(max_retries=3)

    def enqueue(self, ids: range) -> None:
        """One pipeline to Redis for all of them: the batch of Kombu's producer."""
        with app.producer_pool.acquire(block=True) as producer, producer.batch(max_size=len(ids)):
            for job_id in ids:
                bench.apply_async(kwargs={"id": job_id}, producer=producer)

    def enqueue_one(self, job_id: int) -> None:
        bench.delay(id=job_id)

    def seed(self, count: int) -> None:
        for part in in_parts(range(count), SEED_BATCH):
            self.enqueue(part)

    def unfinished(self) -> int:
        """Waiting in the queue, or reserved by a worker and not yet acknowledged."""
        return self.redis.llen("celery") + self.redis.hlen("unacked")

    def expect(self, count: int) -> None:
        if (found := self.unfinished()) != count:
            raise SystemExit(f"the broker holds {found} unfinished jobs; expected {count}")
