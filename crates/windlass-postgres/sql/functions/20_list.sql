-- Lists of jobs, page by page.

-- list_jobs(state, queue, kind, after, limit, look_at, tag, error, args): a page of jobs. Each state (NULL: one after the other, as named
-- in v_stages) comes in the order of the place where it lives, lane by lane:
--   running                 by claim, oldest first
--   available               newest first; then those that wait for a worker that knows their kind
--   retryable, scheduled    next due first
--   discarded, cancelled    last finished first
--   completed               by claim, newest first
-- after: where the page before ended, NULL for the first: {stage, lane, up to three numbers in the order of the place}.
-- tag: only jobs that have it; NULL: all. error: only jobs whose last error contains it, the case of A to Z aside: the reason of discarded jobs, of others
-- the error of the attempt that failed last. args: only jobs whose args contain it as jsonb; encrypted ones contain nothing.
-- Result: at most `limit` rows with a job and its attributes, then, unless all was read, one that has only `next`. A page ends at its limit,
-- or once about `look_at` rows were read: it may be short, even empty, with more jobs behind it.
-- Invariant: while nothing changes, the pages together show every job once.
-- Cost: linear in the rows read, where a lane or a claim counts as 20, and a row that is to be stepped over, whose error is looked up, or whose args are read, as 5; claims are read whole.
CREATE OR REPLACE FUNCTION {schema}.list_jobs(
    p_state text, p_queue text, p_kind text, p_after bigint[], p_limit integer, p_look_at integer DEFAULT 50000,
    p_tag text DEFAULT NULL, p_error text DEFAULT NULL, p_args jsonb DEFAULT NULL)
    RETURNS TABLE (next bigint[], job {schema}.job_row, attributes json) LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
    v_stages text[] := '{running,available,no_handler,retryable,scheduled,discarded,cancelled,completed,keyed}';
    v_stage  text;
    v_at     bigint[];
    v_looked integer := 0;
    v_listed integer := 0;
    v_open_lanes integer[];
    v_open_seqs  bigint[];
    v_lane   record;
    v_rows   refcursor;
    r        record;
BEGIN
    FOR n IN coalesce(p_after[1], 1)..cardinality(v_stages) LOOP
        v_stage := v_stages[n];
        CONTINUE WHEN p_state <> CASE WHEN v_stage IN ('no_handler', 'keyed') THEN 'available' ELSE v_stage END;
        v_at := CASE WHEN n = p_after[1] THEN p_after ELSE ARRAY[n, -2147483648] END;
        IF v_stage = 'running' THEN
            SELECT array_agg(c.lane_id), array_agg(c.seq) INTO v_open_lanes, v_open_seqs FROM {schema}.open_claims(NULL) c;
        END IF;
        FOR v_lane IN SELECT l.id, l.queue, l.priority FROM {schema}.lane l
            WHERE l.id >= v_at[2] AND (p_queue IS NULL OR l.queue = p_queue)
              AND (v_stage <> 'running' OR l.id = ANY (v_open_lanes)) ORDER BY l.id
        LOOP
            IF v_lane.id > v_at[2] THEN v_at := ARRAY[n, v_lane.id, NULL, NULL, NULL]; END IF;
            v_looked := v_looked + 20;
            v_rows := CASE v_stage
                WHEN 'available' THEN {schema}.open_available(v_lane.id, v_at[3], v_at[4])
                WHEN 'running' THEN {schema}.open_running(v_lane.id, v_open_lanes, v_open_seqs, v_at[3], v_at[4], v_at[5])
                WHEN 'completed' THEN {schema}.open_completed(v_lane.id, v_at[3], v_at[4], v_at[5])
                WHEN 'discarded' THEN {schema}.open_dead(v_lane.id, v_stage, v_at[3], v_at[4])
                WHEN 'cancelled' THEN {schema}.open_dead(v_lane.id, v_stage, v_at[3], v_at[4])
                ELSE {schema}.open_waiting(v_lane.id, v_stage, v_at[3], v_at[4]) END;
            LOOP
                IF v_listed >= p_limit OR v_looked >= p_look_at THEN
                    CLOSE v_rows; -- else it stays until the transaction ends
                    next := array_remove(v_at, NULL); job := NULL; attributes := NULL;
                    RETURN NEXT;
                    RETURN;
                END IF;
                FETCH v_rows INTO r;
                EXIT WHEN NOT FOUND;
                v_looked := v_looked + CASE WHEN v_stage IN ('running', 'completed') AND r.a IS DISTINCT FROM v_at[3] THEN 20 WHEN r.id IS NULL AND v_stage = 'available' THEN 5 ELSE 1 END;
                v_at := ARRAY[n, v_lane.id, r.a, r.b, r.c];
                CONTINUE WHEN r.id IS NULL OR r.kind <> p_kind
                    OR (p_tag IS NOT NULL AND NOT p_tag = ANY ({schema}.tags_of(r.attributes)));
                IF p_error IS NOT NULL OR p_args IS NOT NULL THEN
                    IF v_stage <> 'discarded' OR p_args IS NOT NULL THEN v_looked := v_looked + 4; END IF;
                    CONTINUE WHEN NOT ((p_args IS NULL OR {schema}.args_contain(r.args, p_args))
                        AND (p_error IS NULL OR {schema}.error_contains(r.id, v_stage = 'discarded', r.reason, p_error)));
                END IF;
                v_listed := v_listed + 1;
                next := NULL;
                job := ROW(r.id, CASE WHEN v_stage IN ('no_handler', 'keyed') THEN 'available' ELSE v_stage END, r.kind, v_lane.queue, v_lane.priority,
                           r.attempt, r.max_attempts, r.crash_count, r.args, r.enqueued_at, r.scheduled_at, r.claimed_at,
                           r.claimed_by, r.finished_at, r.reason, nullif(r.attributes, '')::json->>'key',
                           nullif(r.attributes, '')::json->'meta',
                           CASE WHEN v_stage = 'completed' THEN {schema}.result_of(v_lane.id, r.a, r.id) END)::{schema}.job_row;
                attributes := nullif(r.attributes, '')::json;
                RETURN NEXT;
            END LOOP;
            CLOSE v_rows;
        END LOOP;
    END LOOP;
