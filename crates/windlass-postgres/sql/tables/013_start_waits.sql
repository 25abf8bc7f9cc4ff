-- Who waits for permissions to start a job that costs more of them than are free; see give_starts. NULL where it does not.
-- waits_since, waits_until: its place, and how long that is kept. waits_for: how much the job costs.
ALTER TABLE {schema}.slot ADD COLUMN waits_since timestamptz, ADD COLUMN waits_until timestamptz, ADD COLUMN waits_for integer;
