-- Which jobs of keys with a concurrency or a rate are held, and which of serial keys are not over. All of it under the queue's lock.

-- keys_pending(ids, queue): those of these jobs that are of this queue and not over, and their keys.
-- Cost: some probes for a job that waits, is dead or stands unclaimed in the log, as nearly all of them do; find_jobs for others. Asked one by one where they are, 20,000 that had come
-- back took longer than a claim may, and each claim began anew.
CREATE OR REPLACE FUNCTION {schema}.keys_pending(p_ids bigint[], p_queue text) RETURNS TABLE (id bigint, key text)
    LANGUAGE plpgsql STABLE ROWS 1000 SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
    IF p_ids = '{}' THEN RETURN; END IF;
    RETURN QUERY
    WITH cursor AS MATERIALIZED (
        SELECT l.id AS lane_id, k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id FROM {schema}.lane l LEFT JOIN LATERAL (
            SELECT * FROM {schema}.claim k WHERE k.lane_id = l.id ORDER BY k.seq DESC LIMIT 1) AS k ON true
        WHERE l.queue = p_queue
    ), looked AS MATERIALIZED (
        SELECT u.id, w.lane_id, coalesce(w.attributes, j.attributes) AS attributes, w.lane_id IS NULL AND j.lane_id IS NULL
                   AND (SELECT true FROM {schema}.dead d WHERE d.id = u.id LIMIT 1) IS NULL AS elsewhere
        FROM unnest(p_ids) AS u(id)
        LEFT JOIN LATERAL (SELECT h.lane_id, h.attributes FROM {schema}.waiting h WHERE h.id = u.id OFFSET 0) AS w ON true
        LEFT JOIN LATERAL (
            SELECT j.lane_id, j.attributes FROM (
                SELECT j.lane_id, j.xid, j.attributes FROM {schema}.job j WHERE j.id = u.id AND j.moved AND j.xid < '{direct}' OFFSET 0) AS j
            JOIN cursor k ON k.lane_id = j.lane_id
            WHERE w.lane_id IS NULL AND NOT coalesce({schema}.consumed(k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id, j.xid, u.id), false)
              AND (SELECT true FROM {schema}.cancelled_in_log s WHERE s.job_id = u.id AND s.lane_id = j.lane_id LIMIT 1) IS NULL LIMIT 1) AS j ON true
    )
    SELECT l.id, {schema}.key_of(l.attributes) FROM looked l WHERE l.attributes IS NOT NULL AND (l.lane_id IS NULL OR l.lane_id IN (SELECT k.lane_id FROM cursor k))
    UNION ALL
    SELECT f.id, {schema}.key_of(j.attributes) FROM {schema}.find_jobs(ARRAY(SELECT l.id FROM looked l WHERE l.elsewhere)) f
        CROSS JOIN LATERAL (SELECT j.attributes FROM {schema}.job j WHERE j.lane_id = f.lane_id AND j.xid = f.xid AND j.id = f.id OFFSET 0) AS j
        WHERE f.place = 'log' AND f.settled_at IS NULL AND f.lane_id IN (SELECT k.lane_id FROM cursor k);
END $$;

