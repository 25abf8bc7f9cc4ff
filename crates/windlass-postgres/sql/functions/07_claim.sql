-- claim(worker, queues, limits): hands out up to limits[i] jobs of queue queues[i], best priority
-- first. One statement is one transaction; it must be READ COMMITTED, so that each statement inside gets
-- a snapshot taken after the lane's lock.
--
-- Result: for each claim a header row (head = lane, seq, token, job_count, queue index, priority; the rest NULL),
-- then its jobs.
-- Invariants: the lane's advisory transaction lock makes claims of a lane follow one another; a claim row
-- is appended, never changed; the transaction commits asynchronously, because a claim that a server
-- crash forgets only means that its jobs are handed out again (the token then differs).
-- Cost (2 cores, PostgreSQL 15, 10^6 jobs of 14-byte args): see docs/design/postgres-log.md.
-- Traps that the settings below close: a plan cached while the table was empty made claims 1,000 times
-- slower; a sort or a bitmap scan walks the whole lane. Keep tests/plans.rs green.
-- p_call: the number of this call, larger than that of every call before by this worker (see worker.open_from). Who
-- does not count leaves it out: its claims are always looked at.
CREATE OR REPLACE FUNCTION {schema}.claim(p_worker integer, p_queues text[], p_limits integer[], p_call bigint DEFAULT 9223372036854775807)
    RETURNS TABLE (head bigint[], xid xid8, id bigint, attempt smallint, max_attempts smallint,
                   crash_count smallint, enqueued_at timestamptz, kind text, args json, attributes text)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    v_kinds   text[];
    v_lane    record;
    v_cursor  record;
    v_left    integer;
    v_got     integer;
    v_seq     bigint;
    v_from    pg_snapshot;
    v_to      pg_snapshot;
    v_xid     xid8;
    v_id      bigint;
    v_lo      xid8[];
    v_lo_id   bigint[];
    v_hi      xid8[];
    v_began   timestamptz;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE 'claim needs READ COMMITTED, got %', current_setting('transaction_isolation') USING ERRCODE = 'WL006';
    END IF;
    v_kinds := {schema}.fence(p_worker);
    FOR i IN 1..coalesce(cardinality(p_queues), 0) LOOP
        v_left := p_limits[i];
        FOR v_lane IN
            SELECT l.id, l.priority FROM {schema}.lane l
            WHERE l.queue = p_queues[i]
              AND NOT EXISTS (SELECT 1 FROM {schema}.queue q WHERE q.name = p_queues[i] AND q.paused_at IS NOT NULL)
            ORDER BY l.priority, l.id
        LOOP
            EXIT WHEN v_left <= 0;
            CONTINUE WHEN NOT pg_try_advisory_xact_lock(hashtext({name} || '.lane'), v_lane.id);
            -- What is left of the open difference, then a new one; more only to get past cancelled jobs.
            FOR pass IN 1..100 LOOP
                EXIT WHEN v_left <= 0;
                -- One statement for all that the lane's state tells: statements cost more than probes.
                SELECT c.seq, c.from_snapshot, c.to_snapshot, c.end_xid, c.end_id,
                       EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.lane_id = v_lane.id) AS cancelled,
                       EXISTS (SELECT 1 FROM {schema}.waiting h WHERE h.lane_id = v_lane.id AND h.state = 'no_handler') AS no_handler
                    INTO v_cursor
                    FROM (SELECT 1) AS one LEFT JOIN LATERAL (
                        SELECT k.seq, k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id
                        FROM {schema}.claim k WHERE k.lane_id = v_lane.id ORDER BY k.seq DESC LIMIT 1) AS c ON true;
                IF v_cursor.no_handler AND pass = 1 THEN
                    RETURN QUERY SELECT * FROM {schema}.claim_no_handler(p_worker, v_lane.id, v_left, v_kinds, p_call, i, v_lane.priority);
                    GET DIAGNOSTICS v_got = ROW_COUNT;
                    IF v_got > 0 THEN
                        v_left := v_left - (v_got - 1);
                        v_cursor.seq := coalesce(v_cursor.seq, 0) + 1;
                        EXIT WHEN v_left <= 0;
                    END IF;
                END IF;
                v_seq := coalesce(v_cursor.seq, 0) + 1;
                v_xid := v_cursor.end_xid;
                v_id := v_cursor.end_id;
                IF v_xid IS NULL THEN
                    v_from := coalesce(v_cursor.to_snapshot, '4:4:');
                    v_to := pg_current_snapshot();
                    SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(v_from, v_to) d;
                    v_lo_id := array_fill(0::bigint, ARRAY[cardinality(v_lo)]);
                ELSE
                    v_from := v_cursor.from_snapshot;
                    v_to := v_cursor.to_snapshot;
                    SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(v_from, v_to) d;
                    SELECT a.lo, a.lo_id, a.hi INTO v_lo, v_lo_id, v_hi FROM {schema}.after(v_lo, v_hi, v_xid, v_id) a;
                END IF;
                v_began := clock_timestamp();

                IF NOT v_cursor.cancelled THEN
                    -- The hot query: 1.1 us per job. A LATERAL probe per range keeps the index order,
                    -- and reading the batch twice beats array_agg + unnest by 60 %.
                    RETURN QUERY
                    WITH batch AS MATERIALIZED (
                        SELECT j.* FROM unnest(v_lo, v_lo_id, v_hi) AS r(lo, lo_id, hi)
                        CROSS JOIN LATERAL (
                            SELECT j.xid, j.id, j.attempt, j.max_attempts, j.crash_count, j.enqueued_at, j.kind, j.args, j.attributes
                            FROM {schema}.job j
                            WHERE j.lane_id = v_lane.id AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                            ORDER BY j.xid, j.id LIMIT v_left) AS j
                        LIMIT v_left
                    ), last AS (SELECT b.xid, b.id FROM batch b OFFSET v_left - 1 LIMIT 1
                    ), appended AS (
                        INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, lane_id, token, worker_id,
                                                    job_count, segment, from_snapshot, to_snapshot)
                        SELECT v_seq, v_xid, v_id, (SELECT l.xid FROM last l), (SELECT l.id FROM last l),
                               p_call, v_lane.id,
                               (random() * 2147483647)::integer, p_worker, n, (SELECT g.segment FROM {schema}.ring g), v_from, v_to
                        FROM (SELECT count(*) AS n FROM batch) AS counted WHERE n > 0
                        RETURNING ARRAY[lane_id, seq, token, job_count, i, v_lane.priority] AS head)
                    SELECT a.head, NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
                           NULL::timestamptz, NULL::text, NULL::json, NULL::text FROM appended a
                    UNION ALL
                    SELECT NULL::bigint[], b.xid, b.id, b.attempt, b.max_attempts, b.crash_count, b.enqueued_at, b.kind, b.args, b.attributes
                    FROM batch b;
                ELSE
                    -- The same, stepping over cancelled jobs: they count as the claim's and are settled with it.
                    RETURN QUERY
                    WITH batch AS MATERIALIZED (
                        SELECT j.* FROM unnest(v_lo, v_lo_id, v_hi) AS r(lo, lo_id, hi)
                        CROSS JOIN LATERAL (
                            SELECT j.xid, j.id, j.attempt, j.max_attempts, j.crash_count, j.enqueued_at, j.kind, j.args, j.attributes
                            FROM {schema}.job j
                            WHERE j.lane_id = v_lane.id AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                            ORDER BY j.xid, j.id LIMIT v_left) AS j
                        LIMIT v_left
                    ), last AS (SELECT b.xid, b.id FROM batch b OFFSET v_left - 1 LIMIT 1
                    ), gone AS MATERIALIZED (
                        DELETE FROM {schema}.cancelled_in_log s WHERE s.job_id = ANY (SELECT b.id FROM batch b) RETURNING s.job_id
                    ), appended AS (
                        INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, lane_id, token, worker_id,
                                                    job_count, segment, from_snapshot, to_snapshot)
                        SELECT v_seq, v_xid, v_id, (SELECT l.xid FROM last l), (SELECT l.id FROM last l),
                               p_call, v_lane.id,
                               (random() * 2147483647)::integer, p_worker, n, (SELECT g.segment FROM {schema}.ring g), v_from, v_to
                        FROM (SELECT count(*) AS n FROM batch) AS counted WHERE n > 0
                        RETURNING ARRAY[lane_id, seq, token, job_count, i, v_lane.priority] AS head
                    ), settled AS (
                        INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed, ranges)
                        SELECT v_seq, v_lane.id, p_worker, count(*) / 2, (SELECT g.segment FROM {schema}.ring g), false, array_agg(x ORDER BY x)
                        FROM gone g, unnest(ARRAY[g.job_id, g.job_id]) AS x HAVING count(*) > 0)
                    SELECT a.head, NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
                           NULL::timestamptz, NULL::text, NULL::json, NULL::text FROM appended a
                    UNION ALL
                    SELECT NULL::bigint[], b.xid, b.id, b.attempt, b.max_attempts, b.crash_count, b.enqueued_at, b.kind, b.args, b.attributes
                    FROM batch b WHERE NOT EXISTS (SELECT 1 FROM gone g WHERE g.job_id = b.id);
                END IF;
                GET DIAGNOSTICS v_got = ROW_COUNT;
                v_left := v_left - greatest(v_got - 1, 0);
                -- Nothing found: move the cursor on when pass 2 must start behind a part-consumed difference that
                -- turned out to be at its end, or when finding out was slow (a rolled-back bulk insert lies there),
                -- so that no claim walks it again.
                IF v_got = 0 AND (v_xid IS NOT NULL OR clock_timestamp() - v_began > '2 ms') THEN
                    INSERT INTO {schema}.claim (seq, start_xid, start_id, worker_call, lane_id, token, worker_id, job_count, segment,
                                                from_snapshot, to_snapshot)
                    VALUES (v_seq, v_xid, v_id, p_call, v_lane.id, 0, p_worker, 0, {schema}.current_segment(), v_from, v_to);
                END IF;
                EXIT WHEN v_xid IS NULL AND (v_got = 0 OR NOT v_cursor.cancelled);
            END LOOP;
        END LOOP;
    END LOOP;
