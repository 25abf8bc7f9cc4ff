-- The ring of segments: what is past retention goes by TRUNCATE.

-- current_segment(): the segment that is written now.
CREATE OR REPLACE FUNCTION {schema}.current_segment() RETURNS smallint
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS 'SELECT segment FROM {schema}.ring';

-- Rows that name no segment go to the current one. The table is older than the function, so it says so here.
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
                   WHERE d.adrelid = '{schema}.job'::regclass AND a.attname = 'segment') THEN
        ALTER TABLE ONLY {schema}.job ALTER COLUMN segment SET DEFAULT {schema}.current_segment();
    END IF;
END $$;

-- cursor: per lane, what has been handed out (see table claim). A lane without claims: nothing.
CREATE OR REPLACE VIEW {schema}.cursor AS
    SELECT l.id AS lane_id, coalesce(c.from_snapshot, '4:4:') AS from_snapshot,
           coalesce(c.to_snapshot, '4:4:') AS to_snapshot, c.end_xid, c.end_id
    FROM {schema}.lane l LEFT JOIN LATERAL (
        SELECT * FROM {schema}.claim c WHERE c.lane_id = l.id ORDER BY c.seq DESC LIMIT 1) AS c ON true;

-- empty_segment(segment, most): removes everything of one segment by TRUNCATE. What is not finished there
-- (jobs that nobody has claimed, running claims) and each lane's newest claim, the cursor, are copied into
-- the current segment first, xid and id unchanged, so that every position stays true.
-- Gives up (returns NULL, changes nothing) when a lock is not to be had within 50 ms or more than `most`
-- jobs would have to be copied. Otherwise returns how many were.
-- Invariant: alone with the log, under the exclusive rotate lock; only the oldest segment that is not
-- empty may be emptied, because settlements never are older than their claim.
CREATE OR REPLACE FUNCTION {schema}.empty_segment(p_segment smallint, p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET lock_timeout = '50ms'
AS $$
DECLARE
    v_current smallint := {schema}.current_segment();
    v_count   bigint;
    v_more    bigint;
    c         record;
BEGIN
    IF p_segment = v_current THEN RAISE 'segment % is the current one', p_segment USING ERRCODE = 'WL006'; END IF;
    BEGIN
        PERFORM pg_advisory_xact_lock(hashtext({name} || '.rotate'), 0);
        EXECUTE format('LOCK TABLE {schema}.job_%s, {schema}.claim_%s, {schema}.settlement_%s, {schema}.result_%s IN ACCESS EXCLUSIVE MODE',
                       p_segment, p_segment, p_segment, p_segment);
    EXCEPTION WHEN lock_not_available THEN
        RETURN NULL;
    END;

    SELECT count(*) INTO v_count FROM (
        SELECT 1 FROM {schema}.cursor k JOIN {schema}.job j ON j.lane_id = k.lane_id
        WHERE j.segment = p_segment AND j.xid >= pg_snapshot_xmin(k.from_snapshot) AND j.xid < '{direct}'
          AND NOT {schema}.consumed(k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id, j.xid, j.id)
        LIMIT p_most + 1) AS unclaimed;
    IF v_count > p_most THEN RETURN NULL; END IF;

    -- Unclaimed jobs; a cancelled one among them simply goes, with its entry in cancelled_in_log.
    WITH unclaimed AS MATERIALIZED (
        SELECT j.* FROM {schema}.cursor k JOIN {schema}.job j ON j.lane_id = k.lane_id
        WHERE j.segment = p_segment AND j.xid >= pg_snapshot_xmin(k.from_snapshot) AND j.xid < '{direct}'
          AND NOT {schema}.consumed(k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id, j.xid, j.id)
    ), cancelled AS (
        DELETE FROM {schema}.cancelled_in_log s WHERE s.job_id IN (SELECT id FROM unclaimed) RETURNING s.job_id
    )
    INSERT INTO {schema}.job (xid, id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
        SELECT xid, id, enqueued_at, lane_id, v_current, attempt, max_attempts, crash_count, true, kind, args, attributes
        FROM unclaimed WHERE id NOT IN (SELECT job_id FROM cancelled);
    GET DIAGNOSTICS v_count = ROW_COUNT;

    -- Running jobs, their claims and what is settled of those.
    FOR c IN SELECT * FROM {schema}.open_claims(NULL) LOOP
        CONTINUE WHEN NOT EXISTS (SELECT 1 FROM {schema}.unsettled_jobs(c.lane_id, c.seq));
        INSERT INTO {schema}.job (xid, id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
            SELECT xid, id, enqueued_at, lane_id, v_current, attempt, max_attempts, crash_count, true, kind, args, attributes
            FROM {schema}.unsettled_jobs(c.lane_id, c.seq) WHERE segment = p_segment;
        GET DIAGNOSTICS v_more = ROW_COUNT;
        v_count := v_count + v_more;
        INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, claimed_at, lane_id, token, worker_id,
                                    job_count, segment, from_snapshot, to_snapshot, direct)
            SELECT seq, start_xid, start_id, end_xid, end_id, worker_call, claimed_at, lane_id, token, worker_id,
                   job_count, v_current, from_snapshot, to_snapshot, direct
            FROM {schema}.claim k WHERE k.lane_id = c.lane_id AND k.seq = c.seq AND k.segment = p_segment;
        INSERT INTO {schema}.settlement (seq, settled_at, lane_id, worker_id, job_count, segment, completed, low_id, high_id)
            SELECT seq, settled_at, lane_id, worker_id, job_count, v_current, completed, low_id, high_id
            FROM {schema}.settlement s WHERE s.lane_id = c.lane_id AND s.seq = c.seq AND s.segment = p_segment;
    END LOOP;

    -- The cursors. Their jobs are settled, so they come over with none.
    INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, claimed_at, lane_id, token, worker_id,
                                job_count, segment, from_snapshot, to_snapshot)
        SELECT k.seq, k.start_xid, k.start_id, k.end_xid, k.end_id, k.worker_call, k.claimed_at, k.lane_id, k.token, k.worker_id,
               0, v_current, k.from_snapshot, k.to_snapshot
        FROM {schema}.lane n CROSS JOIN LATERAL (
            SELECT * FROM {schema}.claim x WHERE x.lane_id = n.id ORDER BY x.seq DESC, x.segment = p_segment LIMIT 1) AS k
        WHERE k.segment = p_segment;

    EXECUTE format('TRUNCATE {schema}.job_%s, {schema}.claim_%s, {schema}.settlement_%s, {schema}.result_%s',
                   p_segment, p_segment, p_segment, p_segment);
    RETURN v_count;
END $$;

-- segment_bytes(segment): the size of its leaves; 0 only when TRUNCATE left them empty.
CREATE OR REPLACE FUNCTION {schema}.segment_bytes(p_segment integer) RETURNS bigint
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT sum(pg_relation_size(format('{schema}.%s_%s', t, p_segment)::regclass))::bigint
    FROM unnest(ARRAY['job', 'claim', 'settlement', 'result']) AS t
$$;

-- maintain(...): one round of housekeeping; cheap when there is nothing to do. Retention counts from when
-- a segment was closed, so completed jobs stay readable for at least that long after they were enqueued
-- and at most two segments longer.
CREATE OR REPLACE FUNCTION {schema}.maintain(
    OUT rotated boolean, OUT truncated integer, OUT rehomed bigint, OUT removed_dead bigint)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_ring   {schema}.ring;
    v_next   smallint;
    v_copied bigint;
    v_set    {schema}.setting;
BEGIN
    SELECT * INTO v_set FROM {schema}.setting;
    rotated := false;
    truncated := 0;
    rehomed := 0;
    SELECT * INTO v_ring FROM {schema}.ring FOR UPDATE;
    FOR i IN 1..3 LOOP -- from the oldest on, and no further than the first that must stay
        v_next := (v_ring.segment + i) % 4;
        CONTINUE WHEN {schema}.segment_bytes(v_next) = 0;
        EXIT WHEN v_ring.closed_at[v_next + 1] + v_set.retention > clock_timestamp();
        v_copied := {schema}.empty_segment(v_next, 100000);
        EXIT WHEN v_copied IS NULL;
        truncated := truncated + 1;
        rehomed := rehomed + v_copied;
    END LOOP;

    v_next := (v_ring.segment + 1) % 4;
    IF {schema}.segment_bytes(v_next) = 0 AND {schema}.segment_bytes(v_ring.segment) > 0
       AND ({schema}.segment_bytes(v_ring.segment) >= v_set.segment_bytes
            OR v_ring.opened_at + v_set.retention / 2 <= clock_timestamp()) THEN
        v_ring.closed_at[v_ring.segment + 1] := clock_timestamp();
        UPDATE {schema}.ring SET segment = v_next, opened_at = clock_timestamp(), closed_at = v_ring.closed_at;
        rotated := true;
    END IF;

    WITH old AS (SELECT id FROM {schema}.dead WHERE finished_at < clock_timestamp() - v_set.dead_retention
                 ORDER BY finished_at LIMIT 10000),
         gone AS (DELETE FROM {schema}.dead d USING old WHERE d.id = old.id
                  AND NOT EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = d.id) RETURNING 1)
    SELECT count(*) INTO removed_dead FROM gone;
    DELETE FROM {schema}.attempt_error e WHERE e.ctid = ANY (ARRAY(
        SELECT x.ctid FROM {schema}.attempt_error x
        WHERE x.at < clock_timestamp() - greatest(v_set.retention, v_set.dead_retention)
          AND NOT EXISTS (SELECT 1 FROM {schema}.waiting h WHERE h.id = x.job_id) LIMIT 10000));
    DELETE FROM {schema}.worker w WHERE w.ended_at < clock_timestamp() - greatest(v_set.retention, '1 hour');
END $$;

-- summarize(): lets lookups by id skip what was appended since the last round. Needs ownership.
-- Of the segment that is written only ranges (of 64 pages, see job_id) that are full, newest first, up to one that was done
-- before: an insert into a range that is summarized changes the index, and writes that to the WAL.
CREATE OR REPLACE FUNCTION {schema}.summarize() RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    i       record;
    v_block bigint;
BEGIN
    FOR i IN SELECT x.indexrelid, x.indrelid, x.indrelid = format('{schema}.job_%s', {schema}.current_segment())::regclass AS is_current
        FROM pg_inherits h JOIN pg_index x ON x.indrelid = h.inhrelid JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_am a ON a.oid = c.relam
        WHERE h.inhparent = '{schema}.job'::regclass AND a.amname = 'brin'
    LOOP
        IF NOT i.is_current THEN
            PERFORM brin_summarize_new_values(i.indexrelid);
            CONTINUE;
        END IF;
        v_block := pg_relation_size(i.indrelid) / current_setting('block_size')::integer / 64 * 64 - 64;
        WHILE v_block >= 0 AND brin_summarize_range(i.indexrelid, v_block) > 0 LOOP
            v_block := v_block - 64;
        END LOOP;
    END LOOP;
END $$;
