-- Moves a job of the log to its end, where it can be claimed again under the same id.
-- Parameters: 1 position, 2 new position, 3 crashes counted now, 4 since when it can be claimed; NULL: as before.
UPDATE job SET pos = ?2, id = coalesce(id, pos & 35184372088831), crash_count = crash_count + ?3, available_at = coalesce(?4, available_at) WHERE pos = ?1
