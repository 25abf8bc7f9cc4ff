-- Copies a waiting job among the dead ones, as cancelled.
-- Parameters: 1 job id, 2 reason, 3 now.
-- Invariant: the waiting row is removed in the same transaction.
INSERT INTO dead (id, lane, state, reason, finished_at, kind, args, attempt, max_attempts, crash_count, enqueued_at, attributes)
SELECT id, lane, 0, ?2, ?3, kind, args, attempt, max_attempts, crash_count, enqueued_at, attributes FROM waiting WHERE id = ?1
