-- What people and programs read. The state of a job is derived from the log, never stored.

-- unclaimed: log rows that no claim has handed out, cancelled ones left out.
CREATE VIEW {schema}.unclaimed AS
    SELECT j.* FROM {schema}.cursor k JOIN {schema}.job j ON j.lane_id = k.lane_id
    WHERE j.xid >= pg_snapshot_xmin(k.from_snapshot) AND j.xid < '{direct}'
      AND NOT {schema}.consumed(k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id, j.xid, j.id)
      AND NOT EXISTS (SELECT 1 FROM {schema}.skip s WHERE s.job_id = j.id);

-- exceptional: jobs that have a row of their own outside the log, in the columns that jobs is made of.
CREATE VIEW {schema}.exceptional AS
    SELECT h.id, CASE h.state WHEN 'parked' THEN 'available' ELSE h.state END AS state, h.kind, h.lane_id,
           h.attempt, h.max_attempts, h.crash_count, h.args, h.enqueued_at,
           CASE WHEN h.state <> 'parked' THEN h.available_at END AS scheduled_at,
           NULL::timestamptz AS claimed_at, NULL::integer AS claimed_by, NULL::timestamptz AS finished_at,
           CASE WHEN h.state = 'parked' THEN 'waits for a worker that knows its kind' END AS reason
    FROM {schema}.held h
    UNION ALL
    SELECT d.id, d.state, d.kind, d.lane_id, d.attempt, d.max_attempts, d.crash_count, d.args, d.enqueued_at,
           NULL, NULL, NULL, d.finished_at, d.reason
    FROM {schema}.dead d;

-- jobs: every job that is still stored, with its state. Reads the whole log: for a page of jobs use
-- list_jobs, for one job job_record.
CREATE VIEW {schema}.jobs AS
    SELECT s.id, s.state, s.kind, l.queue, l.priority, s.attempt, s.max_attempts, s.crash_count, s.args,
           s.enqueued_at, s.scheduled_at, s.claimed_at, s.claimed_by, s.finished_at, s.reason
    FROM (
        SELECT * FROM {schema}.exceptional
        UNION ALL
        SELECT u.id, 'available', u.kind, u.lane_id, u.attempt, u.max_attempts, u.crash_count, u.args, u.enqueued_at,
               NULL, NULL, NULL, NULL, NULL
        FROM {schema}.unclaimed u
        UNION ALL
        SELECT j.id, CASE WHEN t.completed THEN 'completed' ELSE 'running' END, j.kind, j.lane_id,
               (j.attempt + 1)::smallint, j.max_attempts, j.crash_count, j.args, j.enqueued_at,
               NULL, c.claimed_at, c.worker_id, t.settled_at, NULL
        FROM {schema}.claim c
        CROSS JOIN LATERAL {schema}.claim_jobs(c.lane_id, c.seq) j
        LEFT JOIN LATERAL (
            SELECT s.completed, s.settled_at FROM {schema}.settlement s
            WHERE s.lane_id = c.lane_id AND s.seq = c.seq AND (s.ranges IS NULL OR {schema}.in_ranges(j.id, s.ranges))
            ORDER BY s.ranges IS NULL LIMIT 1) AS t ON true
        WHERE c.job_count > 0 AND coalesce(t.completed, true)
    ) AS s
    JOIN {schema}.lane l ON l.id = s.lane_id;

