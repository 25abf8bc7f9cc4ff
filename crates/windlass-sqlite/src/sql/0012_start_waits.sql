-- Since when the worker waits for permissions to start a job that costs more than is free, until when its place is kept, and how much that
-- job costs; NULL where it does not wait.
ALTER TABLE slot ADD COLUMN waits_since INTEGER;
ALTER TABLE slot ADD COLUMN waits_until INTEGER;
ALTER TABLE slot ADD COLUMN waits_for INTEGER;
-- An older program works on beside this; what it starts costs 1.
INSERT INTO migration VALUES (12, 6);
