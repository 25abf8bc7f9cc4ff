-- Keys inside a queue: see src/keyed.rs.
--
-- To a program of an older version a keyed queue is paused, so it takes nothing from it and breaks no limit; what it adds, cancels,
-- edits or rescues there is found out by claims and housekeeping of newer ones. `paused` has 2 added while the queue is keyed, also
-- where an older program sets it.
ALTER TABLE queue ADD COLUMN keyed INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER keyed_looks_paused AFTER UPDATE OF paused ON queue WHEN NEW.keyed AND NEW.paused < 2
BEGIN
    UPDATE queue SET paused = NEW.paused + 2 WHERE id = NEW.id;
END;

-- `key_changes` grows when a lane becomes keyed or is so no more. `handed`: how many numbers of the sequence claims of keyed lanes took, which
-- is no sign of work. `held_checked`: up to where housekeeping has compared `held_job` with the log.
ALTER TABLE meta ADD COLUMN key_changes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN handed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN held_checked INTEGER NOT NULL DEFAULT 0;

-- The limits of a keyed queue. Key '': of every key that has no row.
CREATE TABLE key_limit (
    queue INTEGER NOT NULL,
    key TEXT NOT NULL,
    concurrency INTEGER,
    serial INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;

-- The lanes of keyed queues. `entered`: up to which position its available jobs are in `keyed_job`. `vt`: its virtual time. `ended`: it is not
-- keyed any more, and housekeeping removes what belongs to number `n`.
CREATE TABLE keyed_lane (
    n INTEGER PRIMARY KEY,
    lane INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    entered INTEGER NOT NULL,
    vt INTEGER NOT NULL,
    ended INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX keyed_lane_lane ON keyed_lane (lane) WHERE NOT ended;

-- The available jobs of a keyed lane by key; '' for those without. `ord`: their order, which is that of their ids; less 2^45 for one that was
-- handed out before and that the others of its key wait for. Of jobs without a key the order is that of the log.
CREATE TABLE keyed_job (
    n INTEGER NOT NULL,
    key TEXT NOT NULL,
    ord INTEGER NOT NULL,
    pos INTEGER NOT NULL,
    PRIMARY KEY (n, key, ord)
) STRICT, WITHOUT ROWID;

-- Whose turn it is: the lowest `vt` of state 0. `state`: 0 has jobs and may have one to hand out, 1 may not hand out more now, 2 has no jobs.
CREATE TABLE key_turn (
    n INTEGER NOT NULL,
    key TEXT NOT NULL,
    vt INTEGER NOT NULL,
    state INTEGER NOT NULL,
    PRIMARY KEY (n, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX key_turn_next ON key_turn (n, state, vt);

-- The jobs that workers hold of keys whose number is limited, by their position.
CREATE TABLE held_job (
    pos INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    key TEXT NOT NULL
) STRICT;

-- Jobs of serial keys that were handed out, are not over and are not held: the others of the key wait for them.
CREATE TABLE key_blocker (
    job INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    key TEXT NOT NULL
) STRICT;
CREATE INDEX key_blocker_key ON key_blocker (queue, key);

-- How many of the two there are; no row for none.
CREATE TABLE key_held (
    queue INTEGER NOT NULL,
    key TEXT NOT NULL,
    held INTEGER NOT NULL,
    blockers INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
INSERT INTO migration VALUES (11, 6);
