-- Jobs that somebody wants cancelled and that a worker holds: one row for each, until the worker's heartbeat finds that the
-- job was settled. Usually empty.
-- lane_id, seq: the claim that the job was of, so that its settlement is found by an index probe.
CREATE TABLE {schema}.cancel_request (
    job_id       bigint PRIMARY KEY,
    lane_id      integer NOT NULL,
    seq          bigint NOT NULL,
    worker_id    integer NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX cancel_request_worker ON {schema}.cancel_request (worker_id, lane_id, job_id);