-- queues: counts per queue, of this moment; finished jobs within retention.
CREATE VIEW {schema}.queues AS
    SELECT n.name, q.paused_at IS NOT NULL AS paused,
           coalesce(sum(a.available), 0)::bigint AS available, coalesce(sum(r.running), 0)::bigint AS running,
           coalesce(sum(h.scheduled), 0)::bigint AS scheduled, coalesce(sum(h.retryable), 0)::bigint AS retryable,
           coalesce(sum(s.completed), 0)::bigint AS completed,
           coalesce(sum(d.cancelled), 0)::bigint AS cancelled, coalesce(sum(d.discarded), 0)::bigint AS discarded
    FROM (SELECT name FROM {schema}.queue UNION SELECT queue FROM {schema}.lane) AS n
    LEFT JOIN {schema}.queue q ON q.name = n.name
    LEFT JOIN {schema}.lane l ON l.queue = n.name
    LEFT JOIN (SELECT lane_id, sum(n) AS available FROM (
                   SELECT lane_id, count(*) AS n FROM {schema}.unclaimed GROUP BY lane_id
                   UNION ALL SELECT lane_id, count(*) FROM {schema}.held WHERE state = 'parked' GROUP BY lane_id) AS x
               GROUP BY lane_id) AS a ON a.lane_id = l.id
    LEFT JOIN (SELECT lane_id, sum(open_count) AS running FROM {schema}.open_claims(NULL) GROUP BY lane_id) AS r ON r.lane_id = l.id
    LEFT JOIN (SELECT lane_id, count(*) FILTER (WHERE state = 'scheduled') AS scheduled,
                      count(*) FILTER (WHERE state = 'retryable') AS retryable
               FROM {schema}.held GROUP BY lane_id) AS h ON h.lane_id = l.id
    LEFT JOIN (SELECT lane_id, sum(job_count) AS completed FROM {schema}.settlement WHERE completed GROUP BY lane_id) AS s ON s.lane_id = l.id
    LEFT JOIN (SELECT lane_id, count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
                      count(*) FILTER (WHERE state = 'discarded') AS discarded
               FROM {schema}.dead GROUP BY lane_id) AS d ON d.lane_id = l.id
    GROUP BY n.name, q.paused_at;

-- job_record(id): one row of view jobs by its id, without reading the log.
CREATE FUNCTION {schema}.job_record(p_id bigint) RETURNS SETOF {schema}.jobs
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    f record;
BEGIN
    SELECT * INTO f FROM {schema}.find_job(p_id);
    RETURN QUERY
    SELECT s.id, s.state, s.kind, l.queue, l.priority, s.attempt, s.max_attempts, s.crash_count, s.args,
           s.enqueued_at, s.scheduled_at, s.claimed_at, s.claimed_by, s.finished_at, s.reason
    FROM (
        SELECT x.* FROM {schema}.exceptional x WHERE f.place IN ('held', 'dead') AND x.id = p_id
        UNION ALL
        SELECT j.id, CASE WHEN f.seq IS NULL THEN 'available' WHEN f.settled_at IS NULL THEN 'running' ELSE 'completed' END,
               j.kind, j.lane_id, (j.attempt + CASE WHEN f.seq IS NULL THEN 0 ELSE 1 END)::smallint,
               j.max_attempts, j.crash_count, j.args, j.enqueued_at,
               NULL, f.claimed_at, f.worker_id, f.settled_at, NULL
        FROM {schema}.job j WHERE f.place = 'log' AND j.lane_id = f.lane_id AND j.xid = f.xid AND j.id = p_id
    ) AS s
    JOIN {schema}.lane l ON l.id = s.lane_id;
END $$;

-- list_jobs(...): a page of jobs, newest id first. Each state is read where it lives; completed jobs (and
-- all states together) by windows of ids, growing until the page is full or 200,000 ids were looked at.
CREATE FUNCTION {schema}.list_jobs(p_state text, p_queue text, p_kind text, p_before bigint, p_limit integer)
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
    v_seen  bigint := 0;
BEGIN
    SELECT least(coalesce(p_before - 1, 9223372036854775807), last_value) INTO v_high FROM {schema}.job_id_seq;
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
            SELECT coalesce(array_agg(c.id), '{}') INTO v_more FROM (
                SELECT DISTINCT j.id FROM {schema}.job j WHERE j.id > v_low AND j.id <= v_high
                AND j.lane_id = ANY (v_lanes) AND (p_kind IS NULL OR j.kind = p_kind)) AS c,
                LATERAL {schema}.find_job(c.id) f
                WHERE f.place = 'log' AND (p_state IS NULL OR f.settled_at IS NOT NULL);
            v_ids := v_ids || v_more;
            v_seen := v_seen + v_width;
            v_high := v_low;
            v_width := v_width * 2;
        END LOOP;
    END IF;
    RETURN QUERY SELECT r.* FROM (
            SELECT DISTINCT i FROM unnest(v_ids) AS i ORDER BY i DESC LIMIT p_limit) AS page,
        LATERAL {schema}.job_record(page.i) r ORDER BY r.id DESC;
END $$;

-- Nobody may call or read anything who was not granted it.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
