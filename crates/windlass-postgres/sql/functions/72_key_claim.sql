-- Claims of keyed lanes. They run inside claim, under the lane's lock and then the queue's (lock_keys).
--
-- Order: each key that has something has a turn at a virtual time, which its jobs advance by 1 / weight each; the lowest go first. A key that comes (back)
-- begins at the present virtual time (start-time fair queueing). Of a key the lowest id goes first.

-- snapshot_with_own(): the present snapshot, in which what this transaction itself wrote counts as committed. Nothing may be written behind it where it is used.
CREATE OR REPLACE FUNCTION {schema}.snapshot_with_own() RETURNS pg_snapshot
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_now pg_snapshot := pg_current_snapshot();
    v_own bigint := pg_current_xact_id_if_assigned()::text::bigint;
    v_max bigint := pg_snapshot_xmax(v_now)::text::bigint;
BEGIN
    -- One's own id is never among those in progress, but it may be too large.
    IF v_own IS NULL OR v_own < v_max THEN RETURN v_now; END IF;
    RETURN (least(pg_snapshot_xmin(v_now)::text::bigint, CASE WHEN v_own > v_max THEN v_max ELSE v_own + 1 END)::text || ':' || (v_own + 1) || ':' || array_to_string(
        ARRAY(SELECT x::text::bigint AS x FROM pg_snapshot_xip(v_now) AS x UNION SELECT generate_series(v_max, v_own - 1) ORDER BY x), ','))::pg_snapshot;
END $$;

-- notice_keys(lane): gives turns to the keys of rows that came since, by (xid, key): the rest of a key's rows of one transaction is skipped. Whether
-- there is more to notice.
-- Invariant: each row is noticed once, by the snapshots of key_cursor, as a lane's cursor moves. One whose key is beyond its id by then is late.
-- Cost: a page of rows for each pair of transaction and key; 20 ms, or 64 pages where that is more.
CREATE OR REPLACE FUNCTION {schema}.notice_keys(p_lane integer) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    c {schema}.key_cursor := {schema}.key_cursor_of(p_lane);
    v_to    pg_snapshot;
    v_lo    xid8[];
    v_hi    xid8[];
    v_began timestamptz := clock_timestamp();
    v_page  integer := 64;
    v_fresh boolean := false;
    v_pages integer := 0;
    v_changed boolean := false;
    r       record;
