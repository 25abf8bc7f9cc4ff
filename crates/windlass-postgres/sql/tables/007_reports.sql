-- What handlers said of their jobs while they ran: one row for each job of which anything was said, for all its attempts and as
-- long as it is readable. Who writes it: sql/functions/33_reports.sql.
-- worker_id, lane_id, seq, number: who said it last: which claim, and which report of this job under it. worker_id NULL: not
-- written yet, in the transaction that makes the row.
-- log: a JSON array of {"at", "attempt", "text"}, oldest first.
-- check_at: when housekeeping looks whether the job is still there. Not changed by reports, so that these updates touch no
-- index, and leave large values that did not change where they are.
CREATE TABLE {schema}.job_report (
    job_id      bigint PRIMARY KEY,
    number      bigint NOT NULL DEFAULT 0,
    seq         bigint,
    lane_id     integer,
    worker_id   integer,
    reported_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    check_at    timestamptz NOT NULL,
    percent     double precision,
    log_dropped bigint NOT NULL DEFAULT 0,
    attempt     smallint NOT NULL DEFAULT 0,
    note        text,
    checkpoint  json,
    log         json
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_report_check ON {schema}.job_report (check_at);
