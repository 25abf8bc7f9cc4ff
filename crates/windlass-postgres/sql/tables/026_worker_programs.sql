-- What a worker runs, as it said when it registered, and what it used and did when its last heartbeat came; NULL where it said nothing, as an older program does.
ALTER TABLE {schema}.worker ADD COLUMN program text, ADD COLUMN app_version text, ADD COLUMN engine text,
    ADD COLUMN memory_bytes bigint, ADD COLUMN jobs_per_second double precision;
