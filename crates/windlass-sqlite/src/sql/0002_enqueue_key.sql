-- Version 2: idempotency keys. Additive: programs that know only version 1 may go on working.

-- The oldest program, by the newest version that it knows, that may work on a file of this version. A
-- version without a row: none older than the version itself.
CREATE TABLE migration (
    version INTEGER PRIMARY KEY,
    compatible_with INTEGER NOT NULL
) STRICT;
INSERT INTO migration VALUES (2, 1);

-- One row per key, for at least the retention. The jobs' ids are `first` and the `count - 1` after it: the
-- writer gives a batch its numbers in one go.
CREATE TABLE enqueue_key (
    key TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX enqueue_key_at ON enqueue_key (at);
