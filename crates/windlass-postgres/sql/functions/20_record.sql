-- Jobs as people and programs look at them, by their ids.

-- records_at(ids, places, ...): the rows of view jobs of jobs that stand there, as find_job says of each.
-- Cost: two probes for each.
CREATE OR REPLACE FUNCTION {schema}.records_at(
    p_ids bigint[], p_places text[], p_lanes integer[], p_xids xid8[], p_seqs bigint[], p_workers integer[], p_claimed timestamptz[], p_settled timestamptz[])
    RETURNS SETOF {schema}.jobs LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET max_parallel_workers_per_gather = 0
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    RETURN QUERY
    WITH found AS (
        SELECT * FROM unnest(p_ids, p_places, p_lanes, p_xids, p_seqs, p_workers, p_claimed, p_settled)
            AS f(id, place, lane_id, xid, seq, worker_id, claimed_at, settled_at))
    SELECT s.id, s.state, s.kind, l.queue, l.priority, s.attempt, s.max_attempts, s.crash_count, s.args,
           s.enqueued_at, s.scheduled_at, s.claimed_at, s.claimed_by, s.finished_at, s.reason,
           nullif(s.attributes, '')::json->>'key', nullif(s.attributes, '')::json->'meta', s.result,
           (nullif(s.attributes, '')::json->>'expires_at')::timestamptz, {schema}.tags_of(s.attributes),
           nullif(s.attributes, '')::json
    FROM (
        SELECT x.*, NULL::json AS result FROM found f
            CROSS JOIN LATERAL (SELECT x.* FROM {schema}.exceptional x WHERE x.id = f.id OFFSET 0) AS x WHERE f.place IN ('waiting', 'dead')
        UNION ALL
        SELECT j.id, CASE WHEN f.seq IS NULL THEN 'available' WHEN f.settled_at IS NULL THEN 'running' ELSE 'completed' END,
               j.kind, j.lane_id, (j.attempt + CASE WHEN f.seq IS NULL THEN 0 ELSE 1 END)::smallint,
               j.max_attempts, j.crash_count, j.args, j.enqueued_at,
               NULL, f.claimed_at, f.worker_id, f.settled_at, NULL, j.attributes,
               {schema}.result_of(f.lane_id, f.seq, f.id)
        FROM found f CROSS JOIN LATERAL (
            SELECT j.* FROM {schema}.job j WHERE j.lane_id = f.lane_id AND j.xid = f.xid AND j.id = f.id OFFSET 0) AS j WHERE f.place = 'log'
    ) AS s
    -- Lane by lane of those: not the other way round, where statistics say that there are no lanes.
    CROSS JOIN LATERAL (SELECT l.queue, l.priority FROM {schema}.lane l WHERE l.id = s.lane_id OFFSET 0) AS l;
END $$;

-- job_record(id): one row of view jobs by its id, without reading the log.
-- Cost: find_job and two probes.
CREATE OR REPLACE FUNCTION {schema}.job_record(p_id bigint) RETURNS SETOF {schema}.jobs
    LANGUAGE plpgsql STABLE ROWS 1 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    f record;
BEGIN
    SELECT * INTO f FROM {schema}.find_job(p_id);
    RETURN QUERY SELECT * FROM {schema}.records_at(
        ARRAY[p_id], ARRAY[f.place], ARRAY[f.lane_id], ARRAY[f.xid], ARRAY[f.seq], ARRAY[f.worker_id], ARRAY[f.claimed_at], ARRAY[f.settled_at]);
END $$;

-- ended_jobs(ids): of each of these jobs that has ended its row of view jobs, and `asked` its id; of each that is unknown `asked` alone.
-- Asked again and again while somebody waits for them. Cost: find_jobs, and two probes for each that has ended.
CREATE OR REPLACE FUNCTION {schema}.ended_jobs(p_ids bigint[]) RETURNS TABLE (job {schema}.jobs, asked bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
DECLARE
    f record;
BEGIN
    SELECT array_agg(j.id) AS known, array_agg(j.id) FILTER (WHERE j.ended) AS ids, array_agg(j.place) FILTER (WHERE j.ended) AS places,
           array_agg(j.lane_id) FILTER (WHERE j.ended) AS lanes, array_agg(j.xid) FILTER (WHERE j.ended) AS xids,
           array_agg(j.seq) FILTER (WHERE j.ended) AS seqs, array_agg(j.worker_id) FILTER (WHERE j.ended) AS workers,
           array_agg(j.claimed_at) FILTER (WHERE j.ended) AS claimed, array_agg(j.settled_at) FILTER (WHERE j.ended) AS settled
        INTO f FROM (
            SELECT j.*, j.place = 'dead' OR j.settled_at IS NOT NULL AS ended
            FROM (SELECT DISTINCT ON (j.id) j.* FROM {schema}.find_jobs(p_ids) j ORDER BY j.id, j.seq IS NULL DESC) AS j) AS j;
    RETURN QUERY SELECT r, r.id FROM {schema}.records_at(f.ids, f.places, f.lanes, f.xids, f.seqs, f.workers, f.claimed, f.settled) r;
    RETURN QUERY SELECT NULL::{schema}.jobs, u FROM unnest(p_ids) AS u WHERE (u <> ALL (f.known)) IS NOT FALSE;
END $$;
