-- Copies a job of the log among the dead ones.
-- Parameters: 1 position, 2 lane, 3 state (0 cancelled, 1 discarded), 4 reason, 5 claimed_at, 6 claimed_by,
-- 7 now, 8 attempts used now, 9 crashes counted now.
-- Invariant: the log row is removed in the same transaction.
INSERT INTO dead (id, lane, state, reason, claimed_at, claimed_by, finished_at,
    kind, args, attempt, max_attempts, crash_count, enqueued_at, attributes)
SELECT coalesce(id, pos & 35184372088831), ?2, ?3, ?4, ?5, ?6, ?7,
    kind, args, attempt + ?8, max_attempts, crash_count + ?9, enqueued_at, attributes
FROM job WHERE pos = ?1
