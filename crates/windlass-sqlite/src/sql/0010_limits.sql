-- Limits of queues, NULL where there is none. `rate_period` in microseconds.
ALTER TABLE queue ADD COLUMN concurrency INTEGER;
ALTER TABLE queue ADD COLUMN rate INTEGER;
ALTER TABLE queue ADD COLUMN rate_period INTEGER;
ALTER TABLE queue ADD COLUMN rate_burst INTEGER;

-- What each worker has of a queue with limits, and would like. `slots`: how many of its jobs it may run at once; NULL: only the rate
-- is limited. `want`: how many it would. `wanted`: it knows that others wait for some. `since`: since when it has slots, or waits for the first.
CREATE TABLE slot (
    queue INTEGER NOT NULL,
    worker INTEGER NOT NULL,
    slots INTEGER,
    want INTEGER NOT NULL,
    wanted INTEGER NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (queue, worker)
) STRICT, WITHOUT ROWID;
CREATE INDEX slot_worker ON slot (worker);

-- Permissions to start that were given out, until no window reaches back to them. `at`: by the queue's own clock, which never goes back;
-- `clock`: by the store's. `before`, `started`: how many were given out until then, without these and with them.
CREATE TABLE started (
    queue INTEGER NOT NULL,
    at INTEGER NOT NULL,
    clock INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    before INTEGER NOT NULL,
    started INTEGER NOT NULL,
    PRIMARY KEY (queue, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX started_expires ON started (expires_at);

-- Grows when workers should ask for their shares, so that another process can tell.
ALTER TABLE meta ADD COLUMN requests INTEGER NOT NULL DEFAULT 0;
-- A program of version 5 works on beside this; it does not know of limits.
INSERT INTO migration VALUES (10, 6);
