"""Jobs into the store, and what the store says of them."""

import jobs
import psycopg
from clients import in_parts

SEED_BATCH = 5000


class Store:
    def __init__(self, url: str):
        self.connection = psycopg.connect(url, autocommit=True)
        jobs.app.open()

    def create(self) -> None:
        jobs.app.schema_manager.apply_schema()

    def enqueue(self, ids: range) -> None:
        """One INSERT for all of them."""
        jobs.bench.batch_defer(*({"id": job_id} for job_id in ids))

    def enqueue_serial(self, count: int, keys: int) -> None:
        """The jobs of a lock run one after the other."""
        for key in range(keys):
            jobs.bench.configure(lock=f"key-{key}").batch_defer(*({"id": job_id} for job_id in range(key, count, keys)))
        self.connection.execute("ANALYZE")

    def enqueue_one(self, job_id: int) -> None:
        jobs.bench.defer(id=job_id)

    def seed(self, count: int) -> None:
        for part in in_parts(range(count), SEED_BATCH):
            self.enqueue(part)
        self.connection.execute("ANALYZE")

    def unfinished(self) -> int:
        query = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        return self.connection.execute(query).fetchone()[0]

    def expect(self, count: int, status: str) -> None:
        """Fails unless the table holds exactly so many jobs, all in that status."""
        found = dict(self.connection.execute("SELECT status::text, count(*) FROM procrastinate_jobs GROUP BY 1").fetchall())
        if found != {status: count}:
            raise SystemExit(f"the store holds {found}; expected {count} jobs, all {status}")

    def close(self) -> None:
        jobs.app.close()
        self.connection.close()
