-- What workers measure: how long jobs waited and ran, and why attempts failed. Rows are added by measure, those of one minute put together by keep_timings (sql/functions/44_timings.sql), later those of
-- one quarter of an hour, and removed after 30 days. No part of the queue touches them.
-- at: when the minute, or the quarter of an hour, begins. n: how many attempts. wait, run: how many by the number of their range (windlass_core::Histogram).
-- queue '*' and kind '*': not told apart.
CREATE TABLE {schema}.timing (
    at    timestamptz NOT NULL,
    n     bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    wait  jsonb NOT NULL,
    run   jsonb NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX timing_at ON {schema}.timing (at);
ALTER TABLE {schema}.timing REPLICA IDENTITY FULL;

-- Failed attempts by cause. fingerprint '*': not told apart. last_job: the newest of the jobs; sample: the first line of its error.
CREATE TABLE {schema}.failure (
    at          timestamptz NOT NULL,
    n           bigint NOT NULL,
    last_job    bigint NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    sample      text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX failure_at ON {schema}.failure (at);
ALTER TABLE {schema}.failure REPLICA IDENTITY FULL;

-- Up to where the rows of a minute, and of a quarter of an hour, were put together: one row.
CREATE TABLE {schema}.timing_kept (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    minutes  timestamptz NOT NULL DEFAULT '-infinity',
    quarters timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO {schema}.timing_kept DEFAULT VALUES;
