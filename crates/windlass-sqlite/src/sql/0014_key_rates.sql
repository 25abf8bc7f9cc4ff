-- Rates of keys: see docs/design/keys.md (K7) and docs/design/sqlite-keys.md. `period`: in microseconds.
ALTER TABLE key_limit ADD COLUMN rate INTEGER;
ALTER TABLE key_limit ADD COLUMN period INTEGER;

-- Jobs of keys with a rate that are held no more: they count until `free_at`.
CREATE TABLE key_ended (
    queue INTEGER NOT NULL,
    key TEXT NOT NULL,
    free_at INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (queue, key, free_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX key_ended_time ON key_ended (queue, free_at);
-- How many jobs of a key that are; no row for none. Not in `key_held`: an older program removes rows there.
CREATE TABLE key_ended_count (
    queue INTEGER NOT NULL,
    key TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
-- When the rate of a key allows more, where its jobs wait for that.
ALTER TABLE key_turn ADD COLUMN due INTEGER;
CREATE INDEX key_turn_due ON key_turn (n, due) WHERE due IS NOT NULL;

-- `rates`: some key of the queue has a rate. A program of version 11 to 13 would hand out more, so that to it such a queue is paused: `paused` is 11 then, or 15 where
-- somebody paused it, also where an older program sets it.
ALTER TABLE queue ADD COLUMN rates INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER rates_look_paused AFTER UPDATE OF paused ON queue WHEN NEW.keyed AND NEW.rates AND NEW.paused < 8
BEGIN
    UPDATE queue SET paused = 11 + 4 * (NEW.paused & 1) WHERE id = NEW.id;
END;
INSERT INTO migration VALUES (14, 6);
