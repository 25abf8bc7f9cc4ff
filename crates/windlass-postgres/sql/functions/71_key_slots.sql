-- Which jobs of keys with a concurrency are not over, and turns of keys that were blocked.

-- key_pending(id, queue): whether the job is of this queue and not over.
CREATE OR REPLACE FUNCTION {schema}.key_pending(p_id bigint, p_queue text) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    f record;
BEGIN
    SELECT * INTO f FROM {schema}.find_job(p_id);
    RETURN coalesce(f.place IN ('waiting', 'log') AND f.settled_at IS NULL AND EXISTS (
        SELECT 1 FROM {schema}.lane l WHERE l.queue = p_queue
          AND l.id = CASE f.place WHEN 'log' THEN f.lane_id ELSE (SELECT h.lane_id FROM {schema}.waiting h WHERE h.id = p_id) END), false);
END $$;

-- turn_again(queue, keys): keys that were blocked are in turn, in every lane of the queue; NULL: all of them. Under the queue's lock.
CREATE OR REPLACE FUNCTION {schema}.turn_again(p_queue text, p_keys text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    v_lane integer;
    v_tag  double precision;
BEGIN
    FOR v_lane IN SELECT l.id FROM {schema}.lane l WHERE l.queue = p_queue AND l.id < 0 LOOP
        v_tag := ({schema}.key_cursor_of(v_lane)).tag;
        INSERT INTO {schema}.key_visit (lane_id, last_id, tag, finish, blocked, key)
            SELECT v_lane, v.last_id, greatest(v_tag, v.finish), v.finish, false, v.key
            FROM (SELECT unnest(p_keys) AS key
                  UNION
                  SELECT b.key FROM {schema}.key_visit b WHERE p_keys IS NULL AND b.lane_id = v_lane AND b.blocked) AS k
            CROSS JOIN LATERAL (SELECT x.* FROM {schema}.key_visit x WHERE x.lane_id = v_lane AND x.key = k.key ORDER BY x.n DESC LIMIT 1) AS v
            WHERE v.blocked;
    END LOOP;
END $$;

-- fold_keys(queue): learns from settlements, and from jobs that waited and do so no more, which slots of keys are free. Keys that are blocked by nothing
-- any more are in turn again. Under the queue's lock.
-- Cost: linear in the jobs of keys that were settled since, and the slots that their keys have.
CREATE OR REPLACE FUNCTION {schema}.fold_keys(p_queue text) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = on SET enable_sort = on
AS $$
#variable_conflict use_column
DECLARE
    v_lane integer;
    v_now  pg_snapshot;
    v_lo   xid8[];
    v_hi   xid8[];
    c      {schema}.key_cursor;
    v_ids  bigint[] := '{}';
    v_seqs bigint[] := '{}';
    v_lanes integer[] := '{}';
    v_keys text[] := '{}'; -- with each of those; then those of signals
    r      record;
BEGIN
    FOR v_lane IN SELECT l.id FROM {schema}.lane l WHERE l.queue = p_queue AND l.id < 0 LOOP
        c := {schema}.key_cursor_of(v_lane);
        v_now := pg_current_snapshot();
        SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(c.folded, v_now) d;
        SELECT array_agg(x.id) AS ids, array_agg(x.seq) AS seqs, array_agg(x.key) AS keys, count(*) AS n INTO r FROM (
            SELECT j.id, s.seq, {schema}.key_of(j.attributes) AS key FROM unnest(v_lo, v_hi) AS r(lo, hi)
            CROSS JOIN LATERAL (SELECT * FROM {schema}.settlement s
                WHERE s.lane_id = v_lane AND s.lane_id < 0 AND s.event_xid >= r.lo AND s.event_xid <= r.hi OFFSET 0) AS s
            CROSS JOIN LATERAL (SELECT * FROM {schema}.job j
                WHERE j.lane_id = v_lane AND j.xid = ({direct} + s.seq)::text::xid8
                  AND j.id BETWEEN coalesce(s.low_id, 0) AND coalesce(s.high_id, 9223372036854775807) OFFSET 0) AS j) AS x;
        v_ids := v_ids || coalesce(r.ids, '{}');
        v_seqs := v_seqs || coalesce(r.seqs, '{}');
        v_lanes := v_lanes || array_fill(v_lane, ARRAY[r.n::integer]);
        v_keys := v_keys || coalesce(r.keys, '{}');
        IF r.n > 0 THEN
            INSERT INTO {schema}.key_cursor SELECT c.lane_id, c.n + 1, c.from_snapshot, c.to_snapshot, c.end_xid, c.end_key, c.tag, c.turn, v_now;
        END IF;
    END LOOP;
    SELECT array_agg(x.id) AS ids, array_agg(x.seq) AS seqs, array_agg(x.lane_id) AS lanes, array_agg(x.key) AS keys INTO r FROM (
        SELECT j.id, b.seq, b.lane_id, {schema}.key_of(j.attributes) AS key FROM {schema}.key_before b
        CROSS JOIN LATERAL {schema}.claim_jobs(b.lane_id, b.seq) j
        WHERE b.queue = p_queue AND EXISTS (SELECT 1 FROM {schema}.settlement_of(b.lane_id, b.seq, j.id))) AS x;
    IF r.ids IS NOT NULL THEN
        v_ids := v_ids || r.ids;
        v_seqs := v_seqs || r.seqs;
        v_lanes := v_lanes || r.lanes;
        v_keys := v_keys || r.keys;
        DELETE FROM {schema}.key_before b WHERE b.queue = p_queue AND NOT EXISTS (SELECT 1 FROM {schema}.unsettled_jobs(b.lane_id, b.seq));
    END IF;
    WITH seen AS (DELETE FROM {schema}.key_signal s USING {schema}.lane l WHERE l.queue = p_queue AND l.id < 0 AND s.lane_id = l.id RETURNING s.key)
    SELECT v_keys || array_agg(s.key) INTO v_keys FROM seen s;
    IF v_keys = '{}' THEN RETURN; END IF;
    WITH ended AS MATERIALIZED (SELECT DISTINCT u.id, u.seq, u.lane FROM unnest(v_ids, v_seqs, v_lanes) AS u(id, seq, lane)
    ), hold AS MATERIALIZED (
        SELECT h.* FROM (SELECT DISTINCT u AS key FROM unnest(v_keys) AS u) AS k
        CROSS JOIN LATERAL (SELECT * FROM {schema}.key_hold h WHERE h.queue = p_queue AND h.key = k.key ORDER BY h.n DESC LIMIT 1) AS h
        WHERE h.ids <> '{}'
    ), entry AS MATERIALIZED (
        SELECT h.key, e.id, e.lane, CASE WHEN n.id IS NULL THEN e.seq ELSE 0 END AS seq
        FROM hold h CROSS JOIN LATERAL unnest(h.ids, h.seqs, h.lanes) AS e(id, seq, lane)
        LEFT JOIN ended n ON n.id = e.id AND n.seq = e.seq AND n.lane = e.lane
    ), kept AS MATERIALIZED (
        SELECT e.* FROM entry e
        WHERE e.seq <> 0 OR {schema}.key_is_serial(p_queue, e.key) AND {schema}.key_pending(e.id, p_queue)
    ), written AS (
        INSERT INTO {schema}.key_hold (ids, seqs, lanes, queue, key)
            SELECT coalesce(array_agg(k.id) FILTER (WHERE k.id IS NOT NULL), '{}'), coalesce(array_agg(k.seq) FILTER (WHERE k.id IS NOT NULL), '{}'),
                   coalesce(array_agg(k.lane) FILTER (WHERE k.id IS NOT NULL), '{}'), p_queue, h.key
            FROM hold h LEFT JOIN kept k ON k.key = h.key GROUP BY h.key)
    SELECT array_agg(h.key) INTO v_keys FROM hold h;
    IF v_keys IS NOT NULL THEN PERFORM {schema}.turn_again(p_queue, v_keys); END IF;
END $$;

-- key_is_serial(queue, key)
CREATE OR REPLACE FUNCTION {schema}.key_is_serial(p_queue text, p_key text) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN p_key <> '' AND coalesce((SELECT k.serial FROM {schema}.key_limit k WHERE k.queue = p_queue AND k.key IN (p_key, '')
                                     ORDER BY k.key = '' LIMIT 1), false);
END $$;

-- recount_keys(queue): what is held of each key of it, by the claims that are open. Under the queue's lock, when limits have changed.
-- Cost: linear in the jobs that workers hold of the queue.
CREATE OR REPLACE FUNCTION {schema}.recount_keys(p_queue text) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_now  pg_snapshot := pg_current_snapshot();
BEGIN
    DELETE FROM {schema}.key_before b WHERE b.queue = p_queue;
    INSERT INTO {schema}.key_before SELECT p_queue, o.lane_id, o.seq
        FROM {schema}.open_claims(NULL) o JOIN {schema}.lane l ON l.id = o.lane_id WHERE l.queue = p_queue AND l.id > 0;
    INSERT INTO {schema}.key_cursor SELECT c.lane_id, c.n + 1, c.from_snapshot, c.to_snapshot, c.end_xid, c.end_key, c.tag, c.turn, v_now
        FROM {schema}.lane l CROSS JOIN LATERAL {schema}.key_cursor_of(l.id) c WHERE l.queue = p_queue AND l.id < 0;
    WITH open AS MATERIALIZED (
        SELECT {schema}.key_of(j.attributes) AS key, j.id, o.seq, o.lane_id AS lane
        FROM {schema}.open_claims(NULL) o JOIN {schema}.lane l ON l.id = o.lane_id
        CROSS JOIN LATERAL {schema}.unsettled_jobs(o.lane_id, o.seq) j WHERE l.queue = p_queue
    ), before AS MATERIALIZED (
        SELECT h.* FROM (SELECT DISTINCT ON (x.key) x.* FROM {schema}.key_hold x WHERE x.queue = p_queue ORDER BY x.key, x.n DESC) AS h
    ), waits AS MATERIALIZED ( -- tried before, and not over
        SELECT e.id, h.key, e.lane FROM before h CROSS JOIN LATERAL unnest(h.ids, h.lanes) AS e(id, lane)
        WHERE {schema}.key_is_serial(p_queue, h.key) AND NOT EXISTS (SELECT 1 FROM open o WHERE o.id = e.id) AND {schema}.key_pending(e.id, p_queue)
        UNION
        SELECT w.id, {schema}.key_of(w.attributes), w.lane_id FROM {schema}.waiting w JOIN {schema}.lane l ON l.id = w.lane_id
        WHERE l.queue = p_queue AND w.attempt > 0 AND {schema}.key_is_serial(p_queue, {schema}.key_of(w.attributes))
    ), entry AS (
        SELECT o.* FROM open o WHERE o.key <> ''
        UNION ALL
        SELECT DISTINCT ON (w.id) w.key, w.id, 0, w.lane FROM waits w
        UNION ALL
        SELECT b.key, NULL, NULL, NULL FROM before b
    )
    INSERT INTO {schema}.key_hold (ids, seqs, lanes, queue, key)
        SELECT coalesce(array_agg(e.id) FILTER (WHERE e.id IS NOT NULL), '{}'), coalesce(array_agg(e.seq) FILTER (WHERE e.id IS NOT NULL), '{}'),
               coalesce(array_agg(e.lane) FILTER (WHERE e.id IS NOT NULL), '{}'), p_queue, e.key
        FROM entry e GROUP BY e.key;
    PERFORM {schema}.turn_again(p_queue, NULL);
END $$;

-- fold_all_keys(): fold_keys of every queue whose keys have slots. Whether nobody was at one of them.
CREATE OR REPLACE FUNCTION {schema}.fold_all_keys() RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_queue text;
BEGIN
    FOR v_queue IN SELECT DISTINCT k.queue FROM {schema}.key_limit k WHERE k.serial OR k.concurrency IS NOT NULL LOOP
        IF NOT {schema}.lock_keys(v_queue, false) THEN RETURN false; END IF;
        PERFORM {schema}.fold_keys(v_queue);
    END LOOP;
    RETURN true;
END $$;
