-- The rows that are new between two snapshots, in the order in which what they tell is told: see docs/design/events.md.

-- new_claims(from, to, pos, n, most): the claims of jobs that are new, from (pos, n) on, in no order: the first `most` of them and more, some of those at the
-- same pos before n too.
-- n: see table claim; of those that have none, how many are at the same pos before, below all others.
-- Cost: a probe for each transaction that was open in one of the snapshots.
CREATE OR REPLACE FUNCTION {schema}.new_claims(p_from pg_snapshot, p_to pg_snapshot, p_pos xid8, p_n bigint, p_most integer)
    RETURNS TABLE (pos xid8, n bigint, xid xid8, lane_id integer, seq bigint, worker_id integer, at timestamptz, jobs integer)
    LANGUAGE plpgsql STABLE ROWS 100
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
    SET enable_incremental_sort = off SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    v_lo    xid8[];
    v_hi    xid8[];
    v_count integer;
    v_sum   integer := 0;
    v_ended xid8[] := ARRAY(SELECT x FROM pg_snapshot_xip(p_from) AS x WHERE pg_visible_in_snapshot(x, p_to));
BEGIN
    SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(p_from, p_to) d;
    FOR i IN 1..cardinality(v_lo) LOOP
        CONTINUE WHEN v_hi[i] < p_pos;
        RETURN QUERY
            SELECT k.event_pos, coalesce(k.event_late[2], row_number() OVER (
                       PARTITION BY k.event_pos, k.event_late IS NULL ORDER BY k.lane_id, k.seq) - 1000000000),
                   coalesce(k.event_late[1]::text::xid8, k.event_pos), k.lane_id, k.seq, k.worker_id, k.claimed_at, k.job_count
            FROM (SELECT * FROM {schema}.claim c
                  WHERE c.event_pos = p_pos AND c.event_pos >= v_lo[i]
                    AND (c.event_late IS NULL OR pg_visible_in_snapshot(c.event_late[1]::text::xid8, p_to)
                                                 AND NOT pg_visible_in_snapshot(c.event_late[1]::text::xid8, p_from))
                  UNION ALL
                  (SELECT * FROM {schema}.claim c
                   WHERE c.event_pos >= v_lo[i] AND c.event_pos > p_pos AND c.event_pos <= v_hi[i]
                     AND (c.event_late IS NULL OR pg_visible_in_snapshot(c.event_late[1]::text::xid8, p_to)
                                                  AND NOT pg_visible_in_snapshot(c.event_late[1]::text::xid8, p_from))
                   ORDER BY c.event_pos FETCH FIRST (p_most) ROWS WITH TIES)) AS k;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        -- Those at p_pos, which may all be behind the reader, are among what the first range gives.
        v_sum := v_sum + CASE WHEN v_lo[i] > p_pos THEN v_count ELSE 0 END;
        EXIT WHEN v_sum >= p_most;
    END LOOP;
    IF v_ended = '{}' THEN RETURN; END IF;
    -- Those by transactions that were open, at a place that was passed then.
    RETURN QUERY
        SELECT k.event_pos, k.event_late[2], x, k.lane_id, k.seq, k.worker_id, k.claimed_at, k.job_count
        FROM unnest(v_ended) AS x
        JOIN {schema}.claim k ON k.event_late >= ARRAY[x::text::bigint, 0] AND k.event_late < ARRAY[x::text::bigint + 1, 0]
        WHERE k.event_late IS NOT NULL AND k.event_pos < pg_snapshot_xmax(p_from) AND k.event_pos <> ALL (v_ended) AND (k.event_pos, k.event_late[2]) >= (p_pos, p_n)
        ORDER BY k.event_pos, k.event_late[2] LIMIT p_most;
END $$;

-- new_events(from, to, pos, n, most): the rows of event that are new, from (pos, n) on, in order: at most `most` of those that stand where they are looked for, and
-- `most` of those by transactions that were open.
CREATE OR REPLACE FUNCTION {schema}.new_events(p_from pg_snapshot, p_to pg_snapshot, p_pos xid8, p_n bigint, p_most integer)
    RETURNS SETOF {schema}.event LANGUAGE plpgsql STABLE ROWS 100
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
    SET enable_incremental_sort = off SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    v_lo    xid8[];
    v_hi    xid8[];
    v_ended xid8[] := ARRAY(SELECT x FROM pg_snapshot_xip(p_from) AS x WHERE pg_visible_in_snapshot(x, p_to));
