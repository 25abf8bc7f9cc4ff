-- Counters per minute, queue, kind and outcome, made from the log: see docs/design/history.md.
--
-- Invariant: what ended is counted once, whatever dies: where the fold is, and what it counted, change in one transaction; and it goes by the
-- transactions that are visible in one of two snapshots, as events do.

-- ended_kinds(lane, seq, lows, highs, rest, jobs): by kind how many jobs of a claim its settlements name: those of the ranges lows to highs, and with `rest` those
-- that no other settlement names. Where rows of those are gone: `jobs`, of kind '*'.
-- Cost: 0.3 us for each job of the claim, twice that where it has several settlements.
CREATE OR REPLACE FUNCTION {schema}.ended_kinds(
    p_lane integer, p_seq bigint, p_lows bigint[], p_highs bigint[], p_rest boolean, p_jobs bigint)
    RETURNS TABLE (kind text, n bigint) LANGUAGE plpgsql STABLE ROWS 5
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_material = off
    SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    c record;
    v_lo xid8[]; v_lo_id bigint[]; v_hi xid8[];
    v_kinds  text[];
    v_counts bigint[];
    v_jobs   bigint;
BEGIN
    SELECT * INTO c FROM {schema}.claim k WHERE k.lane_id = p_lane AND k.seq = p_seq;
    IF NOT FOUND OR c.job_count = 0 THEN RETURN QUERY SELECT '*'::text, p_jobs; RETURN; END IF;
    IF c.direct THEN
        v_lo := ARRAY[({direct} + p_seq)::text::xid8]; v_lo_id := ARRAY[0]; v_hi := v_lo;
        c.end_xid := NULL; c.end_id := NULL;
    ELSE
        SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(c.from_snapshot, c.to_snapshot) d;
        SELECT a.lo, a.lo_id, a.hi INTO v_lo, v_lo_id, v_hi FROM {schema}.after(v_lo, v_hi, c.start_xid, c.start_id) a;
    END IF;
    c.end_xid := coalesce(c.end_xid, '18446744073709551615');
    c.end_id := coalesce(c.end_id, 9223372036854775807);
    IF p_rest AND NOT EXISTS (SELECT 1 FROM {schema}.settlement s WHERE s.lane_id = p_lane AND s.seq = p_seq AND s.high_id IS NOT NULL) THEN
        SELECT array_agg(x.kind), array_agg(x.n), sum(x.n) INTO v_kinds, v_counts, v_jobs FROM (
            SELECT j.kind, count(*) AS n FROM unnest(v_lo, v_lo_id, v_hi) AS r(lo, lo_id, hi)
            CROSS JOIN LATERAL (
                SELECT j.kind FROM {schema}.job j
                WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi AND (j.xid, j.id) <= (c.end_xid, c.end_id) OFFSET 0) AS j
            GROUP BY j.kind) AS x;
    ELSE
        -- Ranges of several ids do not overlap, so the last that begins before a job is the one that may name it. Those of one id stand above them.
        WITH member AS MATERIALIZED (
            SELECT j.id, j.kind FROM unnest(v_lo, v_lo_id, v_hi) AS r(lo, lo_id, hi)
            CROSS JOIN LATERAL (
                SELECT j.id, j.kind FROM {schema}.job j
                WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi AND (j.xid, j.id) <= (c.end_xid, c.end_id) OFFSET 0) AS j
        ), wanted AS MATERIALIZED (SELECT DISTINCT w.low, w.high FROM unnest(p_lows, p_highs) AS w(low, high)
        ), named AS MATERIALIZED (
            SELECT DISTINCT s.low_id AS low, s.high_id AS high, w.low IS NOT NULL AS wanted
            FROM {schema}.settlement s LEFT JOIN wanted w ON w.low = s.low_id AND w.high = s.high_id
            WHERE s.lane_id = p_lane AND s.seq = p_seq AND s.high_id IS NOT NULL
        ), line AS (
            SELECT m.id, m.kind, NULL::bigint AS high, NULL::bigint AS wanted FROM member m
            UNION ALL
            SELECT r.low, NULL, r.high, CASE WHEN r.wanted THEN r.high END FROM named r WHERE r.low < r.high
        ), judged AS (
            SELECT l.id, l.kind, max(l.high) OVER w AS high, max(l.wanted) OVER w AS wanted FROM line l
            WINDOW w AS (ORDER BY l.id, l.kind NULLS FIRST ROWS UNBOUNDED PRECEDING)
        ), counted AS (
            SELECT j.kind, count(*) AS n FROM judged j LEFT JOIN named s ON s.low = s.high AND s.low = j.id
            WHERE j.kind IS NOT NULL
              AND CASE WHEN s.low IS NOT NULL THEN s.wanted WHEN j.id <= j.high THEN j.wanted IS NOT DISTINCT FROM j.high ELSE p_rest END
            GROUP BY j.kind)
        SELECT (SELECT array_agg(x.kind) FROM counted x), (SELECT array_agg(x.n) FROM counted x), (SELECT count(*) FROM member) INTO v_kinds, v_counts, v_jobs;
    END IF;
    IF v_jobs IS DISTINCT FROM c.job_count AND (SELECT sum(n) FROM unnest(v_counts) AS n) IS DISTINCT FROM p_jobs THEN
        RETURN QUERY SELECT '*'::text, p_jobs;
    ELSE
        RETURN QUERY SELECT u.kind, u.n FROM unnest(v_kinds, v_counts) AS u(kind, n);
    END IF;
