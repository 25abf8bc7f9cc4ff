-- Which job has each unique key, or had it last: whether it still has it follows from what became of the job.
-- `until`: 0 started, 1 finished, 2 a window, which ends at `ends_at`. `check_at`: when housekeeping looks whether the key is free.
CREATE TABLE unique_key (
    key BLOB PRIMARY KEY,
    job INTEGER NOT NULL,
    until INTEGER NOT NULL,
    taken_at INTEGER NOT NULL,
    ends_at INTEGER,
    check_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX unique_key_check ON unique_key (check_at);
