-- Rates of keys: see docs/design/keys.md (K7) and docs/design/postgres-keys.md. Of a key with a rate a job counts from when it is handed out until the period after
-- it is held no more. What is held is in key_room and key_held; what ended and still counts is here.
ALTER TABLE {schema}.key_limit ADD COLUMN rate integer, ADD COLUMN rate_period interval;
-- Whether some key of the queue has a rate, or all have.
ALTER TABLE {schema}.queue ADD COLUMN key_rates boolean NOT NULL DEFAULT false;
CREATE INDEX queue_key_rates ON {schema}.queue (name) WHERE key_rates;

-- ended: how many jobs of the key are held no more and still count.
ALTER TABLE {schema}.key_room ADD COLUMN ended integer NOT NULL DEFAULT 0;
-- due_at, of a key that is blocked because of its rate: when the first of them counts no more. Of rows with the same time the live one is that with the highest n.
ALTER TABLE {schema}.key_turn ADD COLUMN due_at timestamptz;
CREATE INDEX key_turn_due ON {schema}.key_turn (lane_id, due_at, n DESC) WHERE due_at IS NOT NULL;

-- The jobs that `ended` counts, and until when. None of them is before the time in key_looked.
CREATE TABLE {schema}.key_ended (
    free_at timestamptz NOT NULL,
    jobs    integer NOT NULL,
    queue   text NOT NULL,
    key     text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_ended_time ON {schema}.key_ended (queue, free_at);
CREATE INDEX key_ended_key ON {schema}.key_ended (queue, key, free_at);

-- Of each queue with rates: up to which time what ended was taken out of the counts. Replaced like rows of key_room.
CREATE TABLE {schema}.key_looked (
    n     bigint NOT NULL DEFAULT nextval('{schema}.key_turn_seq'),
    at    timestamptz NOT NULL,
    queue text NOT NULL,
    PRIMARY KEY (queue, n)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