END $$;

-- within_call(since, until, pos, n): whether the step that ended at (pos, n) did so among the rows that one call wrote of one claim. Of those the first has the count of all (settle_ranges),
-- so they are counted at one speed.
CREATE OR REPLACE FUNCTION {schema}.within_call(p_since pg_snapshot, p_until pg_snapshot, p_pos xid8, p_n bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
BEGIN
    RETURN (SELECT count(*) = 2 AND count(DISTINCT (t.pos, t.lane_id, t.seq)) = 1 AND bool_and(t.source = 2)
            FROM {schema}.changes(p_since, p_until, p_pos, p_n, 2, NULL, false, true) t);
END $$;

-- fold_step(until, jobs, hasty): counts what ended, at most about `jobs` jobs; `hasty`: by settlements, of which there are few, whatever number of jobs they name: the kinds of those that
-- completed are not told apart. until: a snapshot that was taken before this transaction had an id: then the ids that it counts as ended are used up once this
-- is on disk, and a crash gives none of them to others. counted: how many; again: there is more; busy: jobs complete at this moment.
-- Two callers do no harm: one of them finds nothing to do.
CREATE OR REPLACE FUNCTION {schema}.fold_step(
    p_until pg_snapshot, p_jobs integer, p_hasty boolean, OUT counted bigint, OUT again boolean, OUT busy boolean)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off
AS $$
DECLARE
    f       {schema}.counter_fold;
    v_last  record;
    v_hasty boolean;
    v_old   boolean; -- the batch was begun by an earlier call: there may be more behind it
BEGIN
    counted := 0;
    again := false;
    busy := false;
    SELECT * INTO f FROM {schema}.counter_fold FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN; END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    IF {schema}.home_state() = 'moved' THEN RETURN; END IF;
    v_old := f.until IS NOT NULL;
    IF NOT v_old THEN
        -- Somebody may have counted beyond it meanwhile.
        IF pg_snapshot_xmax(p_until) < pg_snapshot_xmax(f.since)
           OR EXISTS (SELECT 1 FROM pg_snapshot_xip(p_until) AS x WHERE pg_visible_in_snapshot(x, f.since)) THEN
            RETURN;
        END IF;
        f.until := p_until;
        f.begun_at := now();
        f.pos := '0';
        f.n := 0;
    END IF;
    v_hasty := f.hasty OR p_hasty AND NOT (v_old AND {schema}.within_call(f.since, f.until, f.pos, f.n));

    WITH found AS MATERIALIZED (
        SELECT t.*, first_value(t.pos) OVER w AS last_pos, first_value(t.lane_id) OVER w AS last_lane, first_value(t.seq) OVER w AS last_seq,
               first_value(t.cut AND t.source = 2 AND t.high IS NOT NULL) OVER w AS open_end
        FROM {schema}.changes(f.since, f.until, f.pos, f.n + 1, CASE WHEN v_hasty THEN 10000 ELSE 1000 END, CASE WHEN v_hasty THEN NULL ELSE p_jobs END, false, true) t
        WINDOW w AS (ORDER BY t.pos DESC, t.n DESC)
    ), marked AS MATERIALIZED (
        -- Of the last claim there may be more, of which the first row has the count: it is left to the next step, unless it is all there is.
        SELECT t.*, t.open_end AND t.pos = t.last_pos AND t.lane_id = t.last_lane AND t.seq = t.last_seq AS is_open FROM found t
    ), taken AS MATERIALIZED (
        SELECT t.*, coalesce(l.queue, '*') AS queue, date_trunc('minute', t.at, 'UTC') AS minute
        FROM marked t LEFT JOIN {schema}.lane l ON l.id = t.lane_id
        WHERE NOT t.is_open OR NOT EXISTS (SELECT 1 FROM marked m WHERE NOT m.is_open)
    ), settled AS MATERIALIZED (
        SELECT t.lane_id, t.seq, t.queue, t.minute, sum(t.jobs) AS jobs, array_agg(t.low) FILTER (WHERE t.high IS NOT NULL) AS lows,
               array_agg(t.high) FILTER (WHERE t.high IS NOT NULL) AS highs, bool_or(t.high IS NULL) AS rest
        FROM taken t WHERE t.source = 2 GROUP BY 1, 2, 3, 4
    ), ended AS (
        SELECT s.minute, s.queue, k.kind, 'completed' AS outcome, k.n FROM settled s
            CROSS JOIN LATERAL {schema}.ended_kinds(s.lane_id, s.seq, s.lows, s.highs, s.rest, s.jobs) k WHERE NOT v_hasty
        UNION ALL
        SELECT s.minute, s.queue, '*', 'completed', s.jobs FROM settled s WHERE v_hasty
        UNION ALL
        SELECT t.minute, t.queue, t.kind, t.event, 1 FROM taken t WHERE t.source = 3 AND t.event <> 'enqueued'
    ), summed AS MATERIALIZED (
        SELECT e.minute, e.queue, e.kind, e.outcome, sum(e.n)::bigint AS n FROM ended e GROUP BY 1, 2, 3, 4 HAVING sum(e.n) > 0
    ), ranked AS (
        SELECT s.*, k.minute IS NOT NULL AS known, row_number() OVER (PARTITION BY s.minute, k.minute IS NOT NULL ORDER BY s.n DESC) AS nth
        FROM summed s LEFT JOIN {schema}.counter k ON k.minute = s.minute AND k.queue = s.queue AND k.kind = s.kind AND k.outcome = s.outcome
    ), stored AS (SELECT k.minute, count(*) AS rows FROM {schema}.counter k WHERE k.minute IN (SELECT s.minute FROM summed s) GROUP BY 1
    ), fitting AS (
        SELECT r.minute, CASE WHEN r.known OR r.nth + coalesce(t.rows, 0) <= 1000 THEN r.queue ELSE '*' END AS queue,
               CASE WHEN r.known OR r.nth + coalesce(t.rows, 0) <= 1000 THEN r.kind ELSE '*' END AS kind, r.outcome, r.n
        FROM ranked r LEFT JOIN stored t ON t.minute = r.minute
    ), written AS (
        INSERT INTO {schema}.counter AS k (minute, queue, kind, outcome, n)
            SELECT x.minute, x.queue, x.kind, x.outcome, sum(x.n) FROM fitting x GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
            ON CONFLICT (minute, queue, kind, outcome) DO UPDATE SET n = k.n + excluded.n)
    SELECT (SELECT coalesce(sum(s.n), 0) FROM summed s) AS jobs, l.pos, l.n, l.at, coalesce(l.cut, false) AS cut,
           (SELECT min(t.at) FROM taken t) AS first, coalesce(l.is_open, false) AS is_open
        INTO v_last FROM (SELECT 1) AS one LEFT JOIN (SELECT t.pos, t.n, t.at, t.cut, t.is_open FROM taken t ORDER BY t.pos DESC, t.n DESC LIMIT 1) AS l ON true;
    counted := v_last.jobs;
    again := v_last.cut OR v_old;
    IF v_last.cut THEN
        -- A backlog of more than ten minutes is not caught up with kind by kind. What was begun goes on as it was.
        UPDATE {schema}.counter_fold SET until = f.until, pos = v_last.pos, n = v_last.n, begun_at = f.begun_at,
            counted_until = greatest(f.counted_until, least(v_last.first, f.begun_at)),
            hasty = CASE WHEN v_last.is_open THEN v_hasty ELSE v_last.first < clock_timestamp() - interval '10 minutes' END;
    ELSE
        UPDATE {schema}.counter_fold SET since = f.until, until = NULL, counted_until = f.begun_at, hasty = false;
    END IF;
    busy := coalesce((SELECT s.settled_at > clock_timestamp() - interval '1 second' FROM {schema}.settlement s
                      WHERE s.event_xid IS NOT NULL ORDER BY s.event_xid DESC LIMIT 1), false);
END $$;

-- fold(jobs): fold_step, for the leader's housekeeping; a transaction of its own.
CREATE OR REPLACE FUNCTION {schema}.fold(p_jobs integer, OUT counted bigint, OUT again boolean, OUT busy boolean)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_until pg_snapshot := pg_current_snapshot();
BEGIN
    SELECT s.counted, s.again, s.busy INTO counted, again, busy FROM {schema}.fold_step(v_until, p_jobs, false) s;
END $$;

-- uncounted_in(segment): whether something there is not counted yet.
-- Cost: an index probe for each leaf, and what was written since the fold's snapshot.
CREATE OR REPLACE FUNCTION {schema}.uncounted_in(p_segment smallint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    v_since pg_snapshot := (SELECT f.since FROM {schema}.counter_fold f);
BEGIN
    RETURN EXISTS (SELECT 1 FROM {schema}.settlement s WHERE s.segment = p_segment AND s.completed
                   AND s.event_xid >= pg_snapshot_xmin(v_since) AND NOT pg_visible_in_snapshot(s.event_xid, v_since))
        OR EXISTS (SELECT 1 FROM {schema}.event e WHERE e.segment = p_segment AND e.event <> 'enqueued'
                   AND e.event_pos >= pg_snapshot_xmin(v_since) AND NOT pg_visible_in_snapshot(e.event_xid, v_since));
END $$;

-- count_before_emptying(until): a hasty step before a segment is emptied. Never stops that: should it fail, what was not counted by now is never counted, and a
-- warning says so.
CREATE OR REPLACE FUNCTION {schema}.count_before_emptying(p_until pg_snapshot) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM {schema}.fold_step(p_until, 1000, true);
EXCEPTION WHEN data_exception OR integrity_constraint_violation OR object_not_in_prerequisite_state OR internal_error THEN
    RAISE WARNING 'what ended since % is left out of the counters: %', (SELECT f.counted_until FROM {schema}.counter_fold f), SQLERRM;
    UPDATE {schema}.counter_fold SET since = p_until, until = NULL, hasty = false;
END $$;

-- forget_counters(most): those of more than 30 days ago. Returns how many.
CREATE OR REPLACE FUNCTION {schema}.forget_counters(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_sort = off
AS $$
DECLARE
    v_count bigint;
BEGIN
    DELETE FROM {schema}.counter c WHERE c.ctid = ANY (ARRAY(
        SELECT k.ctid FROM {schema}.counter k WHERE k.minute < (SELECT clock_timestamp() - interval '30 days')
        ORDER BY k.minute, k.queue, k.kind, k.outcome LIMIT p_most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;

-- history(last, step, queue, kind, outcome): what the counters say of the time `last` up to now, in steps of whole minutes since 1970; of one queue, kind or
-- outcome only where given. queue and kind are '*' where they are not told apart. How far the log is counted: counter_fold.counted_until.
-- Cost: linear in the counters of that time.
CREATE OR REPLACE FUNCTION {schema}.history(
    last interval DEFAULT '1 hour', step interval DEFAULT '1 minute', queue text DEFAULT NULL, kind text DEFAULT NULL, outcome text DEFAULT NULL)
    RETURNS TABLE (minute timestamptz, queue_name text, job_kind text, ended_as text, n bigint) LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_step bigint := extract(epoch FROM $2);
BEGIN
    IF $1 IS NULL OR $1 <= '0' OR $1 > '30 days' THEN
        RAISE 'history goes back for up to 30 days, got %', coalesce($1::text, 'NULL') USING ERRCODE = 'WL003';
    END IF;
    IF v_step IS NULL OR v_step < 60 OR v_step % 60 <> 0 OR v_step > 2592000 THEN
        RAISE 'a step of history is of whole minutes, up to 30 days, got %', coalesce($2::text, 'NULL') USING ERRCODE = 'WL003';
    END IF;
    IF $5 NOT IN ('completed', 'failed', 'retried', 'snoozed', 'cancelled', 'discarded', 'rescued', 'returned', 'deleted') THEN
        RAISE 'unknown outcome %; known are completed, failed, retried, snoozed, cancelled, discarded, rescued, returned, deleted', quote_literal(left($5, 40))
            USING ERRCODE = 'WL003';
    END IF;
    RETURN QUERY
        SELECT to_timestamp(floor(extract(epoch FROM c.minute)::bigint / v_step) * v_step), c.queue, c.kind, c.outcome, sum(c.n)::bigint
        FROM {schema}.counter c
        WHERE c.minute > (SELECT clock_timestamp() - $1 - interval '1 minute') AND ($3 IS NULL OR c.queue = $3) AND ($4 IS NULL OR c.kind = $4) AND ($5 IS NULL OR c.outcome = $5)
        GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;
END $$;
