-- Limits of queues. Neither claims nor settlements write here: a worker leases slots, how many jobs of the queue it runs at once, and
-- permissions to start. Who writes: sql/functions/60_limits.sql, 61_slots.sql, 62_starts.sql.
-- rate_period: of seconds only, as no day or month has a fixed length.
ALTER TABLE {schema}.queue ADD COLUMN concurrency integer, ADD COLUMN rate integer, ADD COLUMN rate_period interval, ADD COLUMN rate_burst integer;
-- Most queues have no limits: a worker finds by this in one look that its own have none.
CREATE INDEX queue_limited ON {schema}.queue (name) WHERE concurrency IS NOT NULL OR rate IS NOT NULL;

-- What each worker has of a queue with limits, and would like. A row is written only when a share changes. It ends with its worker.
-- slots: how many it may run at once; NULL: only the rate is limited. want: how many it would.
-- wanted: it knows that others wait for some of its slots.
-- generation: of the request that said so; see share.
-- since: since when it has slots, or waits for the first.
CREATE TABLE {schema}.slot (
    since     timestamptz NOT NULL DEFAULT clock_timestamp(),
    worker_id integer NOT NULL,
    slots     integer,
    want      integer NOT NULL,
    wanted    boolean NOT NULL DEFAULT false,
    generation integer NOT NULL DEFAULT 0,
    queue     text NOT NULL,
    PRIMARY KEY (queue, worker_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX slot_worker ON {schema}.slot (worker_id);

-- Permissions to start that were given out, one row for each time; never changed, removed when no window reaches back to it.
-- at: by the queue's own clock, which never goes back; strictly ascending. clock: what the server's clock said.
-- before, started: how many were given out until then, without these and with them.
CREATE TABLE {schema}.started (
    at         timestamptz NOT NULL,
    clock      timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    before     bigint NOT NULL,
    started    bigint NOT NULL,
    queue      text NOT NULL,
    PRIMARY KEY (queue, at)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX started_expires ON {schema}.started (expires_at);
