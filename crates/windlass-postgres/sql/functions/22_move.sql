-- Emptying a segment, first part: what is not finished moves to the current segment, xid and id unchanged, so
-- that every position stays true.
--
-- Why this needs no lock: a row is deleted and inserted in one transaction, so each snapshot sees it in one place,
-- and which segment a row sits in matters to nobody. Moving a row that was claimed or settled meanwhile does no
-- harm. Only these functions delete from the log, and only from a segment that will be truncated next. That nothing
-- was left behind is proved later, by still_needed.

-- segment_lanes(segment): the lanes that have jobs there. Cost: one index probe for each.
CREATE OR REPLACE FUNCTION {schema}.segment_lanes(p_segment smallint) RETURNS SETOF integer
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    v_lane integer := -2147483648;
BEGIN
    LOOP
        SELECT j.lane_id INTO v_lane FROM {schema}.job j
            WHERE j.segment = p_segment AND j.lane_id > v_lane ORDER BY j.lane_id LIMIT 1;
        EXIT WHEN NOT FOUND;
        RETURN NEXT v_lane;
    END LOOP;
END $$;

-- adopt_lanes(segment): jobs whose lane is not there would never be claimed and go with the segment. Their lane is
-- made again, under a queue name that tells them apart. Cannot happen but by a write that hung for a day (see
-- forget_lanes) or a failover that lost the commit that made a lane. Returns how many lanes.
CREATE OR REPLACE FUNCTION {schema}.adopt_lanes(p_segment smallint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_count bigint;
BEGIN
    INSERT INTO {schema}.lane (id, queue, priority) OVERRIDING SYSTEM VALUE
        SELECT s, 'lost.lane.' || s, 0 FROM {schema}.segment_lanes(p_segment) s
        WHERE NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id = s) ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count > 0 THEN RAISE WARNING 'made % lanes again that were not there, as queues lost.lane.*', v_count; END IF;
    RETURN v_count;
END $$;

-- move_jobs(segment, lane, xid, id, most): looks at the next `most` jobs behind this position, fewer where their args have
-- more than 32 MiB, moves those that nobody has claimed, drops the cancelled among them with their entries in
-- cancelled_in_log; of serial keys it tells that, as claims do that step over them. Returns how many moved and the position that it came to; a NULL lane: there are no more.
-- Cost: linear in `most`, and two index probes for each lane behind the position.
CREATE OR REPLACE FUNCTION {schema}.move_jobs(
    p_segment smallint, INOUT p_lane integer, INOUT p_xid xid8, INOUT p_id bigint, p_most integer, OUT moved bigint)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off
AS $$
DECLARE
    v_places tid[];
    v_xids   xid8[];
    v_lane   integer;
    v_told   bigint;
