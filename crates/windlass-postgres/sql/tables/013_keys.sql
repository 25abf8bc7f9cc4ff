-- Keys inside a queue: see docs/design/postgres-keys.md. A queue with limits of its keys is a keyed queue. Its jobs stand in keyed
-- lanes, one for each priority, with ids below -1. Rows of the log there are found by key; claims there are direct and hand out copies.
ALTER TABLE {schema}.queue ADD COLUMN keyed boolean NOT NULL DEFAULT false;
CREATE INDEX queue_keyed ON {schema}.queue (name) WHERE keyed;
-- closed: of a queue whose limits were taken away; it is emptied, and lane_of passes it over.
ALTER TABLE {schema}.lane ADD COLUMN closed boolean NOT NULL DEFAULT false;
CREATE SEQUENCE {schema}.keyed_lane_seq START 2;

-- The key of a job without one is ''. The same expression as in key_of.
CREATE INDEX job_key ON {schema}.job (lane_id, (coalesce(nullif(attributes, '')::json ->> 'key', '')), id)
    WHERE lane_id < 0 AND xid < '{direct}';
-- By this the keys of a bulk are found without reading its jobs.
CREATE INDEX job_arrival ON {schema}.job (lane_id, xid, (coalesce(nullif(attributes, '')::json ->> 'key', '')), id)
    WHERE lane_id < 0 AND xid < '{direct}';
CREATE INDEX settlement_keyed ON {schema}.settlement (lane_id, event_xid) WHERE lane_id < 0;

-- xid: which row of the job is stepped over, in a keyed lane; 0 in others, where each job has one at most.
ALTER TABLE {schema}.cancelled_in_log ADD COLUMN xid xid8 NOT NULL DEFAULT '0',
    DROP CONSTRAINT cancelled_in_log_pkey, ADD PRIMARY KEY (job_id, lane_id, xid);

-- The limits. key '': of every key that is not named.
CREATE TABLE {schema}.key_limit (
    queue       text NOT NULL,
    key         text NOT NULL,
    concurrency integer,
    serial      boolean NOT NULL DEFAULT false,
    weight      smallint NOT NULL DEFAULT 1,
    PRIMARY KEY (queue, key)
);

-- The tables below are written by claims under the queue's lock (lock_keys). Rows are appended and the newest counts; housekeeping removes
-- the others.

-- How far a keyed lane is.
--   from_snapshot, to_snapshot, end_xid, end_key: which rows of the log were noticed, as the cursor of a claim, in the order of (xid, key).
--   tag, turn: the virtual time, and the visit up to which turns were taken.
--   folded: the settlements up to which the slots of keys are known.
CREATE TABLE {schema}.key_cursor (
    lane_id       integer NOT NULL,
    n             bigint NOT NULL,
    from_snapshot pg_snapshot NOT NULL,
    to_snapshot   pg_snapshot NOT NULL,
    end_xid       xid8,
    end_key       text,
    tag           double precision NOT NULL,
    turn          bigint NOT NULL,
    folded        pg_snapshot NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX key_cursor_lane ON {schema}.key_cursor (lane_id, n);

-- What was handed out of a key in a lane: the rows with ids up to last_id that were noticed before the claim that passed them, but for those in
-- key_late. tag: it is the key's turn at this virtual time; NULL: it has no turn, because nothing of it is there, or it is
-- blocked: what is there has to wait for the end of something.
CREATE SEQUENCE {schema}.key_visit_seq;
CREATE TABLE {schema}.key_visit (
    lane_id integer NOT NULL,
    n       bigint NOT NULL DEFAULT nextval('{schema}.key_visit_seq'),
    last_id bigint NOT NULL,
    tag     double precision,
    finish  double precision NOT NULL,
    blocked boolean NOT NULL,
    key     text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_visit_key ON {schema}.key_visit (lane_id, key, n);
CREATE INDEX key_visit_turn ON {schema}.key_visit (lane_id, tag, n) WHERE tag IS NOT NULL;
CREATE INDEX key_visit_blocked ON {schema}.key_visit (lane_id, key) WHERE blocked;
CREATE INDEX key_visit_n ON {schema}.key_visit (n);

-- Rows that came when their key was already beyond their ids (retried, rescued, promoted, committed late): those of one transaction from `id`
-- to `high`. Removed when they are handed out.
CREATE TABLE {schema}.key_late (
    lane_id integer NOT NULL,
    key     text NOT NULL,
    id      bigint NOT NULL,
    xid     xid8 NOT NULL,
    high    bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_late_key ON {schema}.key_late (lane_id, key, id);

-- Of a key with a concurrency, over all lanes of its queue: the jobs that were handed out and are not over, and by which claim. seq 0: nobody
-- holds it, it waits (of serial keys only).
CREATE TABLE {schema}.key_hold (
    n     bigint NOT NULL DEFAULT nextval('{schema}.key_visit_seq'),
    ids   bigint[] NOT NULL,
    seqs  bigint[] NOT NULL,
    lanes integer[] NOT NULL,
    queue text NOT NULL,
    key   text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_hold_key ON {schema}.key_hold (queue, key, n);

-- Claims of lanes without keys that were open when the queue got limits.
CREATE TABLE {schema}.key_before (queue text NOT NULL, lane_id integer NOT NULL, seq bigint NOT NULL, PRIMARY KEY (queue, lane_id, seq));

-- A job of a serial key that waited (for its retry, say) is elsewhere now.
CREATE TABLE {schema}.key_signal (lane_id integer NOT NULL, key text NOT NULL)
    WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_signal_lane ON {schema}.key_signal (lane_id);

-- How far forget_visits is.
ALTER TABLE {schema}.housekeeping ADD COLUMN visits_checked bigint NOT NULL DEFAULT 0, ADD COLUMN visits_began_at timestamptz NOT NULL DEFAULT '-infinity';
