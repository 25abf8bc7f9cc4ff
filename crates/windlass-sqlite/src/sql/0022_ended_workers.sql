-- Workers that ended, by when: housekeeping forgets those first that ended first. An older program works on beside this.
CREATE INDEX worker_ended ON worker (ended_at) WHERE ended_at IS NOT NULL;
INSERT INTO migration SELECT 22, compatible_with FROM migration ORDER BY version DESC LIMIT 1;
