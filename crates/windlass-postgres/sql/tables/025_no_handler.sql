-- Of which kinds jobs of a lane wait, or waited, for a worker that knows them, and from where in the order of transactions a claim has to look: what waited before has gone, and a held
-- snapshot keeps its entries (100,000 of them: 40 ms for each claim). Of a lane and kind the row with the largest noted counts, so that what it was before need not be walked.
-- late: transactions before from_xid that were open when it was written, and may have put jobs there since.
-- Rows are written by a trigger (sql/functions/08_no_handler.sql) for the first such job of its kind, and by the claims that hand such jobs out. They go with their lane.
CREATE TABLE {schema}.no_handler (
    lane_id  integer NOT NULL,
    kind     text    NOT NULL,
    noted    xid8    NOT NULL,
    from_xid xid8    NOT NULL,
    late     xid8[]  NOT NULL DEFAULT '{}',
    PRIMARY KEY (lane_id, kind, noted)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
-- The transaction since which a job waits for a handler; of others nothing.
ALTER TABLE {schema}.waiting ADD COLUMN xid xid8;
DROP INDEX IF EXISTS {schema}.waiting_no_handler;
UPDATE {schema}.waiting SET xid = pg_current_xact_id() WHERE state = 'no_handler';
INSERT INTO {schema}.no_handler (lane_id, kind, noted, from_xid)
    SELECT DISTINCT h.lane_id, h.kind, pg_current_xact_id(), '0'::xid8 FROM {schema}.waiting h WHERE h.state = 'no_handler';
CREATE INDEX waiting_no_handler ON {schema}.waiting (lane_id, kind, xid, id) WHERE state = 'no_handler';