BEGIN
    SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(p_from, p_to) d;
    RETURN QUERY
        SELECT e.* FROM (
            SELECT greatest(p_pos, r.lo) AS lo, CASE WHEN p_pos >= r.lo THEN p_n ELSE -9223372036854775808 END AS n, r.hi
            FROM unnest(v_lo, v_hi) WITH ORDINALITY AS r(lo, hi, nth) WHERE r.hi >= p_pos ORDER BY r.nth) AS r
        CROSS JOIN LATERAL (
            SELECT e.* FROM {schema}.event e WHERE (e.event_pos, e.event_n) >= (r.lo, r.n) AND e.event_pos <= r.hi
              AND pg_visible_in_snapshot(e.event_xid, p_to) AND NOT pg_visible_in_snapshot(e.event_xid, p_from)
            ORDER BY e.event_pos, e.event_n LIMIT p_most) AS e
        LIMIT p_most;
    IF v_ended = '{}' THEN RETURN; END IF;
    RETURN QUERY
        SELECT e.* FROM {schema}.event e
        WHERE e.event_xid = ANY (v_ended) AND e.event_pos <> e.event_xid AND e.event_pos < pg_snapshot_xmax(p_from) AND e.event_pos <> ALL (v_ended)
          AND (e.event_pos, e.event_n) >= (p_pos, p_n)
        ORDER BY e.event_pos, e.event_n LIMIT p_most;
END $$;

-- new_completions(from, to, xid, most): the settlements by which jobs completed that are new, from this transaction on: that one's, the first `most`
-- others, and the rest of the last one's transaction. n: how many of the same transaction come before.
CREATE OR REPLACE FUNCTION {schema}.new_completions(p_from pg_snapshot, p_to pg_snapshot, p_xid xid8, p_most integer)
    RETURNS TABLE (xid xid8, n bigint, lane_id integer, seq bigint, worker_id integer, at timestamptz, jobs integer, low bigint, high bigint)
    LANGUAGE plpgsql STABLE ROWS 100
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
    SET enable_incremental_sort = off SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    v_lo    xid8[];
    v_hi    xid8[];
    v_count integer;
    v_sum   integer := 0;
BEGIN
    SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(p_from, p_to) d;
    FOR i IN 1..cardinality(v_lo) LOOP
        CONTINUE WHEN v_hi[i] < p_xid;
        RETURN QUERY
            SELECT s.event_xid, row_number() OVER (PARTITION BY s.event_xid ORDER BY s.lane_id, s.seq, s.high_id, s.low_id),
                   s.lane_id, s.seq, s.worker_id, s.settled_at, s.job_count, s.low_id, s.high_id
            FROM (SELECT * FROM {schema}.settlement t WHERE t.event_xid = p_xid AND t.event_xid >= v_lo[i] AND t.completed
                  UNION ALL
                  (SELECT * FROM {schema}.settlement t
                   WHERE t.event_xid >= v_lo[i] AND t.event_xid > p_xid AND t.event_xid <= v_hi[i] AND t.completed
                   ORDER BY t.event_xid FETCH FIRST (p_most) ROWS WITH TIES)) AS s;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        v_sum := v_sum + CASE WHEN v_lo[i] > p_xid THEN v_count ELSE 0 END;
        EXIT WHEN v_sum >= p_most;
    END LOOP;
END $$;

-- rows_for(pos, xid, jobs, started): how many rows to look at for so many jobs: twice as many as the next 64 claims, or completions, let expect. NULL: unknown.
CREATE OR REPLACE FUNCTION {schema}.rows_for(p_pos xid8, p_xid xid8, p_jobs integer, p_started boolean) RETURNS integer
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    v_rows constant bigint := 64;
    v_jobs bigint;