BEGIN
    LOOP
        IF c.end_xid IS NULL THEN
            v_fresh := true;
            v_to := {schema}.snapshot_with_own();
            SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(c.to_snapshot, v_to) d;
        ELSE
            v_to := c.to_snapshot;
            SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(c.from_snapshot, v_to) d;
        END IF;
        WITH page AS MATERIALIZED (
            SELECT j.* FROM (
                SELECT greatest(u.lo, c.end_xid) AS lo, u.hi, CASE WHEN u.lo <= c.end_xid THEN c.end_key ELSE '' END AS key,
                       CASE WHEN u.lo <= c.end_xid THEN 9223372036854775807 ELSE 0 END AS id
                FROM unnest(v_lo, v_hi) WITH ORDINALITY AS u(lo, hi, n) WHERE c.end_xid IS NULL OR u.hi >= c.end_xid ORDER BY u.n OFFSET 0) AS r
            CROSS JOIN LATERAL (
                SELECT j.xid, {schema}.key_of(j.attributes) AS key, j.id FROM {schema}.job j
                WHERE j.lane_id = p_lane AND j.lane_id < 0 AND j.xid < '{direct}'
                  AND (j.xid, {schema}.key_of(j.attributes), j.id) > (r.lo, r.key, r.id) AND j.xid <= r.hi
                ORDER BY j.xid, {schema}.key_of(j.attributes), j.id LIMIT v_page) AS j
            LIMIT v_page
        ), pair AS MATERIALIZED (SELECT p.xid, p.key, min(p.id) AS first FROM page p GROUP BY p.xid, p.key
        ), known AS MATERIALIZED (
            SELECT p.*, v.last_id, v.tag, v.blocked, v.finish FROM pair p LEFT JOIN LATERAL (
                SELECT * FROM {schema}.key_visit v WHERE v.lane_id = p_lane AND v.key = p.key ORDER BY v.n DESC LIMIT 1) AS v ON true
        ), late AS (
            INSERT INTO {schema}.key_late (lane_id, key, id, xid, high)
                SELECT p_lane, k.key, k.first, k.xid, k.last_id FROM known k WHERE k.first <= k.last_id
        ), came AS (
            INSERT INTO {schema}.key_visit (lane_id, last_id, tag, finish, blocked, key)
                SELECT p_lane, coalesce(max(k.last_id), 0), greatest(c.tag, max(k.finish)), coalesce(max(k.finish), 0), false, k.key
                FROM known k WHERE k.last_id IS NULL OR k.tag IS NULL -- also where it is blocked: what came may be what it waits for
                GROUP BY k.key ORDER BY min(k.xid), k.key)
        SELECT (SELECT count(*) FROM page) AS n, (SELECT count(*) FROM pair) AS pairs, l.xid, l.key INTO r
            FROM (SELECT 1) AS one LEFT JOIN (SELECT p.xid, p.key FROM page p OFFSET v_page - 1) AS l ON true;
        v_changed := v_changed OR r.n > 0 OR c.end_xid IS NOT NULL OR clock_timestamp() - v_began > '2 ms';
        IF c.end_xid IS NULL THEN c.from_snapshot := c.to_snapshot; END IF;
        c.to_snapshot := v_to;
        c.end_xid := r.xid;
        c.end_key := r.key;
        v_pages := v_pages + 1;
        EXIT WHEN v_fresh AND c.end_xid IS NULL OR v_pages >= 64 AND clock_timestamp() - v_began > '20 ms';
        v_page := CASE WHEN r.pairs * 8 > v_page THEN least(v_page * 4, 1024) ELSE greatest(v_page / 4, 64) END;
    END LOOP;
    IF v_changed THEN
        INSERT INTO {schema}.key_cursor SELECT c.lane_id, c.n + 1, c.from_snapshot, c.to_snapshot, c.end_xid, c.end_key, c.tag, c.turn, c.folded;
    END IF;
    RETURN c.end_xid IS NOT NULL;
END $$;

-- claim_keyed(...): claims of one keyed lane. Result as claim; the setting windlass.keyed says how many jobs.
-- Cost (the settings leave the planner the indexes that are in order: a sort walks a whole bulk): for each key that has its turn a few probes and a row, and 5 us for each job, whose row is copied.
CREATE OR REPLACE FUNCTION {schema}.claim_keyed(
    p_worker integer, p_lane integer, p_limit integer, p_bytes bigint, p_kinds text[], p_call bigint, p_queue integer, p_priority smallint, p_name text)
    RETURNS TABLE (head bigint[], xid xid8, id bigint, attempt smallint, max_attempts smallint,
                   crash_count smallint, enqueued_at timestamptz, kind text, args json, attributes text)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    c {schema}.key_cursor;
    d {schema}.key_limit; -- of keys that are not named
    v_named   boolean;
    v_slots   boolean := {schema}.keys_have_slots(p_name);
    v_gone    boolean;
    v_segment smallint := {schema}.current_segment();
    v_wakeup  text := coalesce(current_setting('windlass.wakeup', true), '');
    v_seq     bigint;
    v_left    integer := p_limit;
    v_bytes   bigint := p_bytes;
    v_more    boolean;
    v_back    boolean := false;
    v_got     integer;
