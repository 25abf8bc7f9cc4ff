-- Keys inside a queue: see docs/design/postgres-keys.md. A queue with limits of its keys is a keyed queue. Its jobs go through the log as all do; claims move them from
-- there to table waiting (state keyed), into a lane of the queue and priority that has a negative id, and hand them out from there.

-- keyed: true: it has limits of its keys.
ALTER TABLE {schema}.queue ADD COLUMN keyed boolean NOT NULL DEFAULT false;
CREATE SEQUENCE {schema}.keyed_lane_seq START 2;

-- Not validated: the rows that are there have one of three of these states.
ALTER TABLE {schema}.waiting DROP CONSTRAINT waiting_state_check,
    ADD CONSTRAINT waiting_state_check CHECK (state IN ('scheduled', 'retryable', 'no_handler', 'keyed')) NOT VALID;
DROP INDEX {schema}.waiting_due;
CREATE INDEX waiting_due ON {schema}.waiting (available_at, id) WHERE state IN ('scheduled', 'retryable');
-- The key of a job without one is ''. The same expression as in key_of.
CREATE INDEX waiting_key ON {schema}.waiting (lane_id, (coalesce(nullif(attributes, '')::json ->> 'key', '')), id) WHERE state = 'keyed';
CREATE INDEX settlement_keyed ON {schema}.settlement (lane_id, event_xid) WHERE lane_id < 0;

-- The limits. key '': of every key that is not named.
CREATE TABLE {schema}.key_limit (
    queue       text NOT NULL,
    key         text NOT NULL,
    concurrency integer,
    serial      boolean NOT NULL DEFAULT false,
    weight      smallint NOT NULL DEFAULT 1,
    PRIMARY KEY (queue, key)
);

-- What claims know. All of it is written under the queue's lock (lock_keys). A row is replaced by one with a higher n: looked for from the highest, it is found at
-- once, however many dead ones an open transaction keeps.
CREATE SEQUENCE {schema}.key_turn_seq;

-- A lane: its virtual time, the turn up to which keys were served (tag, turn), and the settlements up to which room was made (folded).
CREATE TABLE {schema}.key_lane (
    lane_id integer NOT NULL,
    n       bigint NOT NULL DEFAULT nextval('{schema}.key_turn_seq'),
    tag     double precision NOT NULL,
    turn    bigint NOT NULL,
    folded  pg_snapshot NOT NULL,
    PRIMARY KEY (lane_id, n)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- A key of a lane. tag: it is the key's turn at this virtual time; NULL: it has no turn, because nothing of it is there, or because it is blocked: what is there
-- waits for the end of something. finish: the virtual time at which its last job ended. low_id: no job of it that is there has a lower one.
CREATE TABLE {schema}.key_turn (
    lane_id integer NOT NULL,
    n       bigint NOT NULL DEFAULT nextval('{schema}.key_turn_seq'),
    tag     double precision,
    finish  double precision NOT NULL,
    low_id  bigint NOT NULL,
    blocked boolean NOT NULL,
    key     text NOT NULL,
    PRIMARY KEY (lane_id, key, n)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_turn_tag ON {schema}.key_turn (lane_id, tag, n) WHERE tag IS NOT NULL;
CREATE INDEX key_turn_blocked ON {schema}.key_turn (lane_id, key) WHERE blocked;

-- A key with a concurrency, over all lanes of its queue. held: how many of its jobs workers hold. begun, of serial keys only: the jobs that were handed out and
-- are not over.
CREATE TABLE {schema}.key_room (
    n     bigint NOT NULL DEFAULT nextval('{schema}.key_turn_seq'),
    held  integer NOT NULL,
    begun bigint[] NOT NULL,
    queue text NOT NULL,
    key   text NOT NULL,
    PRIMARY KEY (queue, key, n)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- The jobs that `held` counts, by their claim.
CREATE TABLE {schema}.key_held (
    lane_id integer NOT NULL,
    seq     bigint NOT NULL,
    id      bigint NOT NULL,
    key     text NOT NULL,
    PRIMARY KEY (lane_id, seq, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- A job of a serial key of which claims must look whether it is over; is_over: it is, whatever they find. Written by tell_key.
CREATE TABLE {schema}.key_signal (
    lane_id integer NOT NULL,
    n       bigint NOT NULL DEFAULT nextval('{schema}.key_turn_seq'),
    job_id  bigint NOT NULL,
    is_over boolean NOT NULL,
    key     text NOT NULL,
    PRIMARY KEY (lane_id, n)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Up to where forget_key_turns has looked, and since when.
ALTER TABLE {schema}.housekeeping ADD COLUMN turns_lane integer NOT NULL DEFAULT -2147483648, ADD COLUMN turns_key text NOT NULL DEFAULT '',
    ADD COLUMN turns_began_at timestamptz NOT NULL DEFAULT '-infinity';