END $$;

-- args_contain(args, wanted): whether a job's args contain wanted, as jsonb does. Encrypted ones contain nothing, and neither do those that are no
-- jsonb, as programs of other makes may write them.
-- Cost: reads the args.
CREATE OR REPLACE FUNCTION {schema}.args_contain(p_args json, p_wanted jsonb) RETURNS boolean
    LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN NOT {schema}.is_envelope(p_args) AND p_args::jsonb @> p_wanted;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN false;
END $$;

-- error_contains(job, discarded, reason, wanted): whether the last error of a job contains wanted, the case of A to Z aside.
-- Cost: a probe, and the job's errors, of which there are no more than its attempts.
CREATE OR REPLACE FUNCTION {schema}.error_contains(p_job bigint, p_discarded boolean, p_reason text, p_wanted text) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(strpos(
        lower((CASE WHEN p_discarded THEN p_reason ELSE (
            SELECT e.error FROM {schema}.attempt_error e WHERE e.job_id = p_job ORDER BY e.at DESC, e.attempt DESC LIMIT 1) END) COLLATE "C"),
        lower(p_wanted COLLATE "C")) > 0, false)
$$;

-- open_...(lane, ..., a, b, c): a cursor over one place of one lane behind position {a, b, c}; NULLs: from its beginning.
-- Rows have their position, then the job. Each reads as far as it is fetched from. Part of list_jobs, whose settings
-- they run under.

-- open_available: the log, backwards from its end to the cursor; position {xid, id}.
CREATE OR REPLACE FUNCTION {schema}.open_available(p_lane integer, p_xid bigint, p_id bigint) RETURNS refcursor
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_rows refcursor;
    v_lo xid8[]; v_lo_id bigint[]; v_hi xid8[];
    -- What is to be stepped over. Of more than this each job is looked for by itself, which costs a page of the index or two: for a page of the list all of them would be read.
    v_passed bigint[] := ARRAY(SELECT s.job_id FROM {schema}.cancelled_in_log s WHERE s.lane_id = p_lane ORDER BY s.xid LIMIT 10001);
    v_few boolean := cardinality(v_passed) <= 10000;
