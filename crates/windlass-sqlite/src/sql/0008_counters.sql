-- How many jobs ended in which way, by the minute (since 1970): made from `happened` by housekeeping. queue '*' and kind '*': not told apart.
CREATE TABLE counter (
    minute INTEGER NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    outcome TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (minute, queue, kind, outcome)
) STRICT, WITHOUT ROWID;

-- Up to which row `happened` is counted. `counted_until`: what ended before it is counted.
CREATE TABLE counter_fold (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    n INTEGER NOT NULL,
    counted_until INTEGER NOT NULL
) STRICT;
INSERT INTO counter_fold SELECT 1, coalesce((SELECT max(n) FROM happened), 0), 0;
INSERT INTO migration VALUES (8, 6);
