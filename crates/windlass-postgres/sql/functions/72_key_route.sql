-- From the log to where jobs of keyed queues wait for their key's turn, and back.

-- route(lane, keyed, most): the jobs of a lane's log wait in the keyed lane from now on, and their keys are in turn. So many at most; whether there may be more.
-- Under the locks of the queue and of both lanes. To everybody else it is a claim without jobs, so that what stands in the log is history.
-- Cost: 8 us for each job.
CREATE OR REPLACE FUNCTION {schema}.route(p_lane integer, p_keyed integer, p_most integer) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    c       record;
    v_began timestamptz;
    r       record;
BEGIN
    FOR pass IN 1..2 LOOP
        SELECT * INTO c FROM {schema}.log_ahead(p_lane);
        v_began := clock_timestamp();
        WITH batch AS MATERIALIZED (
            SELECT j.* FROM unnest(c.lo, c.lo_id, c.hi) AS r(lo, lo_id, hi)
            CROSS JOIN LATERAL (
                SELECT j.xid, j.id, j.moved, j.enqueued_at, j.attempt, j.max_attempts, j.crash_count, j.kind, j.args, j.attributes FROM {schema}.job j
                WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                ORDER BY j.xid, j.id LIMIT p_most) AS j
            LIMIT p_most
        ), gone AS MATERIALIZED ( -- by the primary key: + 0 hides the index of all that the lane has
            DELETE FROM {schema}.cancelled_in_log s WHERE c.cancelled AND s.lane_id + 0 = p_lane AND s.job_id = ANY (ARRAY(SELECT b.id FROM batch b WHERE c.cancelled))
            RETURNING s.job_id
        ), put AS (
            INSERT INTO {schema}.waiting (id, available_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, moved, state, kind, args, attributes)
            SELECT b.id, CASE WHEN b.moved THEN {schema}.startable_since(b.xid, b.enqueued_at) ELSE b.enqueued_at END, b.enqueued_at, p_keyed, b.attempt, b.max_attempts, b.crash_count, true, 'keyed', b.kind, b.args, b.attributes
            FROM batch b WHERE NOT c.cancelled OR b.id <> ALL (ARRAY(SELECT g.job_id FROM gone g))
        ), told AS ( -- it may have been begun, and nobody has told that it is over
            INSERT INTO {schema}.key_signal (lane_id, job_id, is_over, key)
            SELECT p_keyed, b.id, false, {schema}.key_of(b.attributes) FROM batch b
            WHERE c.cancelled AND {schema}.keys_are_serial((SELECT l.queue FROM {schema}.lane l WHERE l.id = p_lane)) AND b.attributes <> '' AND b.id = ANY (ARRAY(SELECT g.job_id FROM gone g))
        ), named AS MATERIALIZED (
            SELECT b.key, min(b.id) AS low, min(b.nth) AS nth FROM (SELECT {schema}.read_key(b.attributes) AS key, b.id, row_number() OVER () AS nth FROM batch b) AS b
            GROUP BY b.key)
        SELECT (SELECT count(*) FROM batch) AS n, l.xid, l.id, ARRAY(SELECT n.key FROM named n ORDER BY n.nth) AS keys,
               ARRAY(SELECT n.low FROM named n ORDER BY n.nth) AS lows
            INTO r FROM (SELECT 1) AS one LEFT JOIN (SELECT b.xid, b.id FROM batch b OFFSET p_most - 1 LIMIT 1) AS l ON true;
        IF r.n > 0 OR c.open OR clock_timestamp() - v_began > '2 ms' THEN
            INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, lane_id, token, worker_id, job_count, segment, from_snapshot, to_snapshot)
                VALUES (c.seq + 1, c.start_xid, c.start_id, r.xid, r.id, 0, p_lane, 0, 0, 0, {schema}.current_segment(), c.from_snapshot, c.to_snapshot);
        END IF;
        IF r.n > 0 THEN PERFORM {schema}.give_turns(p_keyed, r.keys, r.lows); END IF;
        IF r.xid IS NOT NULL THEN RETURN true; END IF;
        EXIT WHEN NOT c.open;
    END LOOP;
    RETURN false;
END $$;

-- route_no_handler(lane, keyed, kinds): what waits for a worker that knows its kind, and has one, waits for its key's turn again. At most 1,000; whether there may be more.
-- What stands in a lane without keys comes along.
CREATE OR REPLACE FUNCTION {schema}.route_no_handler(p_lane integer, p_keyed integer, p_kinds text[]) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_ids  bigint[];
    v_kind text;
    r      record;
BEGIN
    v_ids := {schema}.lock_no_handler(p_lane, p_kinds, 1000);
    IF v_ids = '{}' THEN RETURN false; END IF;
    WITH put AS MATERIALIZED (
        UPDATE {schema}.waiting h SET state = 'keyed', lane_id = p_keyed WHERE h.id = ANY (v_ids) RETURNING h.id, h.kind, {schema}.key_of(h.attributes) AS key
    ), named AS MATERIALIZED (SELECT p.key, min(p.id) AS low FROM put p GROUP BY p.key)
    SELECT (SELECT array_agg(DISTINCT p.kind) FROM put p) AS kinds, array_agg(n.key ORDER BY n.low) AS keys, array_agg(n.low ORDER BY n.low) AS lows INTO r FROM named n;
    FOREACH v_kind IN ARRAY r.kinds LOOP PERFORM {schema}.pass_no_handler(p_lane, v_kind); END LOOP;
    PERFORM {schema}.give_turns(p_keyed, r.keys, r.lows);
    RETURN cardinality(v_ids) = 1000;
END $$;

-- unroute(lane): of a queue that is not keyed any more: what waits for its key's turn stands in the log again. At most 4,000; whether there was any. Under the
-- lane's lock.
CREATE OR REPLACE FUNCTION {schema}.unroute(p_lane integer) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM {schema}.waiting h WHERE h.lane_id = p_lane AND h.state = 'keyed') THEN RETURN false; END IF;
    PERFORM {schema}.note_came_back((SELECT min(h.available_at) FROM {schema}.waiting h WHERE h.lane_id = p_lane AND h.state = 'keyed'));
    WITH taken AS (
        DELETE FROM {schema}.waiting h WHERE h.id = ANY (ARRAY(
            SELECT w.id FROM {schema}.waiting w WHERE w.lane_id = p_lane AND w.state = 'keyed' ORDER BY w.available_at, w.id + 0 LIMIT 4000))
        RETURNING h.*)
    INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
        SELECT t.id, t.enqueued_at, t.lane_id, {schema}.current_segment(), t.attempt, t.max_attempts, t.crash_count, true, t.kind, t.args, t.attributes
        FROM taken t ORDER BY t.id;
    RETURN true;
END $$;
