-- Version 1: the whole schema. Runs inside the migration's own transaction.
--
-- A position (`pos`) is `lane << 45 | sequence`: the log is clustered by lane, in order of hand-out,
-- without a second index. A lane is one queue at one priority; its number is even. The odd number after
-- it is its direct twin, which holds jobs that were handed out without waiting in the log (those that a worker had no handler for).

-- The one sequence of job ids and log positions: the next free number.
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    next_sequence INTEGER NOT NULL
) STRICT;
INSERT INTO meta VALUES (1, 1);

-- The oldest program, by the newest version that it knows, that may work on a file of this version. A
-- version without a row: none older than the version itself.
CREATE TABLE migration (
    version INTEGER PRIMARY KEY,
    compatible_with INTEGER NOT NULL
) STRICT;
INSERT INTO migration VALUES (1, 1);

-- Policy, for all workers alike. Times in microseconds.
CREATE TABLE setting (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    retention INTEGER NOT NULL DEFAULT 86400000000,
    dead_retention INTEGER NOT NULL DEFAULT 2592000000000,
    segment_bytes INTEGER NOT NULL DEFAULT 1073741824,
    max_crashes INTEGER NOT NULL DEFAULT 5
) STRICT;
INSERT INTO setting (one) VALUES (1);

CREATE TABLE queue (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    paused INTEGER NOT NULL DEFAULT 0
) STRICT;

-- `cursor`: the last position that was handed out. The counts change in the transaction that moves the jobs.
-- `no_handler`: jobs without a handler.
CREATE TABLE lane (
    id INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL REFERENCES queue (id),
    priority INTEGER NOT NULL,
    cursor INTEGER NOT NULL,
    available INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    scheduled INTEGER NOT NULL DEFAULT 0,
    retryable INTEGER NOT NULL DEFAULT 0,
    no_handler INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    discarded INTEGER NOT NULL DEFAULT 0,
    UNIQUE (queue, priority)
) STRICT;

-- The log: available jobs (after their lane's cursor), running and completed ones (up to it).
-- `attributes`: NULL, or a JSON object with what only some jobs have.
-- `id` is NULL while the job is where it was first appended: its id is then the position's sequence.
CREATE TABLE job (
    pos INTEGER PRIMARY KEY,
    id INTEGER,
    kind TEXT NOT NULL,
    args TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    crash_count INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    attributes TEXT
) STRICT;
CREATE INDEX job_moved ON job (id) WHERE id IS NOT NULL;

-- A stretch of one lane, `lo` to `hi`, leased to one worker. `open` counts the jobs that are not settled; at 0
-- the rows that are still in the log are exactly those that completed. `moved`: whether jobs of it have an `id`.
CREATE TABLE claim (
    lo INTEGER PRIMARY KEY,
    hi INTEGER NOT NULL,
    token INTEGER NOT NULL,
    worker INTEGER NOT NULL,
    moved INTEGER NOT NULL,
    open INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    claimed_at INTEGER NOT NULL,
    finished_at INTEGER
) STRICT;
CREATE INDEX claim_open ON claim (worker) WHERE open > 0;
CREATE INDEX claim_finished ON claim (finished_at) WHERE open = 0;

-- Part of a claim that completed: job ids `first` to `last`. Ranges of one claim never overlap.
CREATE TABLE settlement (
    claim INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (claim, first)
) STRICT, WITHOUT ROWID;

-- What completed jobs returned, those that did. `claim` is the claim that they completed under.
CREATE TABLE result (
    job INTEGER PRIMARY KEY,
    claim INTEGER NOT NULL,
    result TEXT NOT NULL
) STRICT;
CREATE INDEX result_claim ON result (claim);

-- Jobs that wait outside the log. `state`: 0 scheduled, 1 retryable, 2 without a handler.
CREATE TABLE waiting (
    id INTEGER PRIMARY KEY,
    lane INTEGER NOT NULL,
    state INTEGER NOT NULL,
    available_at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    args TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    crash_count INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    attributes TEXT
) STRICT;
CREATE INDEX waiting_due ON waiting (available_at, id) WHERE state < 2;
CREATE INDEX waiting_no_handler ON waiting (lane, kind, id) WHERE state = 2;
CREATE INDEX waiting_lane ON waiting (lane, state, available_at, id);

-- Jobs that will not run any more. `state`: 0 cancelled, 1 discarded.
CREATE TABLE dead (
    id INTEGER PRIMARY KEY,
    lane INTEGER NOT NULL,
    state INTEGER NOT NULL,
    reason TEXT NOT NULL,
    claimed_at INTEGER,
    claimed_by INTEGER,
    finished_at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    args TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    crash_count INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    attributes TEXT
) STRICT;
CREATE INDEX dead_finished ON dead (finished_at);
CREATE INDEX dead_lane ON dead (lane, state, finished_at, id);

CREATE TABLE attempt_error (
    n INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    at INTEGER NOT NULL,
    error TEXT NOT NULL
) STRICT;
CREATE INDEX attempt_error_job ON attempt_error (job);

-- `in_touch_since`: since when no two heartbeats were half a lease apart.
-- `ended_at` is set when the worker left or was declared dead: nothing it writes is accepted from then on.
CREATE TABLE worker (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    queues TEXT NOT NULL,
    kinds TEXT NOT NULL,
    lease INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    in_touch_since INTEGER NOT NULL,
    ended_at INTEGER,
    suspect INTEGER
) STRICT;
CREATE INDEX worker_live ON worker (heartbeat_at) WHERE ended_at IS NULL;

CREATE TABLE leader (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    worker INTEGER NOT NULL,
    taken_at INTEGER NOT NULL,
    term INTEGER NOT NULL
) STRICT;

-- One row per key, for at least the retention. The jobs' ids are `first` and the `count - 1` after it: the
-- writer gives a batch its numbers in one go.
CREATE TABLE enqueue_key (
    key TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX enqueue_key_at ON enqueue_key (at);
