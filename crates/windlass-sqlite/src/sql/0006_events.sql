-- What happened to jobs: see docs/design/events.md.
--
-- One row for each claim, each completion (of a whole claim, or of a range of ids) and each other thing that happened to one job, in
-- the order of commits. `mark`: what the one sequence stood at, so that enqueues, which have only their job's number, stand before what has
-- a larger mark. The newest row is never removed, so that numbers are not used again.
-- `what`: 0 a claim was made, 1 its rest completed, 2 its jobs `first` to `last` completed; else the name of what happened to job `first`.
CREATE TABLE happened (
    n INTEGER PRIMARY KEY,
    mark INTEGER NOT NULL,
    at INTEGER NOT NULL,
    what ANY NOT NULL,
    claim INTEGER,
    first INTEGER,
    last INTEGER,
    worker INTEGER,
    lane INTEGER,
    kind TEXT,
    attempt INTEGER,
    reason TEXT
) STRICT;

-- What the log told of a job before its row left it: that it was enqueued as number `sequence`, and that it was started with the claim
-- that is row `n` of happened.
CREATE TABLE enqueued_elsewhere (
    sequence INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    kind TEXT NOT NULL
) STRICT;
CREATE TABLE started_elsewhere (
    n INTEGER NOT NULL,
    pos INTEGER NOT NULL,
    job INTEGER NOT NULL,
    kind TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    PRIMARY KEY (n, pos)
) STRICT, WITHOUT ROWID;

-- `started`: the claim's row in happened; `changed`: the last one about it. NULL for claims that are older than this table.
ALTER TABLE claim ADD COLUMN started INTEGER;
ALTER TABLE claim ADD COLUMN changed INTEGER;

-- `log`: which log this is. What happened after row `kept_n`, and jobs enqueued after number `kept_sequence`, can be told of.
CREATE TABLE event_log (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    log TEXT NOT NULL,
    kept_n INTEGER NOT NULL,
    kept_sequence INTEGER NOT NULL
) STRICT;
INSERT INTO event_log SELECT 1, lower(hex(randomblob(4))), 0, next_sequence - 1 FROM meta;
