-- What a person or a program asks of single jobs and queues.

-- find_job(id): where a job stands now. place: held, dead, log (its newest row), or no row at all.
-- For log rows also the claim that handed it out (seq NULL: not yet) and whether it was settled.
-- A log row whose settlement says "went elsewhere" is history: another row or table has the job.
-- Cost: one BRIN lookup and, per log row found, a binary search over the lane's claims.
CREATE FUNCTION {schema}.find_job(
    p_id bigint, OUT place text, OUT lane_id integer, OUT xid xid8, OUT seq bigint, OUT worker_id integer,
    OUT claimed_at timestamptz, OUT settled_at timestamptz)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    r record;
    c record;
    s record;
BEGIN
    IF EXISTS (SELECT 1 FROM {schema}.held h WHERE h.id = p_id) THEN place := 'held'; RETURN; END IF;
    IF EXISTS (SELECT 1 FROM {schema}.dead d WHERE d.id = p_id) THEN place := 'dead'; RETURN; END IF;
    FOR r IN SELECT j.xid, j.lane_id FROM {schema}.job j WHERE j.id = p_id LOOP
        SELECT * INTO c FROM {schema}.claim_of(r.lane_id, r.xid, p_id);
        IF c.seq IS NULL THEN
            place := 'log'; lane_id := r.lane_id; xid := r.xid;
            seq := NULL; worker_id := NULL; claimed_at := NULL; settled_at := NULL;
            RETURN;
        END IF;
        CONTINUE WHEN c.seq = 0; -- history, like the rows that went with their segment
        SELECT st.completed, st.settled_at INTO s FROM {schema}.settlement st
            WHERE st.lane_id = r.lane_id AND st.seq = c.seq AND (st.ranges IS NULL OR {schema}.in_ranges(p_id, st.ranges))
            ORDER BY st.ranges IS NULL LIMIT 1;
        CONTINUE WHEN s.completed = false;
        place := 'log'; lane_id := r.lane_id; xid := r.xid; seq := c.seq; worker_id := c.worker_id;
        claimed_at := c.claimed_at; settled_at := s.settled_at;
    END LOOP;
END $$;

-- claim_of(lane, xid, id): the claim that handed this log row out, NULLs when none has, seq 0 when that
-- claim was removed since (the job is settled then).
CREATE FUNCTION {schema}.claim_of(
    p_lane integer, p_xid xid8, p_id bigint, OUT seq bigint, OUT worker_id integer, OUT claimed_at timestamptz)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    c      record;
    v_low  bigint;
    v_high bigint;
    v_mid  bigint;
BEGIN
    IF p_xid >= '{direct}' THEN
        seq := p_xid::text::bigint - {direct};
        SELECT k.worker_id, k.claimed_at INTO worker_id, claimed_at FROM {schema}.claim k WHERE k.lane_id = p_lane AND k.seq = claim_of.seq;
        IF NOT FOUND THEN seq := 0; END IF;
        RETURN;
    END IF;
    SELECT * INTO c FROM {schema}.claim k WHERE k.lane_id = p_lane ORDER BY k.seq DESC LIMIT 1;
    IF NOT FOUND OR NOT {schema}.consumed(c.from_snapshot, c.to_snapshot, c.end_xid, c.end_id, p_xid, p_id) THEN RETURN; END IF;
    v_high := c.seq;
    SELECT k.seq INTO v_low FROM {schema}.claim k WHERE k.lane_id = p_lane ORDER BY k.seq LIMIT 1;
    -- The lowest claim whose cursor has the row behind it: consumed() is monotonic in seq.
    WHILE v_low < v_high LOOP
        v_mid := (v_low + v_high) / 2;
        SELECT * INTO c FROM {schema}.claim k WHERE k.lane_id = p_lane AND k.seq <= v_mid ORDER BY k.seq DESC LIMIT 1;
        IF {schema}.consumed(c.from_snapshot, c.to_snapshot, c.end_xid, c.end_id, p_xid, p_id)
            THEN v_high := c.seq; ELSE v_low := v_mid + 1; END IF;
    END LOOP;
    SELECT * INTO c FROM {schema}.claim k WHERE k.lane_id = p_lane AND k.seq = v_high;
    -- Handed out before that claim began: by one that was removed since, so the job was settled.
    IF pg_visible_in_snapshot(p_xid, c.from_snapshot) OR c.job_count = 0
       OR (c.start_xid IS NOT NULL AND pg_visible_in_snapshot(p_xid, c.to_snapshot) AND (p_xid, p_id) <= (c.start_xid, c.start_id)) THEN
        seq := 0;
        RETURN;
    END IF;
    seq := c.seq;
    worker_id := c.worker_id;
    claimed_at := c.claimed_at;
END $$;

