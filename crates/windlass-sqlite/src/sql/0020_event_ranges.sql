-- Jobs `first` to `last` were enqueued, which the log does not tell: for later, or their rows left it. One row for all those of a transaction, lane and kind whose
-- numbers follow one another; a row for each was a third of what it cost to schedule in bulk.
CREATE TABLE enqueued_range (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    at INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    kind TEXT NOT NULL
) STRICT;
INSERT INTO enqueued_range SELECT sequence, sequence, at, lane, kind FROM enqueued_elsewhere;
DROP TABLE enqueued_elsewhere;

-- As an older program knows it, which works on beside this.
CREATE VIEW enqueued_elsewhere AS
    WITH RECURSIVE jobs (sequence, last, at, lane, kind) AS (
        SELECT first, last, at, lane, kind FROM enqueued_range
        UNION ALL SELECT sequence + 1, last, at, lane, kind FROM jobs WHERE sequence < last)
    SELECT sequence, at, lane, kind FROM jobs;
CREATE TRIGGER older_program_tells INSTEAD OF INSERT ON enqueued_elsewhere BEGIN
    INSERT OR IGNORE INTO enqueued_range VALUES (NEW.sequence, NEW.sequence, NEW.at, NEW.lane, NEW.kind);
END;
CREATE TRIGGER older_program_forgets INSTEAD OF DELETE ON enqueued_elsewhere BEGIN
    DELETE FROM enqueued_range WHERE last = OLD.sequence;
END;
INSERT INTO migration SELECT 20, compatible_with FROM migration ORDER BY version DESC LIMIT 1;