BEGIN
    -- What waits for a worker that knows its kind stands in the order of its key again.
    IF EXISTS (SELECT 1 FROM {schema}.waiting h WHERE h.lane_id = p_lane AND h.state = 'no_handler')
       AND NOT coalesce(pg_visible_in_snapshot(pg_current_xact_id_if_assigned(), ({schema}.key_cursor_of(p_lane)).to_snapshot), false) THEN
        v_back := {schema}.return_no_handler(p_lane, p_kinds);
    END IF;
    v_more := {schema}.notice_keys(p_lane) OR v_back;
    SELECT * INTO d FROM {schema}.key_limit k WHERE k.queue = p_name AND k.key = '';
    v_named := EXISTS (SELECT 1 FROM {schema}.key_limit k WHERE k.queue = p_name AND k.key > '');
    PERFORM set_config('windlass.wakeup', 'off', true); -- these rows of the log are nothing new
    FOR pass IN 1..8 LOOP
        EXIT WHEN v_left <= 0 OR v_bytes <= 0;
        c := {schema}.key_cursor_of(p_lane);
        v_gone := EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.lane_id = p_lane);
        v_seq := coalesce((SELECT k.seq FROM {schema}.claim k WHERE k.lane_id = p_lane ORDER BY k.seq DESC LIMIT 1), 0) + 1;
        RETURN QUERY
        WITH turn AS MATERIALIZED (
            SELECT row_number() OVER (ORDER BY v.tag, v.n) AS ord, v.key, v.n, v.tag, v.last_id, m.serial, h.ids, h.seqs, h.lanes,
                   CASE WHEN v.key = '' THEN 1 ELSE coalesce(m.weight, d.weight, 1) END::integer AS weight,
                   m.most IS NOT NULL AND v.key <> '' AS slots,
                   v.n = (SELECT x.n FROM {schema}.key_visit x WHERE x.lane_id = p_lane AND x.key = v.key ORDER BY x.n DESC LIMIT 1) AS valid,
                   CASE WHEN m.most IS NULL OR v.key = '' THEN 2147483647
                        ELSE greatest(m.most - coalesce(h.held, 0), 0) END::integer AS room,
                   m.serial AND coalesce(cardinality(h.ids), 0) > 0 AS again, -- one that was tried goes first
                   coalesce(h.stale, false) AS stale
            FROM (SELECT v.* FROM {schema}.key_visit v WHERE v.lane_id = p_lane AND v.tag IS NOT NULL AND (v.tag, v.n) > (c.tag, c.turn)
                  ORDER BY v.tag, v.n LIMIT v_left) AS v
            LEFT JOIN LATERAL (SELECT * FROM {schema}.key_limit k WHERE v_named AND k.queue = p_name AND k.key = v.key AND v.key <> '') AS k ON true
            CROSS JOIN LATERAL (
                SELECT CASE WHEN k.key IS NULL THEN d.weight ELSE k.weight END AS weight,
                       v.key <> '' AND coalesce(CASE WHEN k.key IS NULL THEN d.serial ELSE k.serial END, false) AS serial,
                       CASE WHEN k.key IS NULL THEN CASE WHEN d.serial THEN 1 ELSE d.concurrency END
                            WHEN k.serial THEN 1 ELSE k.concurrency END AS most) AS m
            LEFT JOIN LATERAL (
                SELECT o.*, h.held, cardinality(h.ids) <> cardinality(o.ids) AS stale FROM (
                    SELECT h.ids, h.seqs, h.lanes, cardinality(array_remove(h.seqs, 0)) AS held FROM {schema}.key_hold h
                    WHERE v_slots AND m.most IS NOT NULL AND h.queue = p_name AND h.key = v.key ORDER BY h.n DESC LIMIT 1) AS h
                CROSS JOIN LATERAL ( -- what was cancelled where it stood in the log is over, and nobody said so
                    SELECT coalesce(array_agg(e.id), '{}') AS ids, coalesce(array_agg(e.seq), '{}') AS seqs, coalesce(array_agg(e.lane), '{}') AS lanes
                    FROM unnest(h.ids, h.seqs, h.lanes) AS e(id, seq, lane)
                    WHERE CASE WHEN m.serial AND h.held = 0 THEN {schema}.key_pending(e.id, p_name) ELSE true END) AS o) AS h ON true
        ), share AS (
            SELECT t.*, least(t.room, ceil(t.weight::double precision * v_left
                                           / sum(t.weight) FILTER (WHERE t.valid AND t.room > 0) OVER ())::integer) AS take
            FROM turn t
        ), sized AS (SELECT s.*, CASE WHEN s.valid AND s.take > 0 THEN s.take + 1 ELSE 0 END AS look FROM share s
        ), candidate AS MATERIALIZED (
            SELECT t.ord, t.key, t.n, t.tag, t.last_id, t.weight, t.serial, t.slots, t.valid, t.room, t.again, t.stale, t.take,
                   j.way, j.run, j.high, j.xid, j.id, j.attempt, j.max_attempts, j.crash_count, j.enqueued_at, j.kind, j.args, j.attributes,
                   row_number() OVER (PARTITION BY t.ord ORDER BY j.way, j.id) AS nth,
                   CASE WHEN row_number() OVER (PARTITION BY t.ord ORDER BY j.way, j.id) = 1 THEN t.ids END AS ids,
                   CASE WHEN row_number() OVER (PARTITION BY t.ord ORDER BY j.way, j.id) = 1 THEN t.seqs END AS seqs,
                   CASE WHEN row_number() OVER (PARTITION BY t.ord ORDER BY j.way, j.id) = 1 THEN t.lanes END AS lanes,
                   v_gone AND EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = j.id AND s.lane_id = p_lane AND s.xid = j.xid) AS gone
            FROM sized t LEFT JOIN LATERAL (
                (SELECT 1 AS way, l.id AS run, l.high, j.xid, j.id, j.attempt, j.max_attempts, j.crash_count, j.enqueued_at, j.kind, j.args, j.attributes
                 FROM (SELECT * FROM {schema}.key_late l WHERE NOT t.again AND l.lane_id = p_lane AND l.key = t.key ORDER BY l.id LIMIT t.look) AS l
                 CROSS JOIN LATERAL (
                     SELECT j.* FROM {schema}.job j
                     WHERE j.lane_id = p_lane AND j.lane_id < 0 AND j.xid < '{direct}'
                       AND (j.xid, {schema}.key_of(j.attributes), j.id) >= (l.xid, t.key, l.id)
                       AND (j.xid, {schema}.key_of(j.attributes), j.id) <= (l.xid, t.key, l.high)
                     ORDER BY j.xid, {schema}.key_of(j.attributes), j.id LIMIT t.look) AS j
                 ORDER BY j.id LIMIT t.look)
                UNION ALL
                (SELECT 2, NULL, NULL, j.xid, j.id, j.attempt, j.max_attempts, j.crash_count, j.enqueued_at, j.kind, j.args, j.attributes
                 FROM {schema}.job j
                 WHERE NOT t.again AND j.lane_id = p_lane AND j.lane_id < 0 AND j.xid < '{direct}'
                   AND {schema}.key_of(j.attributes) = t.key AND j.id > t.last_id
                   AND {schema}.key_noticed(c.from_snapshot, c.to_snapshot, c.end_xid, c.end_key, j.xid, t.key)
                 ORDER BY j.id LIMIT t.look)
                UNION ALL
                (SELECT 3, l.id, l.high, j.xid, j.id, j.attempt, j.max_attempts, j.crash_count, j.enqueued_at, j.kind, j.args, j.attributes
                 FROM unnest(t.ids) AS b
                 CROSS JOIN LATERAL (
                     SELECT j.* FROM {schema}.job j
                     WHERE t.again AND j.lane_id = p_lane AND j.lane_id < 0 AND j.xid < '{direct}'
                       AND ({schema}.key_of(j.attributes), j.id) >= (t.key, b) AND ({schema}.key_of(j.attributes), j.id) <= (t.key, b)
                       AND {schema}.key_noticed(c.from_snapshot, c.to_snapshot, c.end_xid, c.end_key, j.xid, t.key)
                       AND {schema}.key_unclaimed(p_lane, j.xid, j.id, t.key)
                       AND NOT EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.job_id = j.id AND s.lane_id = p_lane AND s.xid = j.xid)
                     ORDER BY {schema}.key_of(j.attributes), j.id LIMIT 1) AS j
                 LEFT JOIN LATERAL (SELECT l.id, l.high FROM {schema}.key_late l
                                    WHERE l.lane_id = p_lane AND l.key = t.key AND l.xid = j.xid AND l.id <= j.id AND l.high >= j.id LIMIT 1) AS l ON true
                 LIMIT t.look)
                LIMIT t.look) AS j ON true
        ), marked AS MATERIALIZED (
            SELECT x.*, x.id IS NOT NULL AND x.nth <= x.take AND x.place <= v_left AND (x.bytes <= v_bytes OR x.place = 1) AS chosen FROM (
                SELECT y.*, row_number() OVER w AS place, sum(octet_length(y.args::text)) OVER w AS bytes FROM candidate y
                WINDOW w AS (ORDER BY (y.id IS NULL OR y.nth > y.take), y.tag + (y.nth - 1) / y.weight::double precision, y.ord, y.nth
                             ROWS UNBOUNDED PRECEDING)) AS x
        ), result AS MATERIALIZED (
            SELECT m.ord, m.key, m.n, m.tag, m.last_id, m.weight, m.serial, m.slots, m.valid, m.room, m.again,
                   max(m.ids) AS ids, max(m.seqs) AS seqs, max(m.lanes) AS lanes, count(m.id) AS seen, count(*) FILTER (WHERE m.chosen) AS passed, count(*) FILTER (WHERE m.chosen AND NOT m.gone) AS taken,
                   max(m.id) FILTER (WHERE m.chosen AND m.way = 2) AS last,
                   bool_or(m.stale) AS stale, array_agg(m.id) FILTER (WHERE m.chosen AND m.slots AND NOT m.gone) AS got
            FROM marked m GROUP BY m.ord, m.key, m.n, m.tag, m.last_id, m.weight, m.serial, m.slots, m.valid, m.room, m.again
        ), stop AS MATERIALIZED (SELECT min(r.ord) AS ord FROM result r WHERE r.seen > 0 AND r.passed = 0
        ), taken AS MATERIALIZED (SELECT r.* FROM result r, stop s WHERE s.ord IS NULL OR r.ord < s.ord
        ), now AS MATERIALIZED (SELECT t.tag, t.n FROM taken t ORDER BY t.ord DESC LIMIT 1
        ), visited AS (
            INSERT INTO {schema}.key_visit (lane_id, last_id, tag, finish, blocked, key)
            SELECT p_lane, coalesce(t.last, t.last_id), x.tag, t.tag + t.taken / t.weight::double precision,
                   x.tag IS NULL AND (t.seen > t.passed OR t.taken > 0 AND t.serial OR t.seen = 0 AND (t.room = 0 OR t.again)), t.key
            FROM taken t, now, LATERAL (
                SELECT CASE WHEN t.passed > 0 AND t.taken = 0 OR t.seen > t.passed AND t.room > t.taken AND NOT (t.serial AND t.taken > 0)
                            THEN greatest(t.tag + t.taken / t.weight::double precision, now.tag) END AS tag) AS x
            WHERE t.valid ORDER BY t.ord
        ), moved AS (
            INSERT INTO {schema}.key_cursor
                SELECT c.lane_id, c.n + 1, c.from_snapshot, c.to_snapshot, c.end_xid, c.end_key, now.tag, now.n, c.folded FROM now
        ), split AS MATERIALIZED (
            SELECT m.key, m.run, m.high, m.xid, min(m.id) AS low_id, max(m.id) AS high_id FROM marked m WHERE m.chosen AND m.run IS NOT NULL
            GROUP BY m.key, m.run, m.high, m.xid
        ), used AS (
            DELETE FROM {schema}.key_late l USING split s WHERE l.lane_id = p_lane AND l.key = s.key AND l.id = s.run AND l.xid = s.xid
        ), kept AS (
            INSERT INTO {schema}.key_late (lane_id, key, id, xid, high)
            SELECT p_lane, s.key, o.id, s.xid, p.high FROM split s
            CROSS JOIN LATERAL (VALUES (s.run, s.low_id - 1), (s.high_id + 1, s.high)) AS p(low, high)
            CROSS JOIN LATERAL (
                SELECT j.id FROM {schema}.job j
                WHERE j.lane_id = p_lane AND j.lane_id < 0 AND j.xid < '{direct}'
                  AND (j.xid, {schema}.key_of(j.attributes), j.id) >= (s.xid, s.key, p.low)
                  AND (j.xid, {schema}.key_of(j.attributes), j.id) <= (s.xid, s.key, p.high)
                ORDER BY j.xid, {schema}.key_of(j.attributes), j.id LIMIT 1) AS o
            WHERE p.low <= p.high
        ), aside AS ( -- its key is not there yet
            INSERT INTO {schema}.cancelled_in_log (job_id, lane_id, xid)
                SELECT m.id, p_lane, m.xid FROM marked m WHERE m.chosen AND m.way = 3 AND m.run IS NULL
        ), stepped AS (
            DELETE FROM {schema}.cancelled_in_log s USING (
                SELECT m.id, m.xid FROM marked m WHERE m.chosen AND m.gone OFFSET 0) AS g
            WHERE s.job_id = g.id AND s.lane_id = p_lane AND s.xid = g.xid
        ), held AS (
            INSERT INTO {schema}.key_hold (ids, seqs, lanes, queue, key)
            SELECT coalesce(k.ids, '{}') || coalesce(t.got, '{}'), coalesce(k.seqs, '{}') || array_fill(v_seq, ARRAY[t.taken::integer]),
                   coalesce(k.lanes, '{}') || array_fill(p_lane, ARRAY[t.taken::integer]), p_name, t.key
            FROM taken t CROSS JOIN LATERAL (
                SELECT array_agg(e.id) AS ids, array_agg(e.seq) AS seqs, array_agg(e.lane) AS lanes
                FROM unnest(t.ids, t.seqs, t.lanes) AS e(id, seq, lane) WHERE e.id <> ALL (coalesce(t.got, '{}'))) AS k
            WHERE t.valid AND t.slots AND (t.got IS NOT NULL OR t.stale)
        ), logged AS (
            INSERT INTO {schema}.job (xid, id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
            SELECT ({direct} + v_seq)::text::xid8, m.id, m.enqueued_at, p_lane, v_segment, m.attempt, m.max_attempts, m.crash_count, true,
                   m.kind, m.args, m.attributes
            FROM marked m WHERE m.chosen AND NOT m.gone
        ), counted AS MATERIALIZED (
            SELECT count(*) AS n, set_config('windlass.bytes', coalesce(sum(octet_length(m.args::text)), 0)::text, true) AS bytes
            FROM marked m WHERE m.chosen AND NOT m.gone
        ), appended AS (
            INSERT INTO {schema}.claim (seq, worker_call, lane_id, token, worker_id, job_count, segment, from_snapshot, to_snapshot, direct, event_pos, event_late)
            SELECT v_seq, p_call, p_lane, (random() * 2147483647)::integer, p_worker, k.n, v_segment, '4:4:', '4:4:', true,
                   {schema}.event_position(), {schema}.event_late()
            FROM counted k WHERE k.n > 0 AND k.bytes IS NOT NULL
            RETURNING ARRAY[lane_id, seq, token, job_count, p_queue, p_priority] AS head)
        SELECT a.head, NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
               clock_timestamp(), NULL::text, NULL::json, NULL::text FROM appended a
        UNION ALL
        (SELECT NULL::bigint[], ({direct} + v_seq)::text::xid8, m.id, nullif(m.attempt, 0), nullif(m.max_attempts, 20), nullif(m.crash_count, 0),
                m.enqueued_at, m.kind, m.args, m.attributes
         FROM marked m WHERE m.chosen AND NOT m.gone ORDER BY m.place);
        GET DIAGNOSTICS v_got = ROW_COUNT;
        v_left := v_left - greatest(v_got - 1, 0);
        v_bytes := v_bytes - coalesce(nullif(current_setting('windlass.bytes', true), '')::bigint, 0);
        v_more := v_more OR v_bytes <= 0;
        c := {schema}.key_cursor_of(p_lane);
        EXIT WHEN NOT EXISTS (SELECT 1 FROM {schema}.key_visit v WHERE v.lane_id = p_lane AND v.tag IS NOT NULL AND (v.tag, v.n) > (c.tag, c.turn));
        v_more := v_more OR pass = 8 OR v_got > 1 AND v_bytes < p_bytes / 2;
        EXIT WHEN v_got > 1 AND v_bytes < p_bytes / 2;
    END LOOP;
    PERFORM set_config('windlass.bytes', '', true), set_config('windlass.wakeup', v_wakeup, true),
            set_config('windlass.keyed', (p_limit - v_left)::text, true);
    IF v_more AND v_left > 0 THEN
        RETURN QUERY SELECT ARRAY[0, 0, 0, 0, 0, 0]::bigint[], NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
                            NULL::timestamptz, NULL::text, NULL::json, NULL::text;
    END IF;
END $$;

-- return_no_handler(lane, kinds): jobs that wait for a handler of these kinds stand in the log again. At most 1,000. Whether there were any.
CREATE OR REPLACE FUNCTION {schema}.return_no_handler(p_lane integer, p_kinds text[]) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    WITH taken AS (
        DELETE FROM {schema}.waiting h WHERE h.id = ANY (ARRAY(
            SELECT w.id FROM {schema}.waiting w WHERE w.lane_id = p_lane AND w.state = 'no_handler' AND (p_kinds = '{}' OR w.kind = ANY (p_kinds))
            ORDER BY w.available_at, w.id LIMIT 1000 FOR UPDATE SKIP LOCKED))
        RETURNING h.*)
    INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
        SELECT t.id, t.enqueued_at, t.lane_id, {schema}.current_segment(), t.attempt, t.max_attempts, t.crash_count, true, t.kind, t.args, t.attributes
        FROM taken t ORDER BY t.id;
    RETURN FOUND;
END $$;

-- move_to_keyed(lane, queue, priority): the jobs of a lane without keys move to the keyed lane of the same priority. At most 10,000. Whether there were any. Under both locks.
CREATE OR REPLACE FUNCTION {schema}.move_to_keyed(p_lane integer, p_queue text, p_priority integer) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off
AS $$
#variable_conflict use_column
DECLARE
    c      record;
    v_lo   xid8[]; v_lo_id bigint[]; v_hi xid8[];
    v_from pg_snapshot;
    v_to   pg_snapshot;
    r      record;
    v_lane integer := {schema}.keyed_lane(p_queue, p_priority);
    v_gone boolean := EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s WHERE s.lane_id = p_lane);
