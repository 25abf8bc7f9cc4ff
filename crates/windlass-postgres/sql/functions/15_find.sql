-- Where one job is.

-- log_rows(id): the rows of the log with this id, the one that its enqueue wrote and those since, in no order.
-- The former, where it has no entry in job_id of its own, has the same transaction and lane as one of its block of 16 ids that has.
-- Cost: 0.1 ms, two probes of job_id and one of job_lane for each lane of the block and each leaf.
CREATE OR REPLACE FUNCTION {schema}.log_rows(p_id bigint) RETURNS TABLE (xid xid8, lane_id integer)
    LANGUAGE plpgsql STABLE ROWS 2 SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_first    bigint := greatest(p_id, 1) - ((greatest(p_id, 1) - 1) & 15);
    v_original boolean := false;
    r record;
BEGIN
    FOR r IN SELECT j.xid, j.lane_id, j.moved FROM {schema}.job j WHERE j.id = p_id AND (j.moved OR (j.id & 15) = 1 OR j.attributes ^@ ' ') LOOP
        xid := r.xid;
        lane_id := r.lane_id;
        RETURN NEXT;
        v_original := v_original OR NOT r.moved;
    END LOOP;
    IF v_original OR p_id = v_first THEN RETURN; END IF;
    -- Those may have been moved to another segment already.
    FOR r IN SELECT j.xid, j.lane_id FROM {schema}.job j
             WHERE j.id >= v_first AND j.id < p_id AND (j.moved OR (j.id & 15) = 1 OR j.attributes ^@ ' ') AND j.xid < '{direct}' LOOP
        RETURN QUERY SELECT j.xid, j.lane_id FROM {schema}.job j
            WHERE j.lane_id = r.lane_id AND j.xid = r.xid AND j.id = p_id AND NOT j.moved AND NOT j.attributes ^@ ' ';
        IF FOUND THEN RETURN; END IF;
    END LOOP;
END $$;

-- find_job(id): where a job stands now. place: waiting, dead, log (its newest row), or no row at all.
-- For log rows also the claim that handed it out (seq NULL: not yet) and whether it was settled.
-- A log row whose settlement says "went elsewhere" is history: another row or table has the job.
-- Cost: log_rows and, per row that it finds, a search over the lane's claims that begins with the newest. Plans are kept here and in claim_of: made anew at
-- each step, as cancel makes its own, they were two thirds of a cancel.
CREATE OR REPLACE FUNCTION {schema}.find_job(
    p_id bigint, OUT place text, OUT lane_id integer, OUT xid xid8, OUT seq bigint, OUT worker_id integer,
    OUT claimed_at timestamptz, OUT settled_at timestamptz)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    r record;
    c record;
    s record;
BEGIN
    IF EXISTS (SELECT 1 FROM {schema}.waiting h WHERE h.id = p_id) THEN place := 'waiting'; RETURN; END IF;
    IF EXISTS (SELECT 1 FROM {schema}.dead d WHERE d.id = p_id) THEN place := 'dead'; RETURN; END IF;
    FOR r IN SELECT * FROM {schema}.log_rows(p_id) LOOP
        SELECT * INTO c FROM {schema}.claim_of(r.lane_id, r.xid, p_id);
        IF c.seq IS NULL THEN
            -- Nothing but a row to step over: deleted, or cancelled and past its retention, or another row has the job.
            CONTINUE WHEN EXISTS (SELECT 1 FROM {schema}.cancelled_in_log x WHERE x.job_id = p_id AND x.lane_id + 0 = r.lane_id);
            place := 'log'; lane_id := r.lane_id; xid := r.xid;
            seq := NULL; worker_id := NULL; claimed_at := NULL; settled_at := NULL;
            RETURN;
        END IF;
        CONTINUE WHEN c.seq = 0; -- history, like the rows that went with their segment
        SELECT st.completed, st.settled_at INTO s FROM {schema}.settlement_of(r.lane_id, c.seq, p_id) st;
        CONTINUE WHEN s.completed = false;
        place := 'log'; lane_id := r.lane_id; xid := r.xid; seq := c.seq; worker_id := c.worker_id;
        claimed_at := c.claimed_at; settled_at := s.settled_at;
    END LOOP;
END $$;

-- lane_in_log(id): the lane whose lock decides about the job's row in the log, NULL when there is none. The lane of a row
-- that is to be stepped over where the job has no other.
CREATE OR REPLACE FUNCTION {schema}.lane_in_log(p_id bigint) RETURNS integer
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_lanes integer[] := ARRAY(SELECT DISTINCT r.lane_id FROM {schema}.log_rows(p_id) r);
BEGIN
    IF cardinality(v_lanes) < 2 THEN RETURN v_lanes[1]; END IF;
    RETURN coalesce((SELECT f.lane_id FROM {schema}.find_job(p_id) f), v_lanes[1]);
END $$;

-- find_locked(id): as find_job, with the lock that decides about the job's row in the log: where nobody has claimed it the transaction holds it until it
-- ends. What is claimed stays so, whoever has the lane, and needs no lock: a cancel of a running job waits for no claim.
-- place: also 'moved' when the row stands in another lane since; look again. Then, and where the job was claimed meanwhile, the lock is
-- given back: who looks again waits for one lane and holds none, so that no two of them wait for one another.
CREATE OR REPLACE FUNCTION {schema}.find_locked(
    p_id bigint, OUT place text, OUT lane_id integer, OUT xid xid8, OUT seq bigint, OUT worker_id integer,
    OUT claimed_at timestamptz, OUT settled_at timestamptz)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_lane integer;
