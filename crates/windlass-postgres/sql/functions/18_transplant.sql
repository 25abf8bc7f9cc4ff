-- The move to another cluster: pg_dump, logical replication, blue/green.

-- is_transplanted(): whether rows carry transaction ids that this cluster has not reached: the database
-- came here by pg_dump or logical replication. The cursor arithmetic is void then.
CREATE OR REPLACE FUNCTION {schema}.is_transplanted() RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_sort = off SET enable_bitmapscan = off
AS $$
    SELECT EXISTS (
        SELECT 1 FROM {schema}.lane l
        LEFT JOIN LATERAL (SELECT c.to_snapshot FROM {schema}.claim c WHERE c.lane_id = l.id ORDER BY c.seq DESC LIMIT 1) c ON true
        LEFT JOIN LATERAL (SELECT j.xid FROM {schema}.job j WHERE j.lane_id = l.id AND j.xid < '{direct}'
                           ORDER BY j.xid DESC, j.id DESC LIMIT 1) j ON true
        WHERE pg_snapshot_xmax(c.to_snapshot) > pg_snapshot_xmax(pg_current_snapshot())
           OR j.xid >= pg_snapshot_xmax(pg_current_snapshot()))
$$;

-- rehome(): after a restore into another cluster: every unfinished job becomes available anew, under this
-- cluster's transaction ids; the history of completed jobs is dropped and all workers must register again.
-- Returns how many jobs were kept. Does nothing (NULL) where nothing is transplanted.
-- A row whose heap xmin is its own xid was written by this cluster, so nobody can have worked on it yet.
CREATE OR REPLACE FUNCTION {schema}.rehome() RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_count bigint;
    v_more  bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.rotate'), 0);
    LOCK TABLE {schema}.job, {schema}.claim, {schema}.settlement, {schema}.result IN ACCESS EXCLUSIVE MODE;
    IF NOT {schema}.is_transplanted() THEN RETURN NULL; END IF;
    INSERT INTO {schema}.waiting (id, available_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, kind, args, attributes)
        SELECT j.id, clock_timestamp(), j.enqueued_at, j.lane_id, j.attempt, j.max_attempts, j.crash_count, 'scheduled', j.kind, j.args, j.attributes
        FROM {schema}.cursor k JOIN {schema}.job j ON j.lane_id = k.lane_id
        WHERE j.xid < '{direct}'
          AND (NOT {schema}.consumed(k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id, j.xid, j.id)
               OR j.xmin::text::bigint = j.xid::text::bigint % 4294967296)
          AND NOT EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = j.id)
        ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    INSERT INTO {schema}.waiting (id, available_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, kind, args, attributes)
        SELECT j.id, clock_timestamp(), j.enqueued_at, j.lane_id, j.attempt, j.max_attempts, j.crash_count, 'scheduled', j.kind, j.args, j.attributes
        FROM {schema}.open_claims(NULL) c CROSS JOIN LATERAL {schema}.unsettled_jobs(c.lane_id, c.seq) j
        ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_more = ROW_COUNT;
    UPDATE {schema}.worker SET ended_at = clock_timestamp() WHERE ended_at IS NULL;
    TRUNCATE {schema}.job, {schema}.claim, {schema}.settlement, {schema}.result, {schema}.cancelled_in_log, {schema}.moved_claim;
    UPDATE {schema}.housekeeping SET segment = NULL;
    RETURN v_count + v_more;
END $$;
