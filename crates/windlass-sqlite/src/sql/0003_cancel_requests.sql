-- Jobs that somebody wants cancelled and that a worker holds. `n` grows with every request, so that another process can
-- tell that one came.
CREATE TABLE cancel_request (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL UNIQUE,
    worker INTEGER NOT NULL
) STRICT;
CREATE INDEX cancel_request_worker ON cancel_request (worker);
