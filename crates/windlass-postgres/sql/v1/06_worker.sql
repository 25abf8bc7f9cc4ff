-- Workers: heartbeat, clean end, rescue. All decisions by the database clock.

-- register(name, queues, kinds, lease seconds): a new worker; its queues are made when they do not exist.
CREATE FUNCTION {schema}.register(p_name text, p_queues text[], p_kinds text[], p_lease double precision)
    RETURNS integer LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_worker integer;
BEGIN
    INSERT INTO {schema}.queue (name) SELECT DISTINCT q FROM unnest(p_queues) AS q
        WHERE q NOT IN (SELECT name FROM {schema}.queue) ON CONFLICT DO NOTHING;
    INSERT INTO {schema}.worker (name, queues, kinds, lease)
        VALUES (p_name, p_queues, p_kinds, make_interval(secs => p_lease)) RETURNING id INTO v_worker;
    RETURN v_worker;
END $$;

-- suspect(worker, job): the worker runs this job alone from now on (NULL: it is over).
CREATE FUNCTION {schema}.suspect(p_worker integer, p_job bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM {schema}.fence(p_worker);
    UPDATE {schema}.worker SET suspect_id = p_job WHERE id = p_worker;
END $$;

-- heartbeat(worker, open_since): renews the lease; refused once it was taken away. open_since: the worker
-- knows that all its claims before this time are settled (NULL: as before); rescue need not look at them.
CREATE FUNCTION {schema}.heartbeat(p_worker integer, p_open_since timestamptz) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE {schema}.worker SET heartbeat_at = clock_timestamp(), open_since = greatest(open_since, p_open_since)
        WHERE id = p_worker AND ended_at IS NULL;
    IF NOT FOUND THEN
        RAISE 'worker % lost its lease', p_worker USING ERRCODE = 'WL001';
    END IF;
END $$;

-- end_worker(worker, crashed, max_crashes): takes back every job that the worker holds.
-- crashed = false, a clean end: the jobs are available again, nothing is counted.
-- crashed = true, its lease is over: the crash count goes up, of the suspect alone when one was
-- announced, else of every held job but never above 2, so that no job dies because of its neighbours;
-- a suspect that reaches max_crashes is discarded as crash_loop.
-- Invariant: under the worker's exclusive lock, so no write of the worker is under way or comes later.
-- Returns NULLs when there was nothing to end: it is live, ended before, or busy writing just now.
CREATE FUNCTION {schema}.end_worker(
    p_worker integer, p_crashed boolean, p_max_crashes integer, OUT rescued bigint, OUT discarded bigint)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
DECLARE
    c         record;
    v_suspect bigint;
    v_segment smallint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    IF p_crashed AND NOT pg_try_advisory_xact_lock(hashtext({name} || '.worker'), p_worker) THEN RETURN; END IF;
    IF NOT p_crashed THEN PERFORM pg_advisory_xact_lock(hashtext({name} || '.worker'), p_worker); END IF;
    -- A statement of its own, so that it sees what was committed before the lock came.
    UPDATE {schema}.worker SET ended_at = clock_timestamp()
        WHERE id = p_worker AND ended_at IS NULL
          AND (NOT p_crashed OR greatest(heartbeat_at, pg_postmaster_start_time()) + lease < clock_timestamp())
        RETURNING suspect_id INTO v_suspect;
    IF NOT FOUND THEN RETURN; END IF;
    rescued := 0;
    discarded := 0;
    v_segment := {schema}.current_segment();
    -- An idle worker's end should not pay for planning the rest.
    IF NOT EXISTS (SELECT 1 FROM {schema}.claim k JOIN {schema}.worker w ON w.id = k.worker_id
                   WHERE k.worker_id = p_worker AND k.claimed_at >= w.open_since AND k.job_count > 0) THEN RETURN; END IF;
    FOR c IN SELECT * FROM {schema}.open_claims(p_worker) LOOP
        WITH left_over AS MATERIALIZED (
            SELECT j.*, least(j.crash_count + 1, greatest(j.crash_count, 2)) AS together
            FROM {schema}.unsettled_jobs(c.lane_id, c.seq) j
        ), counted AS MATERIALIZED (
            SELECT l.*, CASE WHEN NOT p_crashed THEN l.crash_count
                             WHEN v_suspect IS NULL THEN l.together
                             WHEN v_suspect = l.id THEN l.crash_count + 1
                             ELSE l.crash_count END AS crashes
            FROM left_over l
        ), back AS (
            INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, kind, args)
            SELECT id, enqueued_at, lane_id, v_segment, attempt, max_attempts, crashes, kind, args FROM counted
            WHERE crashes < greatest(p_max_crashes, 1) OR crashes = crash_count
            ORDER BY xid, id
            RETURNING 1
        ), looped AS (
            INSERT INTO {schema}.dead (id, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, reason, kind, args)
            SELECT id, enqueued_at, lane_id, attempt + 1, max_attempts, crashes, 'discarded',
                   'crash_loop: ' || crashes || ' workers died while they held this job', kind, args
            FROM counted WHERE NOT (crashes < greatest(p_max_crashes, 1) OR crashes = crash_count)
            RETURNING 1
        ), closed AS (
            INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed)
            SELECT c.seq, c.lane_id, p_worker, count(*), v_segment, false FROM counted HAVING count(*) > 0
        )
        SELECT rescued + (SELECT count(*) FROM back), discarded + (SELECT count(*) FROM looped)
            INTO rescued, discarded;
    END LOOP;