BEGIN
    SELECT u.lo, u.lo_id, u.hi INTO v_lo, v_lo_id, v_hi FROM {schema}.unclaimed_ranges(p_lane) u;
    OPEN v_rows FOR
        SELECT j.xid::text::bigint AS a, j.id AS b, NULL::bigint AS c,
               CASE WHEN v_few AND j.id IN (SELECT unnest(v_passed)) THEN NULL
                    WHEN NOT v_few AND (SELECT true FROM {schema}.cancelled_in_log s WHERE s.job_id = j.id AND s.lane_id + 0 = p_lane LIMIT 1) THEN NULL
                    ELSE j.id END AS id,
               j.kind, j.attempt, j.max_attempts, j.crash_count, j.args, j.enqueued_at, NULL::timestamptz AS scheduled_at,
               NULL::timestamptz AS claimed_at, NULL::integer AS claimed_by, NULL::timestamptz AS finished_at,
               NULL::text AS reason, j.attributes
        FROM generate_series(cardinality(v_lo), 1, -1) AS n
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.job j
            WHERE j.lane_id = p_lane AND (j.xid, j.id) > (v_lo[n], v_lo_id[n]) AND j.xid <= v_hi[n]
              AND (j.xid, j.id) < (coalesce(p_xid, {direct})::text::xid8, coalesce(p_id, 0))
            ORDER BY j.xid DESC, j.id DESC) AS j;
    RETURN v_rows;
END $$;