-- make_room(queue, most): what was settled since is held no more; jobs of serial keys that are over let the next ones go. Keys for which something changed are in turn again.
-- What was held of a key with a rate counts on (note_ended). Of what was told of serial keys 1,000 of each lane at most: a hundred thousand, as after a bulk cancellation, would
-- take longer than any call may. So would what hundreds of thousands of claims held that came back at once: about `most` jobs (NULL: all), transaction by transaction, and of one
-- transaction that settled more than twice as many those at first. Whether there may be more: nothing is to be handed out before that.
-- Cost: linear in the jobs of keys with a concurrency or a rate that were settled since, 27 us for each.
CREATE OR REPLACE FUNCTION {schema}.make_room(p_queue text, p_most integer DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_lane integer;
    v_now  pg_snapshot;
    v_lo   xid8[];
    v_hi   xid8[];
    v_until xid8; -- more than that is too much at once
    v_kept pg_snapshot := (SELECT e.kept_from FROM {schema}.event_log e);
    c      {schema}.key_lane;
    v_lanes {schema}.key_lane[] := '{}';
    v_more boolean := false;
    v_ids  bigint[] := '{}';
    v_keys text[] := '{}';
    v_over boolean[] := '{}';  -- of a signal: the job is over; NULL: look
    v_held boolean[] := '{}';  -- it was held until now
    v_at   timestamptz[] := '{}'; -- and since when it is not
    v_ended record;
    r      record;
BEGIN
    -- Settlements may have gone with their segment before they were seen here; then all is counted anew, before anything that it counts by is taken away.
    FOR v_lane IN SELECT l.id FROM {schema}.lane l WHERE l.queue = p_queue AND l.id < 0 LOOP
        c := {schema}.key_lane_of(v_lane);
        IF pg_snapshot_xmax(v_kept) > pg_snapshot_xmin(c.folded) AND (SELECT cardinality(d.lo) > 0 FROM {schema}.delta(c.folded, v_kept) d) THEN
            -- Looked for first: an old transaction that is open makes xmin older than every segment, and what was held since is dead, but not yet gone.
            IF EXISTS (SELECT 1 FROM {schema}.key_held h WHERE h.lane_id = v_lane) THEN
                PERFORM {schema}.count_held(p_queue);
                RETURN false;
            END IF;
            PERFORM {schema}.put_key_lane(c, c.tag, c.turn, pg_current_snapshot());
            c := {schema}.key_lane_of(v_lane);
        END IF;
        v_lanes := v_lanes || c;
    END LOOP;
    FOREACH c IN ARRAY v_lanes LOOP
        IF cardinality(v_ids) >= p_most THEN
            v_more := true;
            EXIT;
        END IF;
        v_lane := c.lane_id;
        v_now := pg_current_snapshot();
        SELECT d.lo, d.hi, (
            SELECT u.event_xid FROM (
                SELECT s.event_xid, sum(greatest(s.job_count, 1)) OVER (ROWS UNBOUNDED PRECEDING) AS jobs FROM unnest(d.lo, d.hi) AS r(lo, hi)
                CROSS JOIN LATERAL (
                    SELECT s.event_xid, s.job_count FROM {schema}.settlement s
                    WHERE s.lane_id = v_lane AND s.lane_id < 0 AND s.event_xid >= r.lo AND s.event_xid <= r.hi ORDER BY s.event_xid) AS s) AS u
            WHERE u.jobs >= p_most LIMIT 1)
            INTO v_lo, v_hi, v_until FROM {schema}.delta(c.folded, v_now) d;
        IF v_until IS NOT NULL THEN
            v_now := {schema}.seen_until(c.folded, v_now, v_until);
            SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(c.folded, v_now) d;
        END IF;
        WITH settled AS MATERIALIZED (
            SELECT s.seq, s.low_id, s.high_id, s.completed, s.settled_at FROM unnest(v_lo, v_hi) AS r(lo, hi)
            CROSS JOIN LATERAL (SELECT * FROM {schema}.settlement s
                WHERE s.lane_id = v_lane AND s.lane_id < 0 AND s.event_xid >= r.lo AND s.event_xid <= r.hi OFFSET 0) AS s
        ), held AS MATERIALIZED ( -- claim by claim: in the order of the index all that was ever held lies before
            SELECT x.place, x.id, x.key, s.completed, s.settled_at FROM settled s CROSS JOIN LATERAL (
                SELECT k.ctid AS place, k.id, k.key FROM {schema}.key_held k WHERE k.lane_id = v_lane AND k.seq = s.seq
                  AND k.id >= coalesce(s.low_id, 0) AND k.id <= coalesce(s.high_id, 9223372036854775807) OFFSET 0) AS x
        ), ended AS MATERIALIZED ( -- one that completed in a range where another settlement says otherwise went elsewhere
            SELECT h.place, h.id, h.key, nullif(bool_and(h.completed), false) AS is_over, max(h.settled_at) AS at FROM held h GROUP BY h.place, h.id, h.key LIMIT 2 * p_most
        ), gone AS (DELETE FROM {schema}.key_held k WHERE k.ctid = ANY (ARRAY(SELECT e.place FROM ended e))
        ), told AS (
            DELETE FROM {schema}.key_signal s WHERE s.ctid = ANY (ARRAY(
                SELECT t.ctid FROM {schema}.key_signal t WHERE t.lane_id = v_lane ORDER BY t.lane_id, t.n LIMIT 1000)) RETURNING s.*
        ), happened AS (
            SELECT e.id, e.key, e.is_over, true AS held, e.at FROM ended e
            UNION ALL
            SELECT t.job_id, t.key, nullif(t.is_over, false), false, NULL FROM told t)
        SELECT array_agg(h.id) AS ids, array_agg(h.key) AS keys, array_agg(h.is_over) AS over, array_agg(h.held) AS held, array_agg(h.at) AS at,
               (SELECT count(*) > 0 FROM settled) AS any, (SELECT count(*) = 1000 FROM told) AS more, coalesce((SELECT count(*) >= 2 * p_most FROM ended), false) AS rest
            INTO r FROM happened h;
        v_more := v_more OR r.more OR r.rest OR v_until IS NOT NULL;
        IF r.any AND NOT r.rest THEN PERFORM {schema}.put_key_lane(c, c.tag, c.turn, v_now); END IF;
        v_ids := v_ids || r.ids; v_keys := v_keys || r.keys; v_over := v_over || r.over; v_held := v_held || r.held; v_at := v_at || r.at;
    END LOOP;
    -- What was held when the queue got its limits. Where such a job waits it is in the keyed lane from now on, so that what happens to it is told; but not where a row of it is
    -- to be stepped over there. One that somebody edits or cancels in a transaction that stays open is told of from where it is: see key_left. Where the claim is gone, or has no jobs
    -- any more, all of it was settled, and what said so went with its segment.
    WITH free AS MATERIALIZED ( -- lane by lane: as a join it may be planned the other way round, and walks all that was ever held
        SELECT h.* FROM {schema}.lane l CROSS JOIN LATERAL (
            SELECT k.ctid AS place, k.id, k.key, coalesce(s.settled_at, clock_timestamp()) AS at
            FROM {schema}.key_held k LEFT JOIN LATERAL {schema}.settlement_of(k.lane_id, k.seq, k.id) s ON true
            WHERE k.lane_id = l.id AND (s.settled_at IS NOT NULL
                OR NOT EXISTS (SELECT 1 FROM {schema}.claim c WHERE c.lane_id = k.lane_id AND c.seq = k.seq AND c.job_count > 0)) OFFSET 0) AS h
        WHERE l.queue = p_queue AND l.id > 0 LIMIT p_most
    ), gone AS (DELETE FROM {schema}.key_held k WHERE k.ctid = ANY (ARRAY(SELECT f.place FROM free f)))
    SELECT array_agg(f.id) AS ids, array_agg(f.key) AS keys, array_agg(NULL::boolean) AS over, array_agg(true) AS held, array_agg(f.at) AS at INTO r FROM free f;
    v_more := v_more OR coalesce(cardinality(r.ids) >= p_most, false);
    v_ids := v_ids || r.ids; v_keys := v_keys || r.keys; v_over := v_over || r.over; v_held := v_held || r.held; v_at := v_at || r.at;
    IF r.ids IS NOT NULL THEN
        UPDATE {schema}.waiting w SET lane_id = {schema}.lane_for(w.id, {schema}.keyed_lane(p_queue, l.priority), NULL, NULL) FROM {schema}.lane l
            WHERE w.id = ANY (ARRAY(SELECT h.id FROM {schema}.waiting h WHERE h.id = ANY (r.ids) FOR UPDATE SKIP LOCKED))
              AND l.id = w.lane_id AND l.id > 0 AND l.queue = p_queue;
    END IF;
    IF v_ids = '{}' THEN RETURN v_more; END IF;
    SELECT '{}'::text[] AS keys, '{}'::integer[] AS jobs INTO v_ended;
    IF (SELECT q.key_rates FROM {schema}.queue q WHERE q.name = p_queue) THEN
        SELECT e.keys, e.jobs INTO v_ended FROM (
            SELECT array_agg(u.key) AS keys, array_agg(u.at) AS at FROM unnest(v_keys, v_held, v_at) AS u(key, held, at) WHERE u.held) AS h
        CROSS JOIN LATERAL {schema}.note_ended(p_queue, h.keys, h.at) e;
    END IF;
    WITH fate AS MATERIALIZED (
        SELECT u.id, u.key, bool_or(u.is_over) AS is_over, count(*) FILTER (WHERE u.held) AS freed
        FROM unnest(v_ids, v_keys, v_over, v_held) AS u(id, key, is_over, held) GROUP BY u.id, u.key
    ), told AS ( -- what ended of each key is a row more of it, not a join: of arrays the planner knows no size, and would compare each with each
        SELECT f.id, f.key, f.is_over, f.freed, 0 AS ended FROM fate f
        UNION ALL
        SELECT NULL, e.key, NULL, 0, e.jobs FROM unnest(v_ended.keys, v_ended.jobs) AS e(key, jobs)
    ), room AS MATERIALIZED (
        SELECT h.*, k.freed, k.over_ids, k.look_ids, k.more_ended FROM (
            SELECT t.key, sum(t.freed)::integer AS freed, sum(t.ended)::integer AS more_ended,
                   coalesce(array_agg(t.id) FILTER (WHERE t.is_over), '{}') AS over_ids,
                   coalesce(array_agg(t.id) FILTER (WHERE t.id IS NOT NULL AND t.is_over IS NOT TRUE), '{}') AS look_ids FROM told t GROUP BY t.key) AS k
        CROSS JOIN LATERAL (SELECT h.*, h.ctid AS place FROM {schema}.key_room h WHERE h.queue = p_queue AND h.key = k.key ORDER BY h.n DESC LIMIT 1) AS h
    ), pending AS MATERIALIZED ( -- asked for only where something was begun
        SELECT p.* FROM {schema}.keys_pending(ARRAY(
            SELECT b FROM room r CROSS JOIN LATERAL unnest(r.begun) AS b WHERE b <> ALL (r.over_ids) AND b = ANY (r.look_ids)), p_queue) p
    ), was AS (DELETE FROM {schema}.key_room h WHERE h.ctid = ANY (ARRAY(SELECT r.place FROM room r)))
    INSERT INTO {schema}.key_room (queue, key, held, begun, ended)
        SELECT p_queue, r.key, r.left, r.begun, r.ended FROM (
            SELECT r.key, greatest(r.held - r.freed, 0) AS left, r.ended + r.more_ended AS ended, ARRAY(
                SELECT b FROM unnest(r.begun) AS b
                WHERE b <> ALL (r.over_ids) AND (b <> ALL (r.look_ids) OR (b, r.key) IN (SELECT p.id, p.key FROM pending p))) AS begun
            FROM room r OFFSET 0) AS r
        WHERE r.left > 0 OR r.begun <> '{}' OR r.ended > 0;
    PERFORM {schema}.turn_again(p_queue, ARRAY(SELECT DISTINCT k FROM unnest(v_keys) AS k));
    RETURN v_more;
END $$;

-- count_held(queue, keys): counts anew what is held of these keys, by the claims that are open, when limits have changed; NULL: of each. What was held, and is not, ended; what ended
-- counts on where the key has a rate. Of some keys only after make_room.
-- Cost: linear in the jobs that workers hold of the queue, in what was told, and for each of the keys in what counts for rates.
CREATE OR REPLACE FUNCTION {schema}.count_held(p_queue text, p_keys text[] DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now  pg_snapshot := pg_current_snapshot();
    v_held {schema}.key_held[];
BEGIN
    PERFORM {schema}.put_key_lane(c, c.tag, c.turn, v_now) FROM {schema}.lane l CROSS JOIN LATERAL {schema}.key_lane_of(l.id) c
        WHERE p_keys IS NULL AND l.queue = p_queue AND l.id < 0;
    WITH was AS (DELETE FROM {schema}.key_held h USING {schema}.lane l WHERE l.queue = p_queue AND h.lane_id = l.id AND (p_keys IS NULL OR h.key = ANY (p_keys)) RETURNING h AS job)
        SELECT array_agg(w.job) INTO v_held FROM was w;
    IF {schema}.keys_are_limited(p_queue) THEN
        INSERT INTO {schema}.key_held (lane_id, seq, id, key)
            SELECT o.lane_id, o.seq, j.id, {schema}.key_of(j.attributes)
            FROM {schema}.open_claims(NULL) o JOIN {schema}.lane l ON l.id = o.lane_id
            CROSS JOIN LATERAL {schema}.unsettled_jobs(o.lane_id, o.seq) j
            WHERE l.queue = p_queue AND {schema}.key_of(j.attributes) <> '' AND (p_keys IS NULL OR {schema}.key_of(j.attributes) = ANY (p_keys));
    END IF;
    DELETE FROM {schema}.key_ended e WHERE e.queue = p_queue AND (p_keys IS NULL OR e.key = ANY (p_keys)) AND ({schema}.key_rate(p_queue, e.key)).count IS NULL;
    IF (SELECT q.key_rates FROM {schema}.queue q WHERE q.name = p_queue) THEN
        PERFORM {schema}.note_ended(p_queue, array_agg(w.key), array_agg(coalesce((
            SELECT s.settled_at FROM {schema}.settlement_of(w.lane_id, w.seq, w.id) s), clock_timestamp())))
            FROM unnest(v_held) AS w WHERE NOT EXISTS (SELECT 1 FROM {schema}.key_held h WHERE h.lane_id = w.lane_id AND h.seq = w.seq AND h.id = w.id);
    END IF;
    WITH told AS (
        DELETE FROM {schema}.key_signal s USING {schema}.lane l WHERE l.queue = p_queue AND s.lane_id = l.id AND (p_keys IS NULL OR s.key = ANY (p_keys)) RETURNING s.*
    ), before AS MATERIALIZED (
        DELETE FROM {schema}.key_room h WHERE h.queue = p_queue AND (p_keys IS NULL OR h.key = ANY (p_keys)) RETURNING h.*
    ), held AS MATERIALIZED (
        SELECT h.key, h.id FROM {schema}.key_held h JOIN {schema}.lane l ON l.id = h.lane_id WHERE l.queue = p_queue AND (p_keys IS NULL OR h.key = ANY (p_keys))
    ), named AS MATERIALIZED ( -- grouped, not joined: of what came from a table a moment ago the planner knows no size, and would compare each with each
        -- Of which nothing was told, and which was not held until now, is not over: in the log it would take a search for each.
        SELECT c.key, c.id, bool_or(c.held) AS held, bool_or(c.held) OR bool_or(c.is_over) IS NULL AS stays FROM (
            SELECT h.key, h.id, true AS held, true AS begun, NULL::boolean AS is_over FROM held h
            UNION ALL
            SELECT b.key, x.id, false, true, NULL FROM (SELECT DISTINCT ON (b.key) * FROM before b ORDER BY b.key, b.n DESC) AS b CROSS JOIN LATERAL unnest(b.begun) AS x(id)
            UNION ALL
            SELECT t.key, t.job_id, false, false, t.is_over FROM told t
            UNION ALL
            SELECT w.key, w.id, false, false, false FROM unnest(v_held) AS w) AS c
        GROUP BY c.key, c.id HAVING bool_or(c.held) OR bool_or(c.begun) AND bool_or(c.is_over) IS NOT TRUE
    ), begun AS (
        SELECT n.key, n.id, n.held FROM named n
        WHERE n.stays OR (n.id, n.key) IN (SELECT p.id, p.key FROM {schema}.keys_pending(ARRAY(SELECT x.id FROM named x WHERE NOT x.stays), p_queue) p)
    ), counts AS (
        SELECT b.key, count(*) FILTER (WHERE b.held) AS held, array_agg(b.id) AS ids, 0 AS ended FROM begun b GROUP BY b.key
        UNION ALL
        SELECT e.key, 0, NULL, sum(e.jobs)::integer FROM {schema}.key_ended e WHERE e.queue = p_queue AND (p_keys IS NULL OR e.key = ANY (p_keys)) GROUP BY e.key)
    INSERT INTO {schema}.key_room (queue, key, held, begun, ended)
        SELECT p_queue, r.key, r.held, r.begun, r.ended FROM (
            SELECT k.key, k.held, CASE WHEN k.ids IS NOT NULL AND {schema}.key_is_serial(p_queue, k.key) THEN k.ids ELSE '{}' END AS begun, k.ended
            FROM (SELECT c.key, max(c.held)::integer AS held, max(c.ids) AS ids, max(c.ended) AS ended FROM counts c GROUP BY c.key) AS k OFFSET 0) AS r
        WHERE r.held > 0 OR r.begun <> '{}' OR r.ended > 0; -- nothing would ever remove what says nothing
    PERFORM {schema}.turn_again(p_queue, p_keys);
END $$;
