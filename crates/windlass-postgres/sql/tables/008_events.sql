-- What happened to jobs, in the order of commits: see docs/design/events.md. Nothing is written for it on the hot path: a claim and a
-- settlement say in which transaction they were written.
--   event_xid: the transaction.
--   event_pos: the newest transaction that had ended when the row was written, or event_xid where that is later. Whoever saw a row has no smaller one,
--        even in a transaction that began before it; and it had ended before the row was committed.
--   event_n: of two rows where one's writer saw the other, that one's is larger.
-- NULL in rows that are older than these columns. Their names are long so that no query over these tables means them by accident.
CREATE SEQUENCE {schema}.event_seq;

-- What happened to single jobs that the log does not tell: failures, snoozes, and everything that people do. Append-only, and goes with
-- its segment, as the log does.
CREATE TABLE {schema}.event (
    event_pos xid8,
    event_xid xid8,
    event_n   bigint,
    job_id    bigint NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    lane_id   integer NOT NULL,
    worker_id integer,
    attempt   smallint NOT NULL,
    segment   smallint NOT NULL,
    event     text NOT NULL,
    kind      text NOT NULL,
    reason    text
) PARTITION BY LIST (segment);
ALTER TABLE {schema}.claim ADD COLUMN event_pos xid8, ADD COLUMN event_xid xid8, ADD COLUMN event_n bigint;
ALTER TABLE {schema}.settlement ADD COLUMN event_pos xid8, ADD COLUMN event_xid xid8, ADD COLUMN event_n bigint;
DO $$
DECLARE
    v_table text;
BEGIN
    FOR v_segment IN 0..3 LOOP
        EXECUTE format('CREATE TABLE {schema}.event_%s PARTITION OF {schema}.event (segment DEFAULT %s) FOR VALUES IN (%s) '
                       'WITH (autovacuum_enabled = off)', v_segment, v_segment, v_segment);
    END LOOP;
    FOREACH v_table IN ARRAY ARRAY['claim', 'settlement', 'event'] LOOP
        EXECUTE format(
            'ALTER TABLE {schema}.%I ALTER COLUMN event_xid SET DEFAULT pg_current_xact_id(), '
            'ALTER COLUMN event_pos SET DEFAULT greatest(pg_current_xact_id(), '
            '    (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8), '
            'ALTER COLUMN event_n SET DEFAULT nextval(''{schema}.event_seq'')', v_table);
        EXECUTE format('CREATE INDEX %s_pos ON {schema}.%I (event_pos, event_n)', v_table, v_table);
        -- Rows of transactions that began before something that they saw: few.
        EXECUTE format('CREATE INDEX %s_late ON {schema}.%I (event_xid) WHERE event_pos <> event_xid', v_table, v_table);
    END LOOP;
END $$;

-- moved: written for a job that was somewhere else before, not by its enqueue.
ALTER TABLE {schema}.waiting ADD COLUMN moved boolean NOT NULL DEFAULT false;

-- One row. log: which log this is; another after a move to another cluster. kept_from: what is visible there may have been removed,
-- everything else can be read.
CREATE TABLE {schema}.event_log (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    log       text NOT NULL DEFAULT substr(md5(random()::text || clock_timestamp()::text), 1, 8),
    kept_from pg_snapshot NOT NULL DEFAULT pg_current_snapshot()
);
INSERT INTO {schema}.event_log DEFAULT VALUES;
