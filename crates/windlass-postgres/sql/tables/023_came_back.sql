-- Since when jobs that came back to the log could start: the rows of job that transaction xid wrote for jobs whose time had come, whose attempt was over, that were given back, rescued or retried.
-- Rows are added by note_came_back (sql/functions/14_promote.sql), at most about one a second, and removed after three days. Jobs that are enqueued and completed have no part in it.
CREATE TABLE {schema}.came_back (
    xid xid8 PRIMARY KEY,
    at  timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX came_back_at ON {schema}.came_back (at);
