-- Since when a job that came back to the log could start: its time came, it was given back, rescued or retried. NULL: since its enqueue. An older program works on
-- beside this; where it brings a job back, that counts from its enqueue, or from when it came back before.
ALTER TABLE job ADD COLUMN available_at INTEGER;
INSERT INTO migration SELECT 17, compatible_with FROM migration ORDER BY version DESC LIMIT 1;