BEGIN
    SELECT f.* INTO place, lane_id, xid, seq, worker_id, claimed_at, settled_at FROM {schema}.find_job(p_id) f;
    IF place IS DISTINCT FROM 'log' OR seq IS NOT NULL THEN RETURN; END IF;
    v_lane := lane_id;
    BEGIN
        PERFORM pg_advisory_xact_lock(hashtext({name} || '.lane'), v_lane);
        SELECT f.* INTO place, lane_id, xid, seq, worker_id, claimed_at, settled_at FROM {schema}.find_job(p_id) f;
        IF place = 'log' AND seq IS NULL AND lane_id <> v_lane THEN place := 'moved'; END IF;
        -- The lock goes with what this block did; what it found stays.
        IF place IS DISTINCT FROM 'log' OR seq IS NOT NULL THEN RAISE 'not in the log' USING ERRCODE = 'WL098'; END IF;
    EXCEPTION WHEN SQLSTATE 'WL098' THEN NULL;
    END;
END $$;

-- claim_of(lane, xid, id): the claim that handed this log row out, NULLs when none has, seq 0 when that
-- claim was removed since (the job is settled then).
CREATE OR REPLACE FUNCTION {schema}.claim_of(
    p_lane integer, p_xid xid8, p_id bigint, OUT seq bigint, OUT worker_id integer, OUT claimed_at timestamptz)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    h      record; -- the lowest claim known to have the row behind its cursor
    c      record;
    v_low  bigint; -- no claim below this one has
    v_mid  bigint;
    v_step bigint := 1;
BEGIN
    IF p_xid >= '{direct}' THEN
        seq := p_xid::text::bigint - {direct};
        SELECT k.worker_id, k.claimed_at INTO worker_id, claimed_at FROM {schema}.claim k WHERE k.lane_id = p_lane AND k.seq = claim_of.seq;
        IF NOT FOUND THEN seq := 0; END IF;
        RETURN;
    END IF;
    SELECT * INTO h FROM {schema}.claim k WHERE k.lane_id = p_lane ORDER BY k.seq DESC LIMIT 1;
    IF NOT FOUND OR NOT {schema}.consumed(h.from_snapshot, h.to_snapshot, h.end_xid, h.end_id, p_xid, p_id) THEN RETURN; END IF;
    -- The lowest of those: consumed() is monotonic in seq. Whoever asks for a job mostly asks for one that was claimed a short while
    -- ago, so it is looked for from the newest on, in steps that grow, and then between two of them.
    LOOP
        v_low := h.seq - v_step + 1;
        SELECT * INTO c FROM {schema}.claim k WHERE k.lane_id = p_lane AND k.seq < v_low ORDER BY k.seq DESC LIMIT 1;
        EXIT WHEN NOT FOUND OR NOT {schema}.consumed(c.from_snapshot, c.to_snapshot, c.end_xid, c.end_id, p_xid, p_id);
        h := c;
        v_step := v_step * 8;
    END LOOP;
    WHILE v_low < h.seq LOOP
        v_mid := (v_low + h.seq) / 2;
        SELECT * INTO c FROM {schema}.claim k WHERE k.lane_id = p_lane AND k.seq BETWEEN v_low AND v_mid ORDER BY k.seq DESC LIMIT 1;
        IF {schema}.consumed(c.from_snapshot, c.to_snapshot, c.end_xid, c.end_id, p_xid, p_id)
            THEN h := c; ELSE v_low := v_mid + 1; END IF;
    END LOOP;
    -- Handed out before that claim began: by one that was removed since, so the job was settled.
    IF pg_visible_in_snapshot(p_xid, h.from_snapshot) OR h.job_count = 0
       OR (h.start_xid IS NOT NULL AND pg_visible_in_snapshot(p_xid, h.to_snapshot) AND (p_xid, p_id) <= (h.start_xid, h.start_id)) THEN
        seq := 0;
        RETURN;
    END IF;
    seq := h.seq;
    worker_id := h.worker_id;
    claimed_at := h.claimed_at;
END $$;

-- result_of(lane, seq, id): what a completed job returned, if it did.
-- Cost: one probe, and a look at the batches of the claim that end behind the job until one has it. In plpgsql, which keeps its plan: as SQL it was planned
-- for each job, and half of the time of job_record. No SET, for the same reason.
CREATE OR REPLACE FUNCTION {schema}.result_of(p_lane integer, p_seq bigint, p_id bigint) RETURNS json
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN (
        SELECT coalesce(r.result, r.results OPERATOR(pg_catalog.->) (pg_catalog.array_position(r.jobs, p_id) - 1)) FROM {schema}.result r
        WHERE r.lane_id = p_lane AND r.seq = p_seq AND r.job_id >= p_id AND (r.job_id = p_id AND r.jobs IS NULL OR p_id = ANY (r.jobs))
        ORDER BY r.job_id LIMIT 1);
END $$;
