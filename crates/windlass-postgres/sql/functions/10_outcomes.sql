-- Jobs that did not simply complete.

-- outcomes(outcomes): the entries of settle's last parameter as rows, numbered from 1.
--   lane, seq, token: the claim. job, xid: its row in the log. disposition: complete, retry, snooze, cancel,
--   discard, no_handler or return. delay_ms: until it is available again. text: the error or the reason.
--   failed: whether the text is kept as the error of an attempt; with snooze the attempt could not begin, and the same
--   text is kept once. result: what it returned, JSON as text.
CREATE OR REPLACE FUNCTION {schema}.outcomes(p_outcomes json)
    RETURNS TABLE (lane integer, seq bigint, token integer, job bigint, xid xid8, disposition text, delay_ms bigint,
                   text text, failed boolean, result text, n bigint)
    LANGUAGE sql IMMUTABLE ROWS 20 SET search_path = pg_catalog, pg_temp
AS $$
    SELECT * FROM ROWS FROM (json_to_recordset(p_outcomes) AS (
        lane integer, seq bigint, token integer, job bigint, xid xid8, disposition text, delay_ms bigint,
        text text, failed boolean, result text)) WITH ORDINALITY
$$;

-- settle_outcomes(...): write_outcomes, after the open transactions that complete one of its jobs. Raises
-- (SQLSTATE 55P03, so that the worker asks again) when one of them stays open for 200 ms. Jobs that somebody wants
-- cancelled do not come back: see with_cancel_requests.
-- Cost: one lock; where the worker has any such transaction open, a look at pg_locks.
CREATE OR REPLACE FUNCTION {schema}.settle_outcomes(p_worker integer, p_outcomes json, p_segment smallint) RETURNS smallint[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
AS $$
DECLARE
    v_job bigint;
BEGIN
    IF EXISTS (SELECT 1 FROM {schema}.cancel_request) THEN
        p_outcomes := {schema}.with_cancel_requests(p_outcomes);
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtext({name} || '.complete'), p_worker) THEN
        FOR v_job IN
            SELECT o.job FROM {schema}.outcomes(p_outcomes) o
            JOIN pg_locks k ON k.locktype = 'advisory' AND k.objsubid = 2 AND k.granted
                AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                AND k.classid = hashtext({name} || '.job')::oid AND k.objid = (o.job & 2147483647)::integer::oid
        LOOP
            BEGIN
                PERFORM pg_advisory_xact_lock(hashtext({name} || '.job'), (v_job & 2147483647)::integer);
            EXCEPTION WHEN lock_not_available THEN
                RAISE 'a transaction that completes job % by complete_in is still open; commit or roll it back', v_job
                    USING ERRCODE = '55P03';
            END;
        END LOOP;
    END IF;
    RETURN {schema}.write_outcomes(p_worker, p_outcomes, p_segment);
END $$;

-- write_outcomes(worker, outcomes, segment): jobs that did not simply complete. Each goes to waiting, dead or back
-- into the log, or has completed with a result, and its claim gets a settlement that names it. Returns the statuses.
-- Cost: for each entry the probes of its claim, its row and its settlement, and the rows that it writes. The tables
-- whose triggers wake workers are written only when there is something to write.
CREATE OR REPLACE FUNCTION {schema}.write_outcomes(p_worker integer, p_outcomes json, p_segment smallint) RETURNS smallint[]
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_status  smallint[];
    v_waits   boolean;
    v_returns boolean;
    v_now     timestamptz := clock_timestamp();
