-- What happened to jobs, in the order of commits: see docs/design/events.md. Nothing is written for it on the hot path but one number in
-- each claim and each settlement: which transaction wrote it.
--   settlement.event_xid: the transaction.
--   claim.event_pos: the transaction; where that had an id before its statement began, the newest one that had ended by then, if that is
--        later. Whoever saw a row has no smaller one, even in a transaction that began before it; and it had ended before the row was committed.
--   claim.event_late: NULL where event_pos is the transaction. Else two numbers, the transaction and one of event_seq: of two rows where
--        one's writer saw the other, that one's is larger.
-- NULL in rows that are older than these columns. Their names are long so that no query over these tables means them by accident.
CREATE SEQUENCE {schema}.event_seq;

-- What happened to single jobs that the log does not tell: failures, snoozes, and everything that people do. Append-only, and goes with
-- its segment, as the log does. event_pos, event_xid, event_n: as those of a claim, but each row has all three.
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
ALTER TABLE {schema}.claim ADD COLUMN event_pos xid8, ADD COLUMN event_late bigint[];
ALTER TABLE {schema}.settlement ADD COLUMN event_xid xid8;
DO $$
BEGIN
    FOR v_segment IN 0..3 LOOP
        EXECUTE format('CREATE TABLE {schema}.event_%s PARTITION OF {schema}.event (segment DEFAULT %s) FOR VALUES IN (%s) '
                       'WITH (autovacuum_enabled = off)', v_segment, v_segment, v_segment);
    END LOOP;
END $$;
ALTER TABLE {schema}.event ALTER COLUMN event_xid SET DEFAULT pg_current_xact_id(), ALTER COLUMN event_n SET DEFAULT nextval('{schema}.event_seq'),
    ALTER COLUMN event_pos SET DEFAULT greatest(pg_current_xact_id(), (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8);
ALTER TABLE {schema}.settlement ALTER COLUMN event_xid SET DEFAULT pg_current_xact_id();
CREATE INDEX claim_pos ON {schema}.claim (event_pos);
CREATE INDEX settlement_xid ON {schema}.settlement (event_xid);
CREATE INDEX event_pos ON {schema}.event (event_pos, event_n);
-- Rows of transactions that began before something that they saw: few.
CREATE INDEX claim_late ON {schema}.claim (event_late) WHERE event_late IS NOT NULL;
CREATE INDEX event_late ON {schema}.event (event_xid) WHERE event_pos <> event_xid;

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
