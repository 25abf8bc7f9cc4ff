-- The baseline: how most PostgreSQL queues store jobs, one row each, rewritten by claim and by completion.
-- Run by pgbench, so it pays for no client, no handler and no JSON: better than any real peer can be.
\set batch 1000
BEGIN;
UPDATE bench_baseline.job SET state = 1, worker = :client_id
    WHERE id IN (SELECT id FROM bench_baseline.job WHERE state = 0 ORDER BY id LIMIT :batch FOR UPDATE SKIP LOCKED);
COMMIT;
DELETE FROM bench_baseline.job WHERE state = 1 AND worker = :client_id;