BEGIN
    WITH entry AS MATERIALIZED (
        SELECT o.*, CASE WHEN c.seq IS NULL THEN 2
                         WHEN j.id IS NULL OR row_number() OVER (PARTITION BY o.lane, o.seq, o.token, o.job ORDER BY o.n) > 1
                              OR EXISTS (SELECT 1 FROM {schema}.settlement_of(o.lane, o.seq, o.job)) THEN 1
                         ELSE 0 END AS status,
               j.enqueued_at, j.attempt, j.max_attempts, j.crash_count, j.kind, j.args, j.attributes
        FROM {schema}.outcomes(p_outcomes) o
        LEFT JOIN LATERAL (SELECT * FROM {schema}.claim k WHERE k.lane_id = o.lane AND k.seq = o.seq OFFSET 0) AS c
            ON c.token = o.token AND c.worker_id = p_worker
        LEFT JOIN {schema}.job j ON j.lane_id = o.lane AND j.xid = o.xid AND j.id = o.job
    ), accepted AS MATERIALIZED (SELECT * FROM entry WHERE status = 0
    ), settled AS (
        INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed, low_id, high_id)
        SELECT a.seq, a.lane, p_worker, s.high - s.low + 1, p_segment, a.completed, s.low, s.high
        FROM (SELECT seq, lane, disposition = 'complete' AS completed, array_agg(job) AS jobs FROM accepted GROUP BY 1, 2, 3) AS a,
             {schema}.stretches(a.jobs) AS s
    ), returned AS (
        INSERT INTO {schema}.result (seq, job_id, lane_id, segment, result)
        SELECT seq, job, lane, p_segment, result::json FROM accepted WHERE disposition = 'complete' AND result IS NOT NULL
    ), failed AS (
        INSERT INTO {schema}.attempt_error (job_id, at, worker_id, attempt, error)
        SELECT job, v_now, p_worker, attempt + 1, text FROM accepted a
        WHERE failed AND NOT (disposition = 'snooze' AND EXISTS (
            SELECT 1 FROM {schema}.attempt_error e WHERE e.job_id = a.job AND e.attempt = a.attempt + 1 AND e.error = a.text))
    ), buried AS (
        INSERT INTO {schema}.dead (id, finished_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, reason, kind, args, attributes)
        SELECT job, v_now, enqueued_at, lane, attempt + 1, max_attempts, crash_count,
               CASE disposition WHEN 'cancel' THEN 'cancelled' ELSE 'discarded' END,
               CASE WHEN disposition = 'cancel' AND failed THEN 'cancelled by request' ELSE text END, kind, args, attributes
        FROM accepted WHERE disposition IN ('cancel', 'discard')
    ), told AS (
        -- Of those that are buried tell_dead tells.
        INSERT INTO {schema}.event (job_id, at, lane_id, worker_id, attempt, segment, event, kind, reason)
        SELECT t.job, v_now, t.lane, p_worker, t.attempt, p_segment, t.event, t.kind, t.reason FROM (
            SELECT a.n, e.nth, a.job, a.lane, a.attempt + 1 AS attempt, e.event, a.kind, e.reason
            FROM accepted a CROSS JOIN LATERAL (VALUES
                (1, CASE WHEN a.failed AND a.disposition <> 'snooze' THEN 'failed' END, a.text),
                (2, CASE WHEN a.disposition = 'snooze' THEN 'snoozed' WHEN a.disposition IN ('no_handler', 'return') THEN 'returned' END,
                 CASE a.disposition WHEN 'snooze' THEN a.text WHEN 'no_handler' THEN 'its worker does not know its kind' END)
            ) AS e(nth, event, reason)
            WHERE e.event IS NOT NULL ORDER BY a.n, e.nth) AS t
    )
    SELECT array_agg(status ORDER BY n), bool_or(status = 0 AND disposition IN ('retry', 'snooze', 'no_handler')),
           bool_or(status = 0 AND disposition = 'return')
        INTO v_status, v_waits, v_returns FROM entry;

    IF v_waits THEN
        INSERT INTO {schema}.waiting (id, available_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, moved, state, kind, args, attributes)
            SELECT j.id, v_now + coalesce(o.delay_ms, 0) * interval '1 millisecond', j.enqueued_at, j.lane_id,
                   j.attempt + CASE WHEN o.disposition = 'retry' THEN 1 ELSE 0 END, j.max_attempts, j.crash_count, true,
                   CASE WHEN o.disposition = 'no_handler' THEN 'no_handler' WHEN o.failed THEN 'retryable' ELSE 'scheduled' END,
                   j.kind, j.args, j.attributes
            FROM {schema}.outcomes(p_outcomes) o
            JOIN {schema}.job j ON j.lane_id = o.lane AND j.xid = o.xid AND j.id = o.job
            WHERE v_status[o.n] = 0 AND o.disposition IN ('retry', 'snooze', 'no_handler');
    END IF;
    IF v_returns THEN
        PERFORM {schema}.note_came_back(v_now);
        INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
            SELECT j.id, j.enqueued_at, j.lane_id, p_segment, j.attempt, j.max_attempts, j.crash_count, true, j.kind, j.args, j.attributes
            FROM {schema}.outcomes(p_outcomes) o
            JOIN {schema}.job j ON j.lane_id = o.lane AND j.xid = o.xid AND j.id = o.job
            WHERE v_status[o.n] = 0 AND o.disposition = 'return';
    END IF;
    RETURN coalesce(v_status, '{}');
END $$;
