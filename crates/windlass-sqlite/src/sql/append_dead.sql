-- Appends a dead job to the log, with its attempts and crashes forgotten.
-- Parameters: 1 job id, 2 its new position, 3 now.
-- Invariant: the dead row is removed in the same transaction.
INSERT INTO job (pos, id, kind, args, attempt, max_attempts, crash_count, enqueued_at, attributes, available_at)
SELECT ?2, id, kind, args, 0, max_attempts, 0, enqueued_at, attributes, ?3 FROM dead WHERE id = ?1