END $$;

-- claim_no_handler(...): hands jobs that wait for a handler straight to a worker that knows their kind, by a direct claim. The
-- log rows get a transaction id of the claim's own, far beyond every snapshot; the cursor stays.
-- Runs under the lane's lock, inside claim. Result as claim.
CREATE OR REPLACE FUNCTION {schema}.claim_no_handler(
    p_worker integer, p_lane integer, p_limit integer, p_kinds text[], p_call bigint, p_queue integer, p_priority smallint)
    RETURNS TABLE (head bigint[], xid xid8, id bigint, attempt smallint, max_attempts smallint,
                   crash_count smallint, enqueued_at timestamptz, kind text, args json, attributes text)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    c         record;
    v_ids     bigint[];
    v_xid     xid8;
    v_segment smallint := {schema}.current_segment();
BEGIN
    SELECT array_agg(p.id ORDER BY p.id) INTO v_ids FROM (
        SELECT h.id FROM {schema}.waiting h
        WHERE h.lane_id = p_lane AND h.state = 'no_handler' AND (p_kinds = '{}' OR h.kind = ANY (p_kinds))
        ORDER BY h.id LIMIT p_limit FOR UPDATE SKIP LOCKED) AS p;
    IF v_ids IS NULL THEN RETURN; END IF;
    SELECT k.seq, k.start_xid, k.start_id, k.end_xid, k.end_id, k.from_snapshot, k.to_snapshot INTO c
        FROM {schema}.claim k WHERE k.lane_id = p_lane ORDER BY k.seq DESC LIMIT 1;
    v_xid := ({direct} + coalesce(c.seq, 0) + 1)::text::xid8;
    RETURN QUERY
    WITH taken AS (DELETE FROM {schema}.waiting h WHERE h.id = ANY (v_ids) RETURNING h.*
    ), logged AS (
        INSERT INTO {schema}.job (xid, id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, kind, args, attributes)
        SELECT v_xid, t.id, t.enqueued_at, p_lane, v_segment, t.attempt, t.max_attempts, t.crash_count, t.kind, t.args, t.attributes
        FROM taken t ORDER BY t.id
    ), appended AS (
        INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, lane_id, token, worker_id, job_count,
                                    segment, from_snapshot, to_snapshot, direct)
        VALUES (coalesce(c.seq, 0) + 1, c.start_xid, c.start_id, c.end_xid, c.end_id, p_call, p_lane,
                (random() * 2147483647)::integer, p_worker, cardinality(v_ids), v_segment,
                coalesce(c.from_snapshot, '4:4:'), coalesce(c.to_snapshot, '4:4:'), true)
        RETURNING ARRAY[lane_id, seq, token, job_count, p_queue, p_priority] AS head)
    SELECT a.head, NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
           NULL::timestamptz, NULL::text, NULL::json, NULL::text FROM appended a
    UNION ALL
    SELECT NULL::bigint[], v_xid, t.id, t.attempt, t.max_attempts, t.crash_count, t.enqueued_at, t.kind, t.args, t.attributes
    FROM taken t;
END $$;
