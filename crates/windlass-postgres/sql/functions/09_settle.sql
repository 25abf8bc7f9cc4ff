-- settle(worker, done, other): records what became of jobs, all in the caller's transaction.
--   done:  [{"l": lane, "s": seq, "t": token, "n": count, "r": [lo, hi, ...] or null = the rest}, ...]
--   other: [{"l", "s", "t", "j": job id, "x": xid, "d": disposition, "ms": delay, "e": text, "f": failed, "r": result}, ...]
-- Result: one status per entry, done first: 0 accepted, 1 already settled, 2 refused.
-- Invariants: fenced; a settlement is appended only for a claim of this worker with this token; a job is
-- settled once, whatever is repeated. Append only on the hot tables.
-- Cost: 0.2 ms for a batch of whole claims, whatever their size.
CREATE OR REPLACE FUNCTION {schema}.settle(p_worker integer, p_done jsonb, p_other json DEFAULT NULL) RETURNS smallint[]
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    e         record;
    v_status  smallint[] := '{}';
    v_other   smallint[] := '{}';
    v_segment smallint;
    v_lanes   integer[] := '{}';
    v_seqs    bigint[] := '{}';
    v_counts  integer[] := '{}';
BEGIN
    PERFORM {schema}.fence(p_worker);
    -- A repeated call waits for the one before it, which a lost connection may have left at work.
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.settle'), p_worker);
    v_segment := {schema}.current_segment(); -- after the locks: never older than the claim's
    -- First, so that "the rest" of a claim leaves them out.
    IF p_other IS NOT NULL THEN
        v_other := {schema}.settle_outcomes(p_worker, p_other, v_segment);
    END IF;
    FOR e IN
        SELECT d.l, d.s, d.n, d.r, c.job_count AS claimed,
               (SELECT coalesce(sum(s.job_count), 0) + coalesce(max(c.job_count) FILTER (WHERE s.ranges IS NULL), 0)
                FROM {schema}.settlement s WHERE s.lane_id = d.l AND s.seq = d.s) AS settled
        FROM jsonb_to_recordset(coalesce(p_done, '[]')) AS d(l integer, s bigint, t integer, n integer, r bigint[])
        LEFT JOIN {schema}.claim c ON c.lane_id = d.l AND c.seq = d.s AND c.token = d.t AND c.worker_id = p_worker
    LOOP
        IF e.claimed IS NULL THEN
            v_status := v_status || 2::smallint;
        ELSIF e.claimed = 0 THEN
            v_status := v_status || 1::smallint; -- all that is left of the claim is the lane's cursor
        ELSIF e.r IS NULL AND EXISTS (SELECT 1 FROM unnest(v_lanes, v_seqs) AS u(l, s) WHERE u.l = e.l AND u.s = e.s) THEN
            v_status := v_status || 1::smallint; -- named twice in this call
        ELSIF e.settled = 0 AND e.r IS NULL THEN
            v_status := v_status || 0::smallint; -- the hot case: a whole claim
            v_lanes := v_lanes || e.l;
            v_seqs := v_seqs || e.s;
            v_counts := v_counts || e.claimed;
        ELSE
            v_status := v_status || {schema}.settle_part(p_worker, e.l, e.s, e.claimed, e.n, e.r, v_segment);
        END IF;
    END LOOP;
    IF cardinality(v_seqs) > 0 THEN
        INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed)
            SELECT s, l, p_worker, n, v_segment, true FROM unnest(v_lanes, v_seqs, v_counts) AS u(l, s, n);
    END IF;
    RETURN v_status || v_other;
END $$;

-- settle_part(...): completions that name ranges, or the rest of a partly settled claim. What an earlier
-- call (a lost reply, complete in a user's transaction) has settled is left out. Returns the status.
CREATE OR REPLACE FUNCTION {schema}.settle_part(
    p_worker integer, p_lane integer, p_seq bigint, p_claimed integer, p_count integer, p_ranges bigint[], p_segment smallint)
    RETURNS smallint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s       record;
    v_left  bigint[] := p_ranges;
    v_count integer := p_count;
    v_done  integer := 0;
    v_mixed boolean := false;
BEGIN
    FOR s IN SELECT job_count, ranges FROM {schema}.settlement WHERE lane_id = p_lane AND seq = p_seq LOOP
        v_done := v_done + s.job_count;
        IF s.ranges IS NULL THEN RETURN 1; END IF;
        CONTINUE WHEN p_ranges IS NULL OR NOT {schema}.overlap(s.ranges, v_left);
        IF {schema}.covers(s.ranges, v_left) THEN RETURN 1; END IF;
        v_left := {schema}.without(v_left, s.ranges);
        v_mixed := true;
    END LOOP;
    IF p_ranges IS NULL THEN
        v_count := p_claimed - v_done;
    ELSIF v_mixed THEN
        -- Some of these jobs are settled already: count what is left in the log itself.
        SELECT count(*) INTO v_count FROM {schema}.unsettled_jobs(p_lane, p_seq) j WHERE {schema}.in_ranges(j.id, v_left);
    END IF;
    v_count := least(v_count, p_claimed - v_done);
    IF v_count <= 0 THEN RETURN 1; END IF;
    INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed, ranges)
        VALUES (p_seq, p_lane, p_worker, v_count, p_segment, true, v_left);
    RETURN 0;
END $$;
