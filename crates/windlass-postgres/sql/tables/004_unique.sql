-- Unique jobs: which job has each key, or had it last. Nothing is written here when a job ends: whether it still has its key
-- follows from what became of it, which who wants the key looks up (sql/functions/29_unique.sql).
-- key: the first 16 bytes of a SHA-256, see docs/design/unique.md.
-- lane_id, xid: where its row was written in the log, a short cut; lane_id NULL: it was not, or is not there any more. xid also
-- tells one taking of the key from the next.
-- until_finished: else until it is started. expires: the end of a window, which alone counts then.
-- check_at: when housekeeping looks whether the key is free. Not changed when the key is taken again, so that this update
-- touches no index.
CREATE TABLE {schema}.unique_key (
    key            uuid PRIMARY KEY,
    id             bigint NOT NULL,
    xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
    lane_id        integer,
    until_finished boolean NOT NULL,
    expires        timestamptz,
    taken_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    check_at       timestamptz NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX unique_key_check ON {schema}.unique_key (check_at);
