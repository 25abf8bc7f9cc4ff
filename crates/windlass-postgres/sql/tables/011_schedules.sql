-- Schedules: one row each, by name. Who declares them: sql/functions/50_schedules.sql; who decides about their ticks: the worker that
-- leads, by 51_advance.sql. What an expression means only programs know, so rows hold definitions as they were given.
-- definition: {"cron", "zone"?, "starts_at"?, "ends_at"?, "jitter_ms"?, "overlap"?, "missed"?, "kind", "args", "queue"?, "priority"?,
-- "max_attempts"?, "expiry_ms"?, "attributes"?}.
-- source: who declares it, for pruning; empty for nobody in particular.
-- version: another one after each change, never used again, so that a step is taken only from the row that it was decided on.
-- decided: every tick up to here was decided: it fired, or was passed over. queued_tick: one that waits for the end of last_job.
-- due_at: when there is something to decide; NULL never: it is paused, has ended, or cannot be read (error).
CREATE SEQUENCE {schema}.schedule_version;
CREATE TABLE {schema}.schedule (
    name             text COLLATE "C" PRIMARY KEY,
    source           text COLLATE "C" NOT NULL DEFAULT '',
    definition       json NOT NULL,
    paused           boolean NOT NULL DEFAULT false,
    version          bigint NOT NULL DEFAULT nextval('{schema}.schedule_version'),
    declared_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    decided          timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_tick        timestamptz,
    due_at           timestamptz DEFAULT clock_timestamp(),
    last_tick        timestamptz,
    last_job         bigint,
    last_enqueued_at timestamptz,
    queued_tick      timestamptz,
    error            text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER SEQUENCE {schema}.schedule_version OWNED BY {schema}.schedule.version;
CREATE INDEX schedule_due ON {schema}.schedule (due_at, name) WHERE due_at IS NOT NULL;
CREATE INDEX schedule_source ON {schema}.schedule (source, name) WHERE source <> '';