BEGIN
    UPDATE {schema}.waiting h SET lane_id = v_lane WHERE h.lane_id = p_lane AND h.state = 'no_handler';
    FOR pass IN 1..2 LOOP
        SELECT k.seq, k.from_snapshot, k.to_snapshot, k.end_xid, k.end_id INTO c FROM {schema}.claim k WHERE k.lane_id = p_lane ORDER BY k.seq DESC LIMIT 1;
        IF c.end_xid IS NULL THEN
            v_from := coalesce(c.to_snapshot, '4:4:');
            v_to := pg_current_snapshot();
            SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(v_from, v_to) d;
            v_lo_id := array_fill(0::bigint, ARRAY[cardinality(v_lo)]);
        ELSE
            v_from := c.from_snapshot;
            v_to := c.to_snapshot;
            SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(v_from, v_to) d;
            SELECT a.lo, a.lo_id, a.hi INTO v_lo, v_lo_id, v_hi FROM {schema}.after(v_lo, v_hi, c.end_xid, c.end_id) a;
        END IF;
        WITH batch AS MATERIALIZED (
            SELECT j.* FROM unnest(v_lo, v_lo_id, v_hi) AS r(lo, lo_id, hi)
            CROSS JOIN LATERAL (
                SELECT j.* FROM {schema}.job j WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                ORDER BY j.xid, j.id LIMIT 10000) AS j
            LIMIT 10000
        ), gone AS MATERIALIZED (
            DELETE FROM {schema}.cancelled_in_log s WHERE v_gone AND s.lane_id = p_lane AND s.job_id = ANY (ARRAY(SELECT b.id FROM batch b WHERE v_gone)) RETURNING s.job_id
        ), put AS (
            INSERT INTO {schema}.job (id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
            SELECT b.id, b.enqueued_at, v_lane, {schema}.current_segment(), b.attempt, b.max_attempts, b.crash_count, true, b.kind, b.args, b.attributes
            FROM batch b WHERE NOT EXISTS (SELECT 1 FROM gone g WHERE g.job_id = b.id) ORDER BY b.xid, b.id)
        SELECT (SELECT count(*) FROM batch) AS n, l.xid, l.id INTO r FROM (SELECT 1) AS one LEFT JOIN (SELECT b.xid, b.id FROM batch b OFFSET 9999) AS l ON true;
        -- An empty claim moves the cursor on.
        IF r.n > 0 OR c.end_xid IS NOT NULL THEN
            INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, lane_id, token, worker_id, job_count, segment, from_snapshot, to_snapshot)
                VALUES (coalesce(c.seq, 0) + 1, c.end_xid, c.end_id, r.xid, r.id, 0, p_lane, 0, 0, 0, {schema}.current_segment(), v_from, v_to);
        END IF;
        IF r.n > 0 THEN RETURN true; END IF;
        EXIT WHEN c.end_xid IS NULL;
    END LOOP;
    RETURN false;
