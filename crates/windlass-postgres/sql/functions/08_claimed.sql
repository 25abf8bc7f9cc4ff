-- The jobs of claims, and which of them are not settled.

-- claim_jobs(lane, seq): the log rows of one claim, settled or not.
-- Never asks for more than the claim has: a scan does not end at the claim's last id, but with the rows of its transaction.
-- Cost: one index probe per range and per row. Used by rescue, rotation and inspection, never by claims.
CREATE OR REPLACE FUNCTION {schema}.claim_jobs(p_lane integer, p_seq bigint)
    RETURNS SETOF {schema}.job LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off
AS $$
DECLARE
    c record;
    v_lo xid8[]; v_lo_id bigint[]; v_hi xid8[];
BEGIN
    SELECT * INTO c FROM {schema}.claim WHERE lane_id = p_lane AND seq = p_seq;
    IF NOT FOUND OR c.job_count = 0 THEN RETURN; END IF;
    IF c.direct THEN
        RETURN QUERY SELECT * FROM {schema}.job j
            WHERE j.lane_id = p_lane AND j.xid = ({direct} + p_seq)::text::xid8 ORDER BY j.xid, j.id;
        RETURN;
    END IF;
    SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(c.from_snapshot, c.to_snapshot) d;
    SELECT a.lo, a.lo_id, a.hi INTO v_lo, v_lo_id, v_hi FROM {schema}.after(v_lo, v_hi, c.start_xid, c.start_id) a;
    RETURN QUERY
        SELECT j.* FROM unnest(v_lo, v_lo_id, v_hi) AS r(lo, lo_id, hi)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.job j
            WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
              AND (j.xid, j.id) <= (coalesce(c.end_xid, '18446744073709551615'), coalesce(c.end_id, 9223372036854775807))
            ORDER BY j.xid, j.id LIMIT c.job_count) AS j
        LIMIT c.job_count;
END $$;

-- settlement_of(lane, seq, id): the settlement of one job of a claim; no row: there is none.
-- Not for ids that are no jobs of the claim: its rest and its ranges name them as well.
-- Cost: three index probes, however many settlements the claim has. No SET, so that it is planned as part of
-- the query that names it; hence the names in full.
CREATE OR REPLACE FUNCTION {schema}.settlement_of(p_lane integer, p_seq bigint, p_id bigint)
    RETURNS TABLE (completed boolean, settled_at timestamptz) LANGUAGE sql STABLE ROWS 1
AS $$
    SELECT f.completed, f.settled_at FROM (
        (SELECT 1 AS rank, s.completed, s.settled_at FROM {schema}.settlement s
         WHERE s.lane_id = p_lane AND s.seq = p_seq AND s.high_id = p_id AND s.low_id = p_id LIMIT 1)
        UNION ALL
        SELECT 2, w.completed, w.settled_at FROM (
            SELECT s.completed, s.settled_at, s.low_id FROM {schema}.settlement s
            WHERE s.lane_id = p_lane AND s.seq = p_seq AND s.high_id >= p_id AND s.low_id < s.high_id
            ORDER BY s.high_id LIMIT 1) AS w
        WHERE w.low_id <= p_id
        UNION ALL
        (SELECT 3, s.completed, s.settled_at FROM {schema}.settlement s
         WHERE s.lane_id = p_lane AND s.seq = p_seq AND s.high_id IS NULL LIMIT 1)) AS f
    ORDER BY f.rank LIMIT 1
$$;

-- unsettled_jobs(lane, seq): the log rows of one claim that no settlement names.
-- Cost: its settlements once, and for each of its jobs a search among their bounds: 1 s for 10^6 jobs of 200 claims on a busy machine, where
-- a probe of the index for each job took 20 s. Ranges may overlap: the bounds are each low and the highest high up to there.
CREATE OR REPLACE FUNCTION {schema}.unsettled_jobs(p_lane integer, p_seq bigint) RETURNS SETOF {schema}.job
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    SELECT j.* FROM (
        SELECT coalesce(bool_or(t.high_id IS NULL), false) AS whole,
               array_agg(t.low_id ORDER BY t.low_id) FILTER (WHERE t.high_id IS NOT NULL) AS lows,
               array_agg(t.highest ORDER BY t.low_id) FILTER (WHERE t.high_id IS NOT NULL) AS highs
        FROM (SELECT s.low_id, s.high_id, max(s.high_id) OVER (ORDER BY s.low_id) AS highest
              FROM {schema}.settlement s WHERE s.lane_id = p_lane AND s.seq = p_seq) AS t) AS s
    CROSS JOIN LATERAL {schema}.claim_jobs(p_lane, p_seq) j
    WHERE NOT s.whole AND NOT coalesce(s.highs[width_bucket(j.id, s.lows)] >= j.id, false)
$$;

-- open_claims(worker): the claims of one worker that may have unsettled jobs; NULL: of every worker that is
-- not ended (an ended one has none). Counts can be too high by settlements that name a job twice, so a claim
-- of several jobs only counts as closed when its rest was settled; unsettled_jobs is exact.
-- Cost: one settlement probe per claim since the worker's open_from, so of the last heartbeat or two, and per older
-- one that its heartbeat listed.
CREATE OR REPLACE FUNCTION {schema}.open_claims(p_worker integer)
    RETURNS TABLE (lane_id integer, seq bigint, worker_id integer, claimed_at timestamptz, open_count bigint)
    LANGUAGE sql STABLE ROWS 10
    SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    SELECT c.lane_id, c.seq, c.worker_id, c.claimed_at, greatest(c.job_count - s.n, 0)
    FROM {schema}.worker w
    CROSS JOIN LATERAL (
        SELECT k.* FROM {schema}.claim k WHERE k.worker_id = w.id AND k.worker_call >= w.open_from AND k.job_count > 0
        UNION ALL
        SELECT k.* FROM unnest(w.open_lanes, w.open_seqs) AS o(lane_id, seq)
        JOIN {schema}.claim k ON k.lane_id = o.lane_id AND k.seq = o.seq
        WHERE k.worker_id = w.id AND k.worker_call < w.open_from AND k.job_count > 0) AS c
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(t.job_count), 0) AS n, coalesce(bool_or(t.high_id IS NULL), false) AS whole
        FROM {schema}.settlement t WHERE t.lane_id = c.lane_id AND t.seq = c.seq) AS s
    WHERE CASE WHEN p_worker IS NULL THEN w.ended_at IS NULL ELSE w.id = p_worker END
      AND NOT s.whole AND NOT (c.job_count = 1 AND s.n > 0)
    ORDER BY c.lane_id, c.seq
$$;