BEGIN
    IF p_jobs IS NULL OR p_jobs <= 256 THEN RETURN NULL; END IF;
    IF p_started AND p_xid = '0' THEN
        SELECT sum(x.job_count) INTO v_jobs FROM (
            SELECT k.job_count FROM {schema}.claim k WHERE k.event_pos >= p_pos ORDER BY k.event_pos LIMIT v_rows) AS x;
    ELSE
        SELECT sum(x.job_count) INTO v_jobs FROM (
            SELECT s.job_count FROM {schema}.settlement s WHERE s.event_xid >= p_xid AND s.completed ORDER BY s.event_xid LIMIT v_rows) AS x;
    END IF;
    -- Where claims are settled in parts, their sizes differ much, and each page reads the whole claim.
    RETURN greatest(CASE WHEN v_jobs < v_rows * 256 THEN 1024 ELSE 256 END, 2 * v_rows * p_jobs / greatest(v_jobs, v_rows));
END $$;

-- changes(from, to, pos, n, most, limit, ...): all of these from (pos, n) on: at most `most`, and none behind those that together have `limit` jobs, where it is given.
-- cut: there are more. As many are looked at as the claims or completions ahead let expect: all of `most` were a fifth of the time of a page.
-- Completions, which nothing follows, come last, at pos 2^61 + xid.
CREATE OR REPLACE FUNCTION {schema}.changes(
    p_from pg_snapshot, p_to pg_snapshot, p_pos xid8, p_n bigint, p_most integer, p_limit integer, p_started boolean, p_completed boolean)
    RETURNS TABLE (source integer, pos xid8, n bigint, xid xid8, lane_id integer, seq bigint, worker_id integer, at timestamptz, jobs integer,
                   low bigint, high bigint, job_id bigint, attempt smallint, event text, kind text, reason text, cut boolean)
    LANGUAGE plpgsql STABLE ROWS 100
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_last constant bigint := 2305843009213693952;
    v_xid  xid8 := greatest(p_pos::text::bigint - v_last, 0)::text::xid8;
BEGIN
    p_most := least(p_most, {schema}.rows_for(p_pos, v_xid, p_limit, p_started));
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT f.*, sum(greatest(f.jobs, 1)) OVER (ORDER BY f.pos, f.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM (
            SELECT 1 AS source, c.pos, c.n, c.xid, c.lane_id, c.seq, c.worker_id, c.at, c.jobs,
                   NULL::bigint AS low, NULL::bigint AS high, NULL::bigint AS job_id, NULL::smallint AS attempt,
                   NULL::text AS event, NULL::text AS kind, NULL::text AS reason
                FROM {schema}.new_claims(p_from, p_to, p_pos, p_n, p_most) c WHERE p_started AND v_xid = '0' AND (c.pos, c.n) >= (p_pos, p_n)
            UNION ALL
            SELECT 3, e.event_pos, e.event_n, e.event_xid, e.lane_id, NULL, e.worker_id, e.at, (coalesce(e.last_id, e.job_id) - e.job_id + 1)::integer, NULL, e.last_id, e.job_id,
                   e.attempt, e.event, e.kind, e.reason
                FROM {schema}.new_events(p_from, p_to, p_pos, p_n, p_most) e WHERE v_xid = '0'
            UNION ALL
            SELECT 2, (s.xid::text::bigint + v_last)::text::xid8, s.n, s.xid, s.lane_id, s.seq, s.worker_id, s.at, s.jobs, s.low, s.high, NULL, NULL, NULL, NULL, NULL
                FROM {schema}.new_completions(p_from, p_to, v_xid, p_most) s WHERE p_completed AND (v_xid = '0' OR (s.xid, s.n) >= (v_xid, p_n))
            ORDER BY 2, 3 LIMIT p_most) AS f
    ), counted AS MATERIALIZED (SELECT count(*) >= p_most OR count(*) FILTER (WHERE f.before >= p_limit) > 0 AS cut FROM found f)
    SELECT f.source, f.pos, f.n, f.xid, f.lane_id, f.seq, f.worker_id, f.at, f.jobs, f.low, f.high, f.job_id, f.attempt, f.event, f.kind, f.reason,
           c.cut
    FROM found f, counted c WHERE (f.before < p_limit) IS NOT FALSE ORDER BY f.pos, f.n;
END $$;
