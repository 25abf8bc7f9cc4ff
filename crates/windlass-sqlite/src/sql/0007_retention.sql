-- What is kept of the jobs of a queue that ended in one way. `queue`: '*' for every queue without a rule of its own. NULL: what the next
-- more general rule says. `age` in microseconds. A program of version 6 works on beside it, and goes by the settings alone.
CREATE TABLE retention_rule (
    queue TEXT NOT NULL,
    outcome TEXT NOT NULL,
    age INTEGER,
    count INTEGER,
    PRIMARY KEY (queue, outcome)
) STRICT, WITHOUT ROWID;
INSERT INTO migration VALUES (7, 6);
