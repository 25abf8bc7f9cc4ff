-- Jobs that did not simply complete.

-- settle_outcomes(...): write_outcomes, after the open transactions that complete one of its jobs. Raises
-- (SQLSTATE 55P03, so that the worker asks again) when one of them stays open for 200 ms.
-- Cost: one lock; where the worker has any such transaction open, a look at pg_locks.
CREATE OR REPLACE FUNCTION {schema}.settle_outcomes(p_worker integer, p_other json, p_segment smallint) RETURNS smallint[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
AS $$
DECLARE
    v_job bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext({name} || '.complete'), p_worker) THEN
        FOR v_job IN
            SELECT o.j FROM {schema}.others(p_other) o
            JOIN pg_locks k ON k.locktype = 'advisory' AND k.objsubid = 2 AND k.granted
                AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                AND k.classid = hashtext({name} || '.job')::oid AND k.objid = (o.j & 2147483647)::integer::oid
        LOOP
            BEGIN
                PERFORM pg_advisory_xact_lock(hashtext({name} || '.job'), (v_job & 2147483647)::integer);
            EXCEPTION WHEN lock_not_available THEN
                RAISE 'a transaction that completes job % by complete_in is still open; commit or roll it back', v_job
                    USING ERRCODE = '55P03';
            END;
        END LOOP;
    END IF;
    RETURN {schema}.write_outcomes(p_worker, p_other, p_segment);
END $$;

-- write_outcomes(...): jobs that did not simply complete. Each goes to waiting, dead or back into the log, and
-- its claim gets a settlement that names it. Returns the statuses.
CREATE OR REPLACE FUNCTION {schema}.write_outcomes(p_worker integer, p_other json, p_segment smallint) RETURNS smallint[]
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    e        record;
    v_status smallint[] := '{}';
    v_ok     integer[] := '{}';
    v_now    timestamptz := clock_timestamp();
BEGIN
    FOR e IN
        SELECT o.n, c.seq IS NOT NULL AS ours, j.id IS NOT NULL AS stored,
               row_number() OVER (PARTITION BY o.l, o.s, o.j ORDER BY o.n) > 1 AS again, EXISTS (
                   SELECT 1 FROM {schema}.settlement s WHERE s.lane_id = o.l AND s.seq = o.s
                   AND (s.ranges IS NULL OR {schema}.in_ranges(o.j, s.ranges))) AS settled
        FROM {schema}.others(p_other) o
        LEFT JOIN {schema}.claim c ON c.lane_id = o.l AND c.seq = o.s AND c.token = o.t AND c.worker_id = p_worker
        LEFT JOIN {schema}.job j ON j.lane_id = o.l AND j.xid = o.x AND j.id = o.j
        ORDER BY o.n
    LOOP
        IF NOT e.ours THEN
            v_status := v_status || 2::smallint;
        ELSIF e.settled OR e.again OR NOT e.stored THEN
            v_status := v_status || 1::smallint;
        ELSE
            v_status := v_status || 0::smallint;
            v_ok := v_ok || e.n::integer;
        END IF;
    END LOOP;
    IF cardinality(v_ok) = 0 THEN RETURN v_status; END IF;

    INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed, ranges)
        SELECT o.s, o.l, p_worker, count(*) / 2, p_segment, o.d = 'complete', array_agg(i ORDER BY i)
        FROM {schema}.others(p_other) o, unnest(ARRAY[o.j, o.j]) AS i WHERE o.n = ANY (v_ok) GROUP BY o.l, o.s, o.d = 'complete';
    INSERT INTO {schema}.result (seq, job_id, lane_id, segment, result)
        SELECT o.s, o.j, o.l, p_segment, o.r FROM {schema}.others(p_other) o
        WHERE o.n = ANY (v_ok) AND o.d = 'complete' AND o.r IS NOT NULL;
    INSERT INTO {schema}.attempt_error (job_id, at, worker_id, attempt, error)
        SELECT o.j, v_now, p_worker, j.attempt + 1, o.e
        FROM {schema}.others(p_other) o
        JOIN {schema}.job j ON j.lane_id = o.l AND j.xid = o.x AND j.id = o.j
        WHERE o.n = ANY (v_ok) AND o.f;
    INSERT INTO {schema}.waiting (id, available_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, kind, args, attributes)
        SELECT j.id, v_now + o.ms * interval '1 millisecond', j.enqueued_at, j.lane_id,
               j.attempt + CASE WHEN o.d = 'retry' THEN 1 ELSE 0 END, j.max_attempts, j.crash_count,
               CASE o.d WHEN 'retry' THEN 'retryable' WHEN 'snooze' THEN 'scheduled' ELSE 'no_handler' END, j.kind, j.args, j.attributes
        FROM {schema}.others(p_other) o
        JOIN {schema}.job j ON j.lane_id = o.l AND j.xid = o.x AND j.id = o.j
        WHERE o.n = ANY (v_ok) AND o.d IN ('retry', 'snooze', 'no_handler');
    INSERT INTO {schema}.dead (id, finished_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, reason, kind, args, attributes)
        SELECT j.id, v_now, j.enqueued_at, j.lane_id, j.attempt + 1, j.max_attempts, j.crash_count,
               CASE o.d WHEN 'cancel' THEN 'cancelled' ELSE 'discarded' END, o.e, j.kind, j.args, j.attributes
        FROM {schema}.others(p_other) o
        JOIN {schema}.job j ON j.lane_id = o.l AND j.xid = o.x AND j.id = o.j
        WHERE o.n = ANY (v_ok) AND o.d IN ('cancel', 'discard');
    INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, kind, args, attributes)
        SELECT j.id, j.enqueued_at, j.lane_id, p_segment, j.attempt, j.max_attempts, j.crash_count, j.kind, j.args, j.attributes
        FROM {schema}.others(p_other) o
        JOIN {schema}.job j ON j.lane_id = o.l AND j.xid = o.x AND j.id = o.j
        WHERE o.n = ANY (v_ok) AND o.d = 'return';
    RETURN v_status;
END $$;

-- others(other): the entries of settle's third parameter as rows, numbered from 1.
CREATE OR REPLACE FUNCTION {schema}.others(p_other json)
    RETURNS TABLE (n bigint, l integer, s bigint, t integer, j bigint, x xid8, d text, ms bigint, e text, f boolean, r json)
    LANGUAGE sql IMMUTABLE ROWS 20 SET search_path = pg_catalog, pg_temp
AS $$
    SELECT n, (o->>'l')::integer, (o->>'s')::bigint, (o->>'t')::integer, (o->>'j')::bigint, (o->>'x')::xid8,
           o->>'d', coalesce((o->>'ms')::bigint, 0), o->>'e', coalesce((o->>'f')::boolean, false), o->'r'
    FROM json_array_elements(p_other) WITH ORDINALITY AS a(o, n)
$$;
