-- Schedules: one row each, by name. definition: as crate windlass-core writes it. decided: every tick up to here was decided.
-- due_at: when there is something to decide; NULL never. version: never used again, so that a step is taken only from the row
-- that it was decided on.
CREATE TABLE schedule (
    name TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    definition TEXT NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL,
    decided INTEGER NOT NULL,
    next_tick INTEGER,
    due_at INTEGER,
    last_tick INTEGER,
    last_job INTEGER,
    last_enqueued_at INTEGER,
    queued_tick INTEGER,
    error TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_due ON schedule (due_at, name) WHERE due_at IS NOT NULL;
CREATE INDEX schedule_source ON schedule (source, name);
-- version: the last one that was used. changes: how often schedules were declared, removed or paused.
CREATE TABLE schedule_counter (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL,
    changes INTEGER NOT NULL
) STRICT;
INSERT INTO schedule_counter VALUES (1, 0, 0);
INSERT INTO migration VALUES (9, 6);