-- cancel(id): takes a waiting job out. 'cancelled', 'running' (a worker holds it: left alone),
-- 'finished' or 'not_found'. Holds the lane's lock until the transaction ends, so keep that short.
CREATE FUNCTION {schema}.cancel(id bigint) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    p_id alias for $1;
    f    record;
    v_lane integer;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE 'cancel needs READ COMMITTED, got %', current_setting('transaction_isolation') USING ERRCODE = 'WL006';
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    -- The job can move between held and the log while we look; each place is checked under its lock.
    FOR attempt IN 1..5 LOOP
        WITH gone AS (DELETE FROM {schema}.held h WHERE h.id = p_id RETURNING h.*)
        INSERT INTO {schema}.dead (id, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, reason, kind, args)
            SELECT g.id, g.enqueued_at, g.lane_id, g.attempt, g.max_attempts, g.crash_count, 'cancelled', 'cancelled by request', g.kind, g.args
            FROM gone g;
        IF FOUND THEN RETURN 'cancelled'; END IF;
        SELECT j.lane_id INTO v_lane FROM {schema}.job j WHERE j.id = p_id LIMIT 1;
        IF FOUND THEN PERFORM pg_advisory_xact_lock(hashtext({name} || '.lane'), v_lane); END IF;
        SELECT * INTO f FROM {schema}.find_job(p_id);
        IF f.place IS NULL THEN RETURN 'not_found'; END IF;
        IF f.place = 'dead' OR f.settled_at IS NOT NULL THEN RETURN 'finished'; END IF;
        IF f.seq IS NOT NULL THEN RETURN 'running'; END IF;
        CONTINUE WHEN f.place = 'held' OR f.lane_id IS DISTINCT FROM v_lane;
        INSERT INTO {schema}.skip (job_id, lane_id) VALUES (p_id, f.lane_id);
        INSERT INTO {schema}.dead (id, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, reason, kind, args)
            SELECT j.id, j.enqueued_at, j.lane_id, j.attempt, j.max_attempts, j.crash_count, 'cancelled', 'cancelled by request', j.kind, j.args
            FROM {schema}.job j WHERE j.lane_id = f.lane_id AND j.xid = f.xid AND j.id = p_id;
        RETURN 'cancelled';
    END LOOP;
    RETURN 'running'; -- it kept moving: somebody is working on it
END $$;

-- retry(id): makes a dead, cancelled or retryable job available now. 'retried', 'pending' (it waits for
-- its time, is available or running: left alone), 'completed' or 'not_found'. A dead job gets its attempts anew.
CREATE FUNCTION {schema}.retry(id bigint) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    p_id alias for $1;
    f    record;
    d    record;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    WITH gone AS (DELETE FROM {schema}.held h WHERE h.id = p_id AND h.state = 'retryable' RETURNING h.*)
    INSERT INTO {schema}.job (id, enqueued_at, lane_id, attempt, max_attempts, crash_count, kind, args)
        SELECT g.id, g.enqueued_at, g.lane_id, g.attempt, g.max_attempts, g.crash_count, g.kind, g.args FROM gone g;
    IF FOUND THEN RETURN 'retried'; END IF;
    SELECT * INTO d FROM {schema}.dead x WHERE x.id = p_id;
    IF FOUND THEN
        -- A cancelled job may still stand in the log, to be stepped over: settle that with its lane locked.
        PERFORM pg_advisory_xact_lock(hashtext({name} || '.lane'), d.lane_id);
        DELETE FROM {schema}.dead x WHERE x.id = p_id;
        IF NOT FOUND THEN RETURN 'pending'; END IF;
        DELETE FROM {schema}.skip s WHERE s.job_id = p_id;
        IF FOUND THEN -- its log row was never claimed: it is simply no longer stepped over
            PERFORM pg_notify({name}, '');
            RETURN 'retried';
        END IF;
        INSERT INTO {schema}.job (id, enqueued_at, lane_id, max_attempts, kind, args)
            VALUES (d.id, d.enqueued_at, d.lane_id, d.max_attempts, d.kind, d.args);
        RETURN 'retried';
    END IF;
    SELECT * INTO f FROM {schema}.find_job(p_id);
    RETURN CASE WHEN f.place IS NULL THEN 'not_found' WHEN f.settled_at IS NOT NULL THEN 'completed' ELSE 'pending' END;
END $$;

-- pause(queue), resume(queue): whether the queue exists.
CREATE FUNCTION {schema}.pause(queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO {schema}.queue (name) SELECT l.queue FROM {schema}.lane l WHERE l.queue = $1 LIMIT 1 ON CONFLICT DO NOTHING;
    UPDATE {schema}.queue q SET paused_at = coalesce(q.paused_at, clock_timestamp()) WHERE q.name = $1;
    RETURN FOUND;
END $$;

CREATE FUNCTION {schema}.resume(queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE {schema}.queue q SET paused_at = NULL WHERE q.name = $1;
    IF FOUND THEN PERFORM pg_notify({name}, ''); RETURN true; END IF;
    RETURN EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.queue = $1);
END $$;

-- complete_in(worker, lane, seq, token, id): settles one job in the caller's own transaction: its
-- effects and its completion commit together. Raises when the job is no longer the worker's.
-- Takes no lock that settle waits for: the caller's transaction may stay open for long. A rescue of the
-- worker and the truncation of segments wait for it (the latter 50 ms at a time).
CREATE FUNCTION {schema}.complete_in(p_worker integer, p_lane integer, p_seq bigint, p_token integer, p_id bigint)
    RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_claimed integer;
BEGIN
    PERFORM {schema}.fence(p_worker);
    SELECT job_count INTO v_claimed FROM {schema}.claim
        WHERE lane_id = p_lane AND seq = p_seq AND token = p_token AND worker_id = p_worker;
    IF NOT FOUND OR NOT EXISTS (SELECT 1 FROM {schema}.claim_jobs(p_lane, p_seq) j WHERE j.id = p_id) THEN
        RAISE 'job % is not held by worker %', p_id, p_worker USING ERRCODE = 'WL001';
    END IF;
    IF {schema}.settle_part(p_worker, p_lane, p_seq, v_claimed, 1, ARRAY[p_id, p_id], {schema}.current_segment()) = 1 THEN
        RAISE 'job % is settled already', p_id USING ERRCODE = 'WL001';
    END IF;
END $$;