END $$;

-- keyed_queues(queues): before claims of them: what their workers left behind is known, and jobs in lanes without keys move over. Result: those that nobody else is at,
-- by their place; and whether there is more to move.
CREATE OR REPLACE FUNCTION {schema}.keyed_queues(p_queues text[], OUT mine bigint[], OUT more boolean)
    LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    q record;
    l record;
BEGIN
    mine := '{}';
    more := false;
    FOR q IN SELECT u.name, u.n, coalesce(x.keyed, false) AS keyed FROM unnest(p_queues) WITH ORDINALITY AS u(name, n)
             LEFT JOIN {schema}.queue x ON x.name = u.name
             WHERE x.keyed OR EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.queue = u.name AND l.id < 0) LOOP
        IF NOT {schema}.lock_keys(q.name, false) THEN
            more := true;
            CONTINUE;
        END IF;
        mine := mine || q.n;
        FOR l IN SELECT x.id, x.priority FROM {schema}.lane x WHERE q.keyed AND x.queue = q.name AND x.id > 0 LOOP
            IF pg_try_advisory_xact_lock(hashtext({name} || '.lane'), l.id) THEN
                more := {schema}.move_to_keyed(l.id, q.name, l.priority) OR more;
            ELSE
                more := true;
            END IF;
        END LOOP;
        IF {schema}.keys_have_slots(q.name) THEN PERFORM {schema}.fold_keys(q.name); END IF;
    END LOOP;
END $$;
