-- What is kept of the jobs of a queue that ended in one way: sql/functions/42_retention.sql. queue '*': every queue that has no rule of its
-- own. NULL: what the next more general rule says, and in the end table setting.
CREATE TABLE {schema}.retention_rule (
    queue   text NOT NULL CHECK (queue = '*' OR queue ~ '^[A-Za-z0-9_.:/-]{1,128}$'),
    outcome text NOT NULL CHECK (outcome IN ('completed', 'cancelled', 'discarded')),
    age     interval,
    count   bigint,
    PRIMARY KEY (queue, outcome)
);

-- One row: of which queue and outcome housekeeping removes dead jobs now, and up to which of them. NULL: of none; it begins with the first.
CREATE TABLE {schema}.retention_pass (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    queue     text,
    outcome   text,
    before_at timestamptz,
    before_id bigint
);
INSERT INTO {schema}.retention_pass DEFAULT VALUES;
