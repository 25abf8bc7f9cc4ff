-- What a worker runs, as it said when it registered, and what it used and did when its last heartbeat came; NULL where it said nothing, as an older program does, which works on
-- beside this.
ALTER TABLE worker ADD COLUMN program TEXT;
ALTER TABLE worker ADD COLUMN app_version TEXT;
ALTER TABLE worker ADD COLUMN engine TEXT;
ALTER TABLE worker ADD COLUMN memory_bytes INTEGER;
ALTER TABLE worker ADD COLUMN jobs_per_second REAL;
INSERT INTO migration SELECT 19, compatible_with FROM migration ORDER BY version DESC LIMIT 1;
