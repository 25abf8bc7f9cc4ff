-- What the worker that leads asks of schedules.

-- due_schedules(limit, from): the schedules that have something to be decided, the longest due first; in each row what time it is, and in how many ms
-- the next one is due after now (NULL: none). One row with a NULL name when none is due.
-- from: due times before it are not looked at, NULL: all are. Without it each look would walk the index entries of all steps since the oldest
-- open transaction began.
-- Cost: two index probes when none is due.
CREATE OR REPLACE FUNCTION {schema}.due_schedules(p_limit integer, p_from timestamptz)
    RETURNS TABLE (at timestamptz, next_due_ms double precision, name text, source text, definition json, paused boolean, version bigint,
        decided timestamptz, next_tick timestamptz, due_at timestamptz, last_tick timestamptz, last_job bigint, last_enqueued_at timestamptz,
        queued_tick timestamptz, error text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_from timestamptz := coalesce(p_from, '-infinity');
    v_next double precision;
BEGIN
    SELECT extract(epoch FROM s.due_at - v_now) * 1000 INTO v_next
        FROM {schema}.schedule s WHERE s.due_at > v_now ORDER BY s.due_at LIMIT 1;
    RETURN QUERY
        SELECT v_now, v_next, s.name::text, s.source::text, s.definition, s.paused, s.version, s.decided, s.next_tick, s.due_at, s.last_tick,
            s.last_job, s.last_enqueued_at, s.queued_tick, s.error
        FROM {schema}.schedule s WHERE s.due_at >= v_from AND s.due_at <= v_now ORDER BY s.due_at, s.name LIMIT p_limit;
    IF NOT FOUND THEN
        at := v_now;
        next_due_ms := v_next;
        RETURN NEXT;
    END IF;
END $$;

-- advance_schedules(names, versions, ..., and of each job the number of its step, ...): takes the steps of which the row still has the
-- version. Which were taken; the ids of all jobs in order, NULL for those of steps that were not. The jobs were checked. expiries: in us.
-- Each tick fires once: the rows are locked before their versions count, and get another in the transaction that enqueues. Where somebody else has the lock of one (a user
-- who changes the schedule or runs it by hand, in a transaction that may stay open) its step is not taken, as if it had changed already; the others need not wait for that.
CREATE OR REPLACE FUNCTION {schema}.advance_schedules(
    p_names text[], p_versions bigint[], p_decided timestamptz[], p_next timestamptz[], p_due timestamptz[], p_last timestamptz[],
    p_queued timestamptz[], p_errors text[],
    p_steps integer[], p_queues text[], p_priorities integer[], p_kinds text[], p_args json[], p_max smallint[], p_attributes text[],
    p_expiries bigint[], OUT taken boolean[], OUT ids bigint[])
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now   timestamptz;
    v_found text[];
BEGIN
    v_found := ARRAY(
        SELECT s.name::text FROM unnest(p_names, p_versions) AS u(name, version)
        JOIN {schema}.schedule s ON s.name = u.name COLLATE "C" AND s.version = u.version ORDER BY s.name FOR UPDATE OF s SKIP LOCKED);
    taken := ARRAY(SELECT u.name = ANY (v_found) FROM unnest(p_names) WITH ORDINALITY AS u(name, n) ORDER BY u.n);
    ids := ARRAY(SELECT CASE WHEN taken[u.step] THEN nextval('{schema}.job_id_seq') END
                 FROM unnest(p_steps) WITH ORDINALITY AS u(step, n) ORDER BY u.n);
    v_now := clock_timestamp();
    IF array_remove(ids, NULL) <> '{}' THEN
        PERFORM set_config('windlass.queues', (SELECT string_agg(DISTINCT q, ',') FROM unnest(p_queues) AS q), true); -- for wake()
        WITH lanes AS MATERIALIZED (
            SELECT d.queue, d.priority, {schema}.lane_of(d.queue, d.priority) AS lane
            FROM (SELECT DISTINCT u.queue, u.priority FROM unnest(ids, p_queues, p_priorities) AS u(id, queue, priority) WHERE u.id IS NOT NULL) AS d
        )
        INSERT INTO {schema}.job (id, segment, lane_id, max_attempts, kind, args, attributes)
            SELECT u.id, {schema}.current_segment(), l.lane, u.most, u.kind, u.args,
                CASE WHEN u.expiry IS NULL THEN u.attributes ELSE {schema}.expiring(u.attributes, v_now + u.expiry * interval '1 microsecond') END
            FROM unnest(ids, p_queues, p_priorities, p_max, p_kinds, p_args, p_attributes, p_expiries) WITH ORDINALITY
                AS u(id, queue, priority, most, kind, args, attributes, expiry, n)
            JOIN lanes l ON l.queue = u.queue AND l.priority = u.priority
            WHERE u.id IS NOT NULL ORDER BY u.n;
    END IF;
    UPDATE {schema}.schedule s SET decided = u.decided, next_tick = u.next, due_at = u.due, last_tick = u.last, queued_tick = u.queued, error = u.error,
        version = nextval('{schema}.schedule_version'), last_job = coalesce(j.id, s.last_job),
        last_enqueued_at = CASE WHEN j.id IS NULL THEN s.last_enqueued_at ELSE v_now END
    FROM unnest(p_names, p_decided, p_next, p_due, p_last, p_queued, p_errors, taken) WITH ORDINALITY
            AS u(name, decided, next, due, last, queued, error, taken, n)
        LEFT JOIN (SELECT x.step, max(x.id) AS id FROM unnest(p_steps, ids) AS x(step, id) GROUP BY x.step) AS j ON j.step = u.n
    WHERE s.name = u.name COLLATE "C" AND u.taken;
END $$;

-- expiring(attributes, at): the attributes of a job that expires then, or when it did anyway. They keep their bytes but for that.
CREATE OR REPLACE FUNCTION {schema}.expiring(p_attributes text, p_at timestamptz) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN (p_attributes::json ->> 'expires_at')::timestamptz <= p_at THEN p_attributes
        WHEN p_attributes::json ->> 'expires_at' IS NOT NULL THEN {schema}.expiring((p_attributes::jsonb - 'expires_at')::text, p_at)
        ELSE left(p_attributes, -1) || CASE WHEN p_attributes = '{}' THEN '' ELSE ',' END || '"expires_at":"'
            || to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '"}' END
$$;