-- open_running: what is not settled of the lane's open claims, which are given; position {seq, xid, id}.
CREATE OR REPLACE FUNCTION {schema}.open_running(
    p_lane integer, p_lanes integer[], p_seqs bigint[], p_seq bigint, p_xid bigint, p_id bigint) RETURNS refcursor
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_rows refcursor;
BEGIN
    OPEN v_rows FOR
        SELECT k.seq AS a, j.xid::text::bigint AS b, j.id AS c, j.id,
               j.kind, (j.attempt + 1)::smallint AS attempt, j.max_attempts, j.crash_count, j.args, j.enqueued_at,
               NULL::timestamptz AS scheduled_at, k.claimed_at, k.worker_id AS claimed_by, NULL::timestamptz AS finished_at,
               NULL::text AS reason, j.attributes
        FROM (SELECT o.seq FROM unnest(p_lanes, p_seqs) AS o(lane, seq)
              WHERE o.lane = p_lane AND o.seq >= coalesce(p_seq, 0) ORDER BY o.seq) AS o
        JOIN {schema}.claim k ON k.lane_id = p_lane AND k.seq = o.seq
        -- Beside workers at full speed nearly all of what is claimed is settled, range by range: where no range meets another they name no job twice, so their counts tell
        -- that nothing is left (300 claims 600 ms, read each), and of others there is no probe for each job.
        CROSS JOIN LATERAL (
            SELECT sum(t.job_count) >= k.job_count AND NOT coalesce(bool_or(t.low_id <= t.before), false) AS over
            FROM (SELECT s.job_count, s.low_id, max(s.high_id) OVER (ORDER BY s.low_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
                  FROM {schema}.settlement s WHERE s.lane_id = p_lane AND s.seq = k.seq) AS t) AS settled
        -- Of lane NULL there is nothing to look for.
        LEFT JOIN LATERAL (
            SELECT * FROM {schema}.unsettled_jobs(CASE WHEN settled.over THEN NULL ELSE p_lane END, k.seq) j
            WHERE k.seq IS DISTINCT FROM p_seq OR (j.xid, j.id) > (p_xid::text::xid8, p_id)) AS j ON true;
    RETURN v_rows;
END $$;

-- open_completed: the lane's claims, newest first; position {seq, xid, id}. Of a claim that no one settlement covers they are read once: a search among them for each
-- job costs a tenth of the probes of settlement_of. An end of '-infinity': it went elsewhere.
CREATE OR REPLACE FUNCTION {schema}.open_completed(p_lane integer, p_seq bigint, p_xid bigint, p_id bigint) RETURNS refcursor
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_rows refcursor;
BEGIN
    OPEN v_rows FOR
        SELECT k.seq AS a, j.xid::text::bigint AS b, j.id AS c, CASE WHEN ended.at > '-infinity' THEN j.id END AS id,
               j.kind, (j.attempt + 1)::smallint AS attempt, j.max_attempts, j.crash_count, j.args, j.enqueued_at,
               NULL::timestamptz AS scheduled_at, k.claimed_at, k.worker_id AS claimed_by, ended.at AS finished_at, NULL::text AS reason, j.attributes
        FROM (SELECT * FROM {schema}.claim k
              WHERE k.lane_id = p_lane AND k.seq <= coalesce(p_seq, 9223372036854775807) ORDER BY k.seq DESC) AS k
        CROSS JOIN LATERAL ( -- as settlement_of: what names one job stands above a range, and that above the rest
            SELECT max(s.at) > '-infinity' AS some,
                   array_agg(s.low_id ORDER BY s.low_id) FILTER (WHERE s.low_id = s.high_id) AS ids,
                   array_agg(s.at ORDER BY s.low_id) FILTER (WHERE s.low_id = s.high_id) AS id_ends,
                   array_agg(s.low_id ORDER BY s.low_id) FILTER (WHERE s.low_id < s.high_id) AS lows,
                   array_agg(s.high_id ORDER BY s.low_id) FILTER (WHERE s.low_id < s.high_id) AS highs,
                   array_agg(s.at ORDER BY s.low_id) FILTER (WHERE s.low_id < s.high_id) AS ends,
                   min(s.at) FILTER (WHERE s.high_id IS NULL) AS rest
            FROM (SELECT s.low_id, s.high_id, CASE WHEN s.completed THEN s.settled_at ELSE '-infinity' END AS at
                  FROM {schema}.settlement s WHERE s.lane_id = p_lane AND s.seq = k.seq) AS s) AS s
        LEFT JOIN LATERAL (
            SELECT * FROM {schema}.claim_jobs(p_lane, k.seq) j
            WHERE s.some AND (k.seq IS DISTINCT FROM p_seq OR (j.xid, j.id) > (p_xid::text::xid8, p_id))) AS j ON true
        CROSS JOIN LATERAL (SELECT coalesce(
            CASE WHEN s.ids[width_bucket(j.id, s.ids)] = j.id THEN s.id_ends[width_bucket(j.id, s.ids)] END,
            CASE WHEN s.highs[width_bucket(j.id, s.lows)] >= j.id THEN s.ends[width_bucket(j.id, s.lows)] END,
            s.rest) AS at) AS ended;
    RETURN v_rows;
END $$;

-- open_waiting: jobs of one state of table waiting, next due first; position {available_at in unix microseconds, id}.
CREATE OR REPLACE FUNCTION {schema}.open_waiting(p_lane integer, p_state text, p_at bigint, p_id bigint) RETURNS refcursor
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_rows refcursor;
BEGIN
    OPEN v_rows FOR
        SELECT (extract(epoch FROM h.available_at) * 1000000)::bigint AS a, h.id AS b, NULL::bigint AS c, h.id,
               h.kind, h.attempt, h.max_attempts, h.crash_count, h.args, h.enqueued_at,
               CASE WHEN h.state IN ('scheduled', 'retryable') THEN h.available_at END AS scheduled_at,
               NULL::timestamptz AS claimed_at, NULL::integer AS claimed_by, NULL::timestamptz AS finished_at,
               CASE WHEN h.state = 'no_handler' THEN 'waits for a worker that knows its kind' END AS reason, h.attributes
        FROM {schema}.waiting h
        WHERE h.lane_id = p_lane AND h.state = p_state
          -- Seconds and the rest, each as exact as doubles are; together they are not, from the year 2255 on.
          AND (h.available_at, h.id + 0) > (coalesce('epoch'::timestamptz + p_at / 1000000 * interval '1 second' + p_at % 1000000 * interval '1 microsecond', '-infinity'), coalesce(p_id, 0))
        ORDER BY h.available_at, h.id + 0;
    RETURN v_rows;
END $$;

-- open_dead: jobs of one state of table dead, last finished first; position {finished_at in unix microseconds, id}.
CREATE OR REPLACE FUNCTION {schema}.open_dead(p_lane integer, p_state text, p_at bigint, p_id bigint) RETURNS refcursor
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_rows refcursor;
BEGIN
    OPEN v_rows FOR
        SELECT (extract(epoch FROM d.finished_at) * 1000000)::bigint AS a, d.id AS b, NULL::bigint AS c, d.id,
               d.kind, d.attempt, d.max_attempts, d.crash_count, d.args, d.enqueued_at, NULL::timestamptz AS scheduled_at,
               NULL::timestamptz AS claimed_at, NULL::integer AS claimed_by, d.finished_at, d.reason, d.attributes
        FROM {schema}.dead d
        WHERE d.lane_id = p_lane AND d.state = p_state
          AND (d.finished_at, d.id + 0) < (coalesce('epoch'::timestamptz + p_at * interval '1 microsecond', 'infinity'), coalesce(p_id, 0))
        ORDER BY d.finished_at DESC, d.id + 0 DESC;
    RETURN v_rows;
END $$;
