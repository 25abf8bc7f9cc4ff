-- What handlers said of their jobs: one row for each job of which anything was said, as long as the job is there.
-- claim, number: who said it last, and which of its reports that was. log: a JSON array.
-- A program of version 4 works on beside these rows; of jobs that it removes they stay.
CREATE TABLE job_report (
    job INTEGER PRIMARY KEY,
    claim INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    percent REAL,
    note TEXT,
    checkpoint TEXT,
    log TEXT NOT NULL,
    log_dropped INTEGER NOT NULL
) STRICT;
INSERT INTO migration VALUES (5, 4);
