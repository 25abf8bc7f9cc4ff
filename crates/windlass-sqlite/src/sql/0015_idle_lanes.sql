-- Lanes and queues that nobody uses any more are removed: see src/idle_lanes.rs and docs/design/sqlite-lanes.md.
--
-- Programs remember the numbers of queues and lanes between their transactions. `name_changes` grows when some were removed; a program that reads
-- another number than before forgets what it remembers. Programs of version 14 and before do not read it, and would write jobs into a lane that is
-- not there, or is another queue's now. Therefore
--   nothing is removed while one of them may be at work: a worker of theirs lives, or one of them wrote within two days;
--   the first removal shuts them out, for good. Who opens the file is refused (`compatible_with` becomes 15), and who has it open cannot begin a
--   transaction: its row of `meta` is gone.
-- Until then they go on working. Not at once incompatible, because programs on one file are seldom replaced all in the same moment. A later version takes
-- `compatible_with` over from the rows before it, if that is more than its own.
--
-- `meta` is what they know this table by. `newer_only`: they are shut out. `older_wrote`: one of them did since the last look, which noted it in `older_at`.
-- `lanes_looked_at`: when the last look at all lanes and queues began. `look_lane`, `look_queue`: it is under way and got so far.
ALTER TABLE meta RENAME TO log_state;
ALTER TABLE log_state ADD COLUMN name_changes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log_state ADD COLUMN newer_only INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log_state ADD COLUMN older_wrote INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log_state ADD COLUMN older_at INTEGER;
ALTER TABLE log_state ADD COLUMN lanes_looked_at INTEGER;
ALTER TABLE log_state ADD COLUMN look_lane INTEGER;
ALTER TABLE log_state ADD COLUMN look_queue INTEGER;
-- In a new file there is nothing that an older program could remember.
UPDATE log_state SET older_wrote = EXISTS (SELECT 1 FROM queue);

CREATE VIEW meta AS
    SELECT one, next_sequence, requests, key_changes, handed, held_checked FROM log_state WHERE NOT newer_only;
CREATE TRIGGER older_program_writes INSTEAD OF UPDATE ON meta
BEGIN
    UPDATE log_state SET next_sequence = NEW.next_sequence, requests = NEW.requests, key_changes = NEW.key_changes, handed = NEW.handed,
        held_checked = NEW.held_checked, older_wrote = 1;
END;

-- `version`: of the worker's program; NULL for 14 and before.
ALTER TABLE worker ADD COLUMN version INTEGER;

-- `idle_since`: since when a look knows that the lane has no job; NULL again with the next change of its counts. `idle_n`, `idle_sequence`: the last row of
-- `happened`, and the next number of the sequence, at that time. What names the lane is before them.
ALTER TABLE lane ADD COLUMN idle_since INTEGER;
ALTER TABLE lane ADD COLUMN idle_n INTEGER;
ALTER TABLE lane ADD COLUMN idle_sequence INTEGER;
-- Since when the queue has no lanes, no settings and no worker.
ALTER TABLE queue ADD COLUMN idle_since INTEGER;

-- The numbers of lanes that were removed: all up to the highest that ever was are either here or in `lane`.
CREATE TABLE free_lane (id INTEGER PRIMARY KEY) STRICT;
CREATE INDEX keyed_lane_ended ON keyed_lane (lane) WHERE ended;
INSERT INTO migration VALUES (15, 6);
