-- Since when the worker is to take no more jobs, end what it runs, and go; NULL where nobody asked. An older program works on beside this; a worker of one takes no notice.
ALTER TABLE worker ADD COLUMN draining_at INTEGER;
INSERT INTO migration SELECT 18, compatible_with FROM migration ORDER BY version DESC LIMIT 1;
