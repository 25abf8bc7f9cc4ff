-- How many jobs ended in which way, by the minute: made from the log by sql/functions/43_fold.sql, never by those who work. queue '*' and kind '*': not
-- told apart.
CREATE TABLE {schema}.counter (
    minute  timestamptz NOT NULL,
    queue   text NOT NULL,
    kind    text NOT NULL,
    outcome text NOT NULL,
    n       bigint NOT NULL,
    PRIMARY KEY (minute, queue, kind, outcome)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Up to where the log was counted: one row, changed in the transactions that change counter.
--   since: everything that is visible there is counted. until, pos, n: the batch that is under way: what is visible in `until` and not in `since` is counted
--        up to (pos, n), in the order of sql/functions/41_changes.sql. begun_at: when `until` was taken.
--   counted_until: what ended before it is counted, but for what was not committed by then.
--   hasty: there is so much that kinds are not looked at.
CREATE TABLE {schema}.counter_fold (
    one           boolean PRIMARY KEY DEFAULT true CHECK (one),
    since         pg_snapshot NOT NULL DEFAULT pg_current_snapshot(),
    until         pg_snapshot,
    pos           xid8 NOT NULL DEFAULT '0',
    n             bigint NOT NULL DEFAULT 0,
    begun_at      timestamptz,
    counted_until timestamptz NOT NULL DEFAULT now(),
    hasty         boolean NOT NULL DEFAULT false
);
INSERT INTO {schema}.counter_fold DEFAULT VALUES;
