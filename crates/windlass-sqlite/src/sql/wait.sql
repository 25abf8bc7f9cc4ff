-- Copies a job of the log among the waiting ones.
-- Parameters: 1 position, 2 lane, 3 state (1 retryable, 0 scheduled, 2 without a handler), 4 available_at, 5 attempts used now.
-- Invariant: the log row is removed in the same transaction.
INSERT INTO waiting (id, lane, state, available_at, kind, args, attempt, max_attempts, crash_count, enqueued_at, attributes)
SELECT coalesce(id, pos & 35184372088831), ?2, ?3, ?4, kind, args, attempt + ?5, max_attempts, crash_count, enqueued_at, attributes
FROM job WHERE pos = ?1