END $$;

-- open_claims(worker): the claims of one worker that may have unsettled jobs; NULL: of every worker that is
-- not ended (an ended one has none). Counts can be too high by settlements that name a job twice, so a claim
-- of several jobs only counts as closed when its rest was settled; unsettled_jobs is exact.
-- Cost: one settlement probe per claim since the worker's open_since, so of the last heartbeat or two.
CREATE FUNCTION {schema}.open_claims(p_worker integer)
    RETURNS TABLE (lane_id integer, seq bigint, worker_id integer, claimed_at timestamptz, open_count bigint)
    LANGUAGE sql STABLE ROWS 10
    SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    SELECT c.lane_id, c.seq, c.worker_id, c.claimed_at, greatest(c.job_count - s.n, 0)
    FROM {schema}.worker w
    JOIN {schema}.claim c ON c.worker_id = w.id AND c.claimed_at >= w.open_since AND c.job_count > 0
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(t.job_count), 0) AS n, coalesce(bool_or(t.ranges IS NULL), false) AS whole
        FROM {schema}.settlement t WHERE t.lane_id = c.lane_id AND t.seq = c.seq) AS s
    WHERE CASE WHEN p_worker IS NULL THEN w.ended_at IS NULL ELSE w.id = p_worker END
      AND NOT s.whole AND NOT (c.job_count = 1 AND s.n > 0)
    ORDER BY c.lane_id, c.seq
$$;

-- unsettled_jobs(lane, seq): the log rows of one claim that no settlement names.
CREATE FUNCTION {schema}.unsettled_jobs(p_lane integer, p_seq bigint) RETURNS SETOF {schema}.job
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT j.* FROM {schema}.claim_jobs(p_lane, p_seq) j
    WHERE NOT EXISTS (SELECT 1 FROM {schema}.settlement s WHERE s.lane_id = p_lane AND s.seq = p_seq
                      AND (s.ranges IS NULL OR {schema}.in_ranges(j.id, s.ranges)))
$$;

-- overdue_workers(): whose lease is over. After a restart of the server everybody gets a full lease to
-- come back: nobody could have sent a heartbeat while it was down.
CREATE FUNCTION {schema}.overdue_workers() RETURNS SETOF integer
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT id FROM {schema}.worker
    WHERE ended_at IS NULL AND greatest(heartbeat_at, pg_postmaster_start_time()) + lease < clock_timestamp()
    ORDER BY id
$$;

-- promote(limit): moves due jobs into the log. Returns how many, and how long until the next, in ms.
-- Two promoters never take the same row; none waits for another.
CREATE FUNCTION {schema}.promote(p_limit integer, OUT promoted bigint, OUT next_due_ms double precision)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
AS $$
DECLARE
    v_now     timestamptz := clock_timestamp();
    v_segment smallint := {schema}.current_segment();
BEGIN
    promoted := 0;
    IF EXISTS (SELECT 1 FROM {schema}.held WHERE state <> 'parked' AND available_at <= v_now) THEN
        WITH due AS MATERIALIZED (
            SELECT id FROM {schema}.held WHERE state <> 'parked' AND available_at <= v_now
            ORDER BY available_at LIMIT p_limit FOR UPDATE SKIP LOCKED
        ), taken AS (
            DELETE FROM {schema}.held h WHERE h.id = ANY (SELECT id FROM due) RETURNING h.*
        )
        INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, kind, args)
            SELECT id, enqueued_at, lane_id, v_segment, attempt, max_attempts, crash_count, kind, args
            FROM taken ORDER BY available_at, id;
        GET DIAGNOSTICS promoted = ROW_COUNT;
    END IF;
    SELECT greatest(extract(epoch FROM available_at - clock_timestamp()) * 1000, 0) INTO next_due_ms
        FROM {schema}.held WHERE state <> 'parked' ORDER BY available_at LIMIT 1;
END $$;

-- lead(worker, term): takes or renews leadership by a lease. Whether this worker leads now.
CREATE FUNCTION {schema}.lead(p_worker integer, p_term interval) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO {schema}.leader AS l (worker_id, expires_at) VALUES (p_worker, v_now + p_term)
        ON CONFLICT (one) DO UPDATE SET worker_id = p_worker, expires_at = v_now + p_term
        WHERE l.worker_id = p_worker OR l.expires_at < v_now;
    RETURN FOUND;
END $$;
