-- Appends a waiting job to the log.
-- Parameters: 1 job id, 2 its new position, 3 now.
-- Invariant: the waiting row is removed in the same transaction.
INSERT INTO job (pos, id, kind, args, attempt, max_attempts, crash_count, enqueued_at, attributes, available_at)
SELECT ?2, id, kind, args, attempt, max_attempts, crash_count, enqueued_at, attributes, min(available_at, ?3) FROM waiting WHERE id = ?1
