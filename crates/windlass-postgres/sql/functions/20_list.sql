-- job_record(id): one row of view jobs by its id, without reading the log.
CREATE OR REPLACE FUNCTION {schema}.job_record(p_id bigint) RETURNS SETOF {schema}.jobs
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    f record;
BEGIN
    SELECT * INTO f FROM {schema}.find_job(p_id);
    RETURN QUERY
    SELECT s.id, s.state, s.kind, l.queue, l.priority, s.attempt, s.max_attempts, s.crash_count, s.args,
           s.enqueued_at, s.scheduled_at, s.claimed_at, s.claimed_by, s.finished_at, s.reason,
           nullif(s.attributes, '')::json->>'key', nullif(s.attributes, '')::json->'meta', s.result
    FROM (
        SELECT x.*, NULL::json AS result FROM {schema}.exceptional x WHERE f.place IN ('waiting', 'dead') AND x.id = p_id
        UNION ALL
        SELECT j.id, CASE WHEN f.seq IS NULL THEN 'available' WHEN f.settled_at IS NULL THEN 'running' ELSE 'completed' END,
               j.kind, j.lane_id, (j.attempt + CASE WHEN f.seq IS NULL THEN 0 ELSE 1 END)::smallint,
               j.max_attempts, j.crash_count, j.args, j.enqueued_at,
               NULL, f.claimed_at, f.worker_id, f.settled_at, NULL, j.attributes,
               (SELECT r.result FROM {schema}.result r WHERE r.lane_id = f.lane_id AND r.seq = f.seq AND r.job_id = p_id LIMIT 1)
        FROM {schema}.job j WHERE f.place = 'log' AND j.lane_id = f.lane_id AND j.xid = f.xid AND j.id = p_id
    ) AS s
    JOIN {schema}.lane l ON l.id = s.lane_id;
END $$;

-- list_jobs(...): a page of jobs, newest id first. Each state is read where it lives; completed jobs (and
-- all states together) by windows of ids, growing until the page is full or 200,000 jobs were looked at.
CREATE OR REPLACE FUNCTION {schema}.list_jobs(p_state text, p_queue text, p_kind text, p_before bigint, p_limit integer)
    RETURNS SETOF {schema}.jobs
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_lanes integer[] := ARRAY(SELECT l.id FROM {schema}.lane l WHERE p_queue IS NULL OR l.queue = p_queue);
    v_ids   bigint[] := '{}';
    v_more  bigint[];
    v_high  bigint;
    v_low   bigint;
    v_width bigint := p_limit * 2;
    v_rows  bigint;
    v_seen  bigint := 0;
BEGIN
    SELECT least(coalesce(p_before - 1, 9223372036854775807), q.last_value + s.seqincrement - 1) INTO v_high
        FROM {schema}.job_id_seq q, pg_sequence s WHERE s.seqrelid = '{schema}.job_id_seq'::regclass;
    IF p_state IS NULL OR p_state IN ('scheduled', 'retryable', 'available') THEN
        v_ids := ARRAY(SELECT id FROM {schema}.waiting WHERE id <= v_high AND lane_id = ANY (v_lanes)
            AND (p_kind IS NULL OR kind = p_kind)
            AND (p_state IS NULL OR state = CASE p_state WHEN 'available' THEN 'no_handler' ELSE p_state END)
            ORDER BY id DESC LIMIT p_limit);
    END IF;
    IF p_state IS NULL OR p_state IN ('cancelled', 'discarded') THEN
        v_ids := v_ids || ARRAY(SELECT id FROM {schema}.dead WHERE id <= v_high AND lane_id = ANY (v_lanes)
            AND (p_kind IS NULL OR kind = p_kind) AND (p_state IS NULL OR state = p_state)
            ORDER BY id DESC LIMIT p_limit);
    END IF;
    IF p_state = 'available' THEN
        v_ids := v_ids || ARRAY(SELECT id FROM {schema}.unclaimed WHERE id <= v_high AND lane_id = ANY (v_lanes)
            AND (p_kind IS NULL OR kind = p_kind) ORDER BY id DESC LIMIT p_limit);
    ELSIF p_state = 'running' THEN
        v_ids := v_ids || ARRAY(SELECT j.id FROM {schema}.open_claims(NULL) c
            CROSS JOIN LATERAL {schema}.unsettled_jobs(c.lane_id, c.seq) j
            WHERE j.id <= v_high AND j.lane_id = ANY (v_lanes) AND (p_kind IS NULL OR j.kind = p_kind)
            ORDER BY j.id DESC LIMIT p_limit);
    ELSIF p_state IS NULL OR p_state = 'completed' THEN
        WHILE v_high > 0 AND v_seen < 200000 AND cardinality(v_ids) < p_limit * CASE WHEN p_state IS NULL THEN 3 ELSE 1 END LOOP
            v_low := greatest(v_high - v_width, 0);
            WITH near AS MATERIALIZED (
                SELECT j.id, j.lane_id = ANY (v_lanes) AND (p_kind IS NULL OR j.kind = p_kind) AS fits
                FROM {schema}.job j WHERE j.id > v_low AND j.id <= v_high)
            SELECT (SELECT count(*) FROM near), ARRAY(
                SELECT c.id FROM (SELECT DISTINCT n.id FROM near n WHERE n.fits) AS c, LATERAL {schema}.find_job(c.id) f
                WHERE f.place = 'log' AND (p_state IS NULL OR f.settled_at IS NOT NULL))
            INTO v_rows, v_more;
            v_ids := v_ids || v_more;
            v_seen := v_seen + v_rows;
            v_high := v_low;
            -- Where jobs are dense, windows stay small; gaps are passed in great leaps.
            IF v_rows < 10000 THEN v_width := v_width * 2; END IF;
        END LOOP;
    END IF;
    RETURN QUERY SELECT r.* FROM (
            SELECT DISTINCT i FROM unnest(v_ids) AS i ORDER BY i DESC LIMIT p_limit) AS page,
        LATERAL {schema}.job_record(page.i) r ORDER BY r.id DESC;
END $$;
