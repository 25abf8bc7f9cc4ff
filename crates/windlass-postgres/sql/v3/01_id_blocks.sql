-- Job ids in blocks: each nextval takes 16 ids, of which a batch uses all and a single job the first. Taking an
-- id for each row was 15 % of a bulk enqueue. Ids ascend as before, with more gaps.
-- A program that does not know of it takes a block for each job, which is as correct as before; one that does
-- reads the size of a block where it takes one (take_key, and Texts::take in src/store.rs), so the order of upgrades is free.

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
        v_ids := ARRAY(SELECT id FROM {schema}.held WHERE id <= v_high AND lane_id = ANY (v_lanes)
            AND (p_kind IS NULL OR kind = p_kind)
            AND (p_state IS NULL OR state = CASE p_state WHEN 'available' THEN 'parked' ELSE p_state END)
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

-- It waits for every transaction that took an id, and those that want one wait behind it: so it tries for a
-- short time, often, and gives up in the end.
DO $$
BEGIN
    SET LOCAL lock_timeout = '100ms';
    FOR i IN 1..100 LOOP
        BEGIN
            ALTER SEQUENCE {schema}.job_id_seq INCREMENT BY 16;
            SET LOCAL lock_timeout = DEFAULT;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
    RAISE 'a transaction that enqueued jobs stays open; end it (pg_stat_activity.xact_start says which is old) and migrate again'
        USING ERRCODE = '55P03';
END $$;
