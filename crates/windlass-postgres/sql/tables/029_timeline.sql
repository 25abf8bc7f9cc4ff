-- The server's timeline on which workers registered last, and the id after which theirs begin there: one row, from the first of them on. Ids alone do not tell it: pg_upgrade and a move
-- to another cluster go on with them, and begin timelines anew.
CREATE TABLE IF NOT EXISTS {schema}.timeline (
    one          boolean PRIMARY KEY DEFAULT true CHECK (one),
    line         bigint NOT NULL,
    first_worker integer NOT NULL
);