BEGIN
    WITH near AS MATERIALIZED (
        SELECT j.place, k.lane_id, j.xid, j.id, j.bytes,
               {schema}.consumed(k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id, j.xid, j.id) AS consumed
        FROM (SELECT c.*, c.lane_id = p_lane AND p_xid >= pg_snapshot_xmin(c.from_snapshot) AS begun
              FROM {schema}.cursor c WHERE c.lane_id >= p_lane ORDER BY c.lane_id) AS k
        CROSS JOIN LATERAL (
            SELECT x.ctid AS place, x.xid, x.id, pg_column_size(x.args) AS bytes FROM {schema}.job x
            WHERE x.segment = p_segment AND x.lane_id = k.lane_id AND x.xid < '{direct}'
              AND (x.xid, x.id) > (CASE WHEN k.begun THEN p_xid ELSE pg_snapshot_xmin(k.from_snapshot) END,
                                   CASE WHEN k.begun THEN p_id ELSE 0 END)
            ORDER BY x.xid, x.id LIMIT p_most) AS j
        LIMIT p_most
    ), summed AS (
        SELECT n.*, sum(n.bytes) FILTER (WHERE NOT n.consumed) OVER (
                   ORDER BY n.lane_id, n.xid, n.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM near n
    ), step AS MATERIALIZED (SELECT s.* FROM summed s WHERE coalesce(s.before, 0) < 33554432)
    SELECT ARRAY(SELECT s.place FROM step s WHERE NOT s.consumed), ARRAY(SELECT DISTINCT s.xid FROM step s WHERE NOT s.consumed), l.lane_id, l.xid, l.id
        INTO v_places, v_xids, p_lane, p_xid, p_id
        FROM (SELECT 1) AS one
        LEFT JOIN (SELECT s.* FROM step s ORDER BY s.lane_id DESC, s.xid DESC, s.id DESC LIMIT 1) AS l ON true;
    moved := 0;
    IF cardinality(v_places) = 0 THEN RETURN; END IF;

    IF EXISTS (SELECT 1 FROM {schema}.cancelled_in_log) THEN
        -- With its lane locked nobody claims a job, cancels it or takes that back. A busy lane's jobs just move; as do those of lanes beyond
        -- 500, because each takes a place in the server's table of locks.
        FOR v_lane IN SELECT DISTINCT j.lane_id FROM {schema}.job j
                      WHERE j.segment = p_segment AND j.ctid = ANY (v_places)
                        AND EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = j.id AND s.lane_id + 0 = j.lane_id) LIMIT 500 LOOP
            CONTINUE WHEN NOT pg_try_advisory_xact_lock(hashtext({name} || '.lane'), v_lane);
            WITH gone AS (
                DELETE FROM {schema}.job j USING {schema}.cursor k
                WHERE j.segment = p_segment AND j.ctid = ANY (v_places) AND j.lane_id = v_lane AND k.lane_id = v_lane
                  AND EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = j.id AND s.lane_id + 0 = j.lane_id)
                  AND NOT {schema}.consumed(k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id, j.xid, j.id)
                  -- Others of its block are found by it (log_rows): it moves with them, and goes in the next turn.
                  AND NOT EXISTS (SELECT 1 FROM {schema}.job n WHERE ((j.id & 15) = 1 OR j.attributes ^@ ' ') AND NOT j.moved
                                  AND n.lane_id = j.lane_id AND n.xid = j.xid AND n.id > j.id AND n.id <= ((j.id - 1) | 15) + 1)
                RETURNING j.id, j.attributes
            ), passed AS (DELETE FROM {schema}.cancelled_in_log s USING gone g WHERE s.job_id = g.id AND s.lane_id + 0 = v_lane)
            -- Of those that were begun nobody has told that they are over.
            SELECT count({schema}.tell_key(g.id, v_lane, g.attributes, false)) INTO v_told FROM gone g
                WHERE strpos(g.attributes, '"key"') > 0 AND EXISTS (
                    SELECT 1 FROM {schema}.key_room h WHERE h.queue = (SELECT l.queue FROM {schema}.lane l WHERE l.id = v_lane)
                      AND h.key = {schema}.key_of(g.attributes) AND g.id = ANY (h.begun));
        END LOOP;
    END IF;

    WITH gone AS (DELETE FROM {schema}.job j WHERE j.segment = p_segment AND j.ctid = ANY (v_places) RETURNING j.*)
    INSERT INTO {schema}.job (xid, id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
        SELECT xid, id, enqueued_at, lane_id, {schema}.current_segment(), attempt, max_attempts, crash_count, true, kind, args, attributes
        FROM gone g ORDER BY g.lane_id, g.xid, g.id;
    GET DIAGNOSTICS moved = ROW_COUNT;
    -- That their enqueue wrote them cannot be told from now on. Nearly always forget_events was told of their segment before.
    PERFORM {schema}.forget_events(f.xid) FROM (
        SELECT x.xid FROM {schema}.event_log e, unnest(v_xids) AS x(xid)
        WHERE NOT pg_visible_in_snapshot(x.xid, e.kept_from) ORDER BY x.xid DESC LIMIT 1) AS f;
END $$;

-- move_claims(segment, most): moves running jobs and their claims, until about `most` jobs or 32 MiB of args have moved. Returns
-- how many; none: there are no more. Each moved claim is noted in moved_claim.
-- Cost: a look at the jobs of each open claim.
CREATE OR REPLACE FUNCTION {schema}.move_claims(p_segment smallint, p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_current smallint := {schema}.current_segment();
    v_moved   bigint := 0;
    v_count   bigint;
    v_here    bigint;
    v_bytes   bigint := 0;
    c         record;
BEGIN
    FOR c IN SELECT o.lane_id, o.seq FROM {schema}.open_claims(NULL) o LOOP
        EXIT WHEN v_moved >= p_most OR v_bytes >= 33554432;
        SELECT count(*), count(*) FILTER (WHERE j.segment = p_segment) INTO v_count, v_here
            FROM {schema}.unsettled_jobs(c.lane_id, c.seq) j;
        CONTINUE WHEN v_count = 0;
        IF v_here > 0 THEN
            WITH gone AS (
                DELETE FROM {schema}.job j USING {schema}.unsettled_jobs(c.lane_id, c.seq) u
                WHERE u.segment = p_segment AND j.segment = p_segment
                  AND j.lane_id = u.lane_id AND j.xid = u.xid AND j.id = u.id RETURNING j.*
            ), put AS (
                INSERT INTO {schema}.job (xid, id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
                    SELECT xid, id, enqueued_at, lane_id, v_current, attempt, max_attempts, crash_count, true, kind, args, attributes
                    FROM gone g ORDER BY g.xid, g.id
                RETURNING pg_column_size(args) AS bytes)
            SELECT v_bytes + coalesce(sum(p.bytes), 0) INTO v_bytes FROM put p;
        END IF;
        WITH gone AS (
            DELETE FROM {schema}.claim k WHERE k.lane_id = c.lane_id AND k.seq = c.seq AND k.segment = p_segment RETURNING k.*
        ), noted AS (
            INSERT INTO {schema}.moved_claim (lane_id, seq) SELECT g.lane_id, g.seq FROM gone g ON CONFLICT DO NOTHING)
        INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, claimed_at, lane_id, token, worker_id,
                                    job_count, segment, from_snapshot, to_snapshot, direct, event_pos, event_late)
            SELECT seq, start_xid, start_id, end_xid, end_id, worker_call, claimed_at, lane_id, token, worker_id,
                   job_count, v_current, from_snapshot, to_snapshot, direct, event_pos, event_late FROM gone;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        v_moved := v_moved + greatest(v_here, v_count);
    END LOOP;
    RETURN v_moved;
END $$;

-- move_settlements(segment): what is settled of moved claims, with results. A claim must never outlive one of its
-- settlements: it would be open again. Settlements of other claims are never in an older segment than the claim.
-- A transaction that settles (complete_in may stay open for long) may have chosen its segment before the claim moved,
-- so this goes by moved_claim and not by what is open now.
CREATE OR REPLACE FUNCTION {schema}.move_settlements(p_segment smallint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_current smallint := {schema}.current_segment();
    v_count   bigint;
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.settlement s USING {schema}.moved_claim m
        WHERE s.segment = p_segment AND s.lane_id = m.lane_id AND s.seq = m.seq AND NOT EXISTS (
            SELECT 1 FROM {schema}.claim k WHERE k.segment = p_segment AND k.lane_id = m.lane_id AND k.seq = m.seq)
        RETURNING s.*)
    INSERT INTO {schema}.settlement (seq, settled_at, lane_id, worker_id, job_count, segment, completed, low_id, high_id, event_xid)
        SELECT seq, settled_at, lane_id, worker_id, job_count, v_current, completed, low_id, high_id, event_xid FROM gone;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    WITH gone AS (
        DELETE FROM {schema}.result r USING {schema}.moved_claim m
        WHERE r.segment = p_segment AND r.lane_id = m.lane_id AND r.seq = m.seq AND NOT EXISTS (
            SELECT 1 FROM {schema}.claim k WHERE k.segment = p_segment AND k.lane_id = m.lane_id AND k.seq = m.seq)
        RETURNING r.*)
    INSERT INTO {schema}.result (seq, job_id, lane_id, segment, result, jobs, results)
        SELECT seq, job_id, lane_id, v_current, result, jobs, results FROM gone;
    RETURN v_count;
END $$;

-- move_cursors(segment): each lane's newest claim, where it stands there. Its jobs are settled, so it comes over
-- with none. After move_claims, which takes those that are open.
-- Cost: one index probe for each lane.
CREATE OR REPLACE FUNCTION {schema}.move_cursors(p_segment smallint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_count bigint;
BEGIN
    WITH open AS MATERIALIZED (
        SELECT o.lane_id, o.seq FROM {schema}.open_claims(NULL) o
        WHERE EXISTS (SELECT 1 FROM {schema}.unsettled_jobs(o.lane_id, o.seq))
    ), newest AS MATERIALIZED (
        SELECT k.lane_id, k.seq FROM {schema}.lane l CROSS JOIN LATERAL (
            SELECT x.lane_id, x.seq, x.segment FROM {schema}.claim x WHERE x.lane_id = l.id ORDER BY x.seq DESC LIMIT 1) AS k
        WHERE k.segment = p_segment AND NOT EXISTS (SELECT 1 FROM open o WHERE o.lane_id = k.lane_id AND o.seq = k.seq)
    ), gone AS (
        DELETE FROM {schema}.claim k USING newest n
        WHERE k.segment = p_segment AND k.lane_id = n.lane_id AND k.seq = n.seq RETURNING k.*
    ), closed AS (
        -- Without jobs it cannot be open again, whatever becomes of its settlements.
        DELETE FROM {schema}.moved_claim m USING newest n WHERE m.lane_id = n.lane_id AND m.seq = n.seq)
    INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, claimed_at, lane_id, token, worker_id,
                                job_count, segment, from_snapshot, to_snapshot, event_pos, event_late)
        SELECT seq, start_xid, start_id, end_xid, end_id, worker_call, claimed_at, lane_id, token, worker_id,
               0, {schema}.current_segment(), from_snapshot, to_snapshot, event_pos, event_late FROM gone;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;
