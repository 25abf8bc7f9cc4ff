-- Jobs of keyed queues that are handed out when they are read from the log, and never wait for their key's turn. They run inside claim.

-- claim_fresh(...): reads so much of the log of a lane without keys, where no key of its keyed lane is in turn, hands out what is in turn and has room by a direct
-- claim of the keyed lane, and leaves the rest to wait there, as route and claim_keyed would. Result as claim; settings as those of claim_straight. It does nothing
-- (windlass.keyed_rest: route) where the args are too large, and where the log holds more and order matters (p_order).
-- Under the locks of the queue and of both lanes.
-- Cost: for each job a row of the log, or of waiting; for each key a row of key_turn and, where it is limited, one of key_room, and of key_held for each of its jobs.
CREATE OR REPLACE FUNCTION {schema}.claim_fresh(
    p_worker integer, p_lane integer, p_keyed integer, p_limit integer, p_bytes bigint, p_read integer, p_order boolean, p_call bigint, p_queue integer,
    p_priority smallint, p_name text)
    RETURNS TABLE (head bigint[], xid xid8, id bigint, attempt smallint, max_attempts smallint,
                   crash_count smallint, enqueued_at timestamptz, kind text, args json, attributes text)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0
    SET extra_float_digits = 1 -- tags go through a setting, and come back as they were
AS $$
#variable_conflict use_column
DECLARE
    c         record;
    v_cursor  record;
    v_lane    {schema}.key_lane := {schema}.key_lane_of(p_keyed);
    v_turn    bigint := nextval('{schema}.key_turn_seq'); -- turns that are given from here on come after it
    d         {schema}.key_limit; -- of keys that are not named
    v_named   boolean := EXISTS (SELECT 1 FROM {schema}.key_limit l WHERE l.queue = p_name AND l.key > '');
    v_segment smallint := {schema}.current_segment();
    v_seq     bigint;
    v_began   timestamptz;
    v_got     integer;
BEGIN
    SELECT * INTO c FROM {schema}.log_ahead(p_lane);
    PERFORM set_config('windlass.keyed', '0', true), set_config('windlass.keyed_rest', 'route', true), set_config('windlass.keyed_at', '', true);
    IF c.open AND p_order THEN RETURN; END IF;
    SELECT * INTO d FROM {schema}.key_limit l WHERE l.queue = p_name AND l.key = '';
    SELECT k.seq, k.start_xid, k.start_id, k.end_xid, k.end_id, k.from_snapshot, k.to_snapshot INTO v_cursor
        FROM {schema}.claim k WHERE k.lane_id = p_keyed ORDER BY k.seq DESC LIMIT 1;
    v_seq := coalesce(v_cursor.seq, 0) + 1;
    v_began := clock_timestamp();
    RETURN QUERY
    WITH batch AS MATERIALIZED (
        SELECT row_number() OVER () AS place, {schema}.read_key(j.attributes) AS key, j.* FROM (
            SELECT j.* FROM unnest(c.lo, c.lo_id, c.hi) AS r(lo, lo_id, hi)
            CROSS JOIN LATERAL (
                SELECT j.xid, j.id, j.moved, j.attempt, j.max_attempts, j.crash_count, j.enqueued_at, j.kind, j.args, j.attributes FROM {schema}.job j
                WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                ORDER BY j.xid, j.id LIMIT p_read + 1) AS j
            LIMIT p_read + 1) AS j
    ), counted AS MATERIALIZED (
        SELECT f.*, set_config('windlass.keyed_rest', CASE WHEN f.n = 0 THEN 'none' WHEN NOT f.fits THEN 'route' WHEN f.more THEN 'more' ELSE '' END, true),
               set_config('windlass.keyed_bytes', f.bytes::text, true) FROM (
            SELECT least(x.n, p_read) AS n, x.n > p_read AS more, x.bytes, x.n > 0 AND x.bytes <= p_bytes AND (x.n <= p_read OR NOT p_order) AS fits FROM (
                -- What they are, not stored, is added up only where it matters, as in claim.
                SELECT s.n, CASE WHEN s.stored * 100 <= p_bytes OR s.stored > p_bytes THEN s.stored ELSE (SELECT sum(octet_length(b.args::text)) FROM batch b) END AS bytes
                FROM (SELECT count(*) AS n, coalesce(sum(pg_column_size(b.args)), 0) AS stored FROM batch b) AS s) AS x OFFSET 0) AS f
    ), last AS (SELECT b.xid, b.id FROM batch b WHERE b.place = p_read AND (SELECT c.more FROM counted c)
    ), gone AS MATERIALIZED ( -- by the primary key: + 0 hides the index of all that the lane has
        DELETE FROM {schema}.cancelled_in_log s WHERE c.cancelled AND s.lane_id + 0 = p_lane AND s.job_id = ANY (ARRAY(
            SELECT b.id FROM batch b WHERE c.cancelled AND b.place <= p_read AND (SELECT c.fits FROM counted c)))
        RETURNING s.job_id
    ), told AS ( -- as in route
        INSERT INTO {schema}.key_signal (lane_id, job_id, is_over, key)
        SELECT p_keyed, b.id, false, b.key FROM batch b WHERE c.cancelled AND {schema}.keys_are_serial(p_name) AND b.key <> '' AND b.id = ANY (ARRAY(SELECT g.job_id FROM gone g))
    ), page AS MATERIALIZED ( -- of the first job of each key: what is known of it. One sort by key serves all windows
        SELECT s.*, s.begins + (s.nth - 1) / s.weight AS starts FROM (
            SELECT b.*, t.gone, t.low_id, t.blocked, t.finish, h.held, h.ended, h.begun, h.room_gone, m.serial, m.rate, m.limited, m.room AS has_room,
                   greatest(v_lane.tag, max(t.finish) OVER w) AS begins, max(m.weight) OVER w AS weight,
                   max(CASE WHEN t.blocked OR m.serial AND h.begun <> '{}' THEN 0 ELSE m.room END) OVER w AS room
            FROM (SELECT b.place, b.id, row_number() OVER (PARTITION BY b.key ORDER BY b.id) AS nth, b.key FROM batch b
                  WHERE b.place <= p_read AND (SELECT c.fits FROM counted c) AND (NOT c.cancelled OR b.id <> ALL (ARRAY(SELECT g.job_id FROM gone g)))) AS b
            LEFT JOIN LATERAL (
                SELECT t.finish, t.low_id, t.blocked, t.ctid AS gone FROM {schema}.key_turn t
                WHERE b.nth = 1 AND t.lane_id = p_keyed AND t.key = b.key ORDER BY t.n DESC LIMIT 1) AS t ON true
            LEFT JOIN LATERAL (SELECT * FROM {schema}.key_limit l WHERE v_named AND b.nth = 1 AND b.key <> '' AND l.queue = p_name AND l.key = b.key) AS l ON true
            LEFT JOIN LATERAL (
                SELECT h.held, h.ended, h.begun, h.ctid AS room_gone FROM {schema}.key_room h WHERE b.nth = 1 AND h.queue = p_name AND h.key = b.key AND b.key <> ''
                ORDER BY h.n DESC LIMIT 1) AS h ON true
            LEFT JOIN LATERAL (
                SELECT x.serial, x.rate, x.weight, x.most IS NOT NULL OR x.rate IS NOT NULL AS limited,
                       greatest(least(x.most - coalesce(h.held, 0), x.rate - coalesce(h.held, 0) - coalesce(h.ended, 0), 2147483647), 0) AS room
                FROM (SELECT CASE WHEN b.key = '' THEN 1 WHEN l.key IS NULL THEN coalesce(d.weight, 1) ELSE l.weight END::double precision AS weight,
                             b.key <> '' AND coalesce(CASE WHEN l.key IS NULL THEN d.serial ELSE l.serial END, false) AS serial,
                             CASE WHEN b.key = '' THEN NULL WHEN l.key IS NULL THEN CASE WHEN d.serial THEN 1 ELSE d.concurrency END
                                  WHEN l.serial THEN 1 ELSE l.concurrency END AS most,
                             CASE WHEN b.key = '' THEN NULL WHEN l.key IS NULL THEN d.rate ELSE l.rate END AS rate) AS x WHERE b.nth = 1 OFFSET 0) AS m ON true
            WINDOW w AS (PARTITION BY b.key)) AS s
    ), picked AS MATERIALIZED (
        SELECT p.*, p.nth <= p.room AND row_number() OVER (ORDER BY p.nth > p.room, p.starts, p.place) <= p_limit AS chosen FROM page p
    ), now AS MATERIALIZED (SELECT coalesce(max(p.starts), v_lane.tag) AS tag, set_config('windlass.keyed_at', max(p.starts)::text, true) FROM picked p WHERE p.chosen
    ), result AS MATERIALIZED (
        SELECT k.*, CASE WHEN k.rest = 0 THEN NULL
                         WHEN k.has_room > k.taken AND (k.blocked OR k.serial AND k.begun <> '{}' AND k.taken = 0) THEN greatest(n.tag, k.finish)
                         WHEN k.has_room > k.taken AND NOT (k.serial AND k.taken > 0) THEN greatest(n.tag, k.begins + k.taken / k.weight) END AS tag,
               n.tag AS now FROM (
            SELECT p.key, max(p.begins) AS begins, max(p.weight) AS weight, max(p.has_room) AS has_room, max(p.gone) AS gone, max(p.low_id) AS low_id,
                   coalesce(bool_or(p.blocked), false) AS blocked, max(p.finish) AS finish, coalesce(max(p.held), 0) AS held, coalesce(max(p.ended), 0) AS ended,
                   coalesce(max(p.begun), '{}') AS begun, max(p.room_gone) AS room_gone, bool_or(p.serial) AS serial, bool_or(p.limited) AS limited, max(p.rate) AS rate,
                   count(*) FILTER (WHERE p.chosen)::integer AS taken, count(*) FILTER (WHERE NOT p.chosen) AS rest, min(p.id) FILTER (WHERE NOT p.chosen) AS low,
                   CASE WHEN bool_or(p.limited) THEN array_agg(p.id) FILTER (WHERE p.chosen) END AS ids
            FROM picked p GROUP BY p.key) AS k CROSS JOIN now n
    ), was AS (
        DELETE FROM {schema}.key_turn t WHERE t.ctid = ANY (ARRAY(
            SELECT r.gone FROM result r WHERE r.gone IS NOT NULL AND (r.taken > 0 OR r.tag IS NOT NULL OR NOT r.blocked OR r.low < r.low_id)))
    ), turned AS (
        INSERT INTO {schema}.key_turn (lane_id, low_id, tag, finish, blocked, due_at, key)
        SELECT p_keyed, CASE WHEN r.blocked THEN least(r.low, r.low_id) ELSE coalesce(r.low, 9223372036854775807) END, r.tag,
               CASE WHEN r.taken > 0 THEN r.begins + r.taken / r.weight ELSE coalesce(r.finish, 0) END, r.rest > 0 AND r.tag IS NULL,
               CASE WHEN r.rest > 0 AND r.tag IS NULL AND r.ended > 0 AND r.held + r.taken + r.ended >= r.rate THEN (
                   SELECT e.free_at FROM {schema}.key_ended e WHERE e.queue = p_name AND e.key = r.key AND e.free_at > {schema}.keys_looked(p_name)
                   ORDER BY e.queue, e.key, e.free_at LIMIT 1) END, r.key
        FROM result r
        WHERE CASE WHEN r.rest = 0 THEN r.begins + r.taken / r.weight > r.now
                   ELSE r.taken > 0 OR r.tag IS NOT NULL OR NOT r.blocked OR r.low < r.low_id END
    ), unroomed AS (
        DELETE FROM {schema}.key_room h WHERE h.ctid = ANY (ARRAY(SELECT r.room_gone FROM result r WHERE r.limited AND r.taken > 0 AND r.room_gone IS NOT NULL))
    ), roomed AS (
        INSERT INTO {schema}.key_room (queue, key, held, ended, begun)
        SELECT p_name, r.key, r.held + r.taken, r.ended, CASE WHEN r.serial THEN r.begun || r.ids ELSE '{}' END FROM result r WHERE r.limited AND r.taken > 0
    ), held AS (
        INSERT INTO {schema}.key_held (lane_id, seq, id, key) SELECT p_keyed, v_seq, unnest(r.ids), r.key FROM result r WHERE r.limited AND r.taken > 0
    ), starts AS MATERIALIZED ( -- by place: when it begins; NaN: it is not handed out, NULL: it is gone
        SELECT array_agg(x.starts ORDER BY x.place) AS of, count(*) FILTER (WHERE x.starts <> 'NaN') AS n FROM (
            SELECT p.place, CASE WHEN p.chosen THEN p.starts ELSE 'NaN' END AS starts FROM picked p
            UNION ALL
            SELECT b.place, NULL FROM batch b WHERE c.cancelled AND b.id = ANY (ARRAY(SELECT g.job_id FROM gone g))) AS x
    ), chosen AS MATERIALIZED (
        SELECT b.*, (SELECT s.of FROM starts s)[b.place] AS starts FROM batch b WHERE b.place <= p_read AND (SELECT c.fits FROM counted c)
    ), put AS (
        INSERT INTO {schema}.waiting (id, available_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, moved, state, kind, args, attributes)
        SELECT b.id, CASE WHEN b.moved THEN {schema}.startable_since(b.xid, b.enqueued_at) ELSE b.enqueued_at END, b.enqueued_at, p_keyed, b.attempt, b.max_attempts, b.crash_count, true, 'keyed', b.kind, b.args, b.attributes
        FROM chosen b WHERE b.starts = 'NaN'
    ), logged AS (
        INSERT INTO {schema}.job (xid, id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
        SELECT ({direct} + v_seq)::text::xid8, b.id, b.enqueued_at, p_keyed, v_segment, b.attempt, b.max_attempts, b.crash_count, true, b.kind, b.args, b.attributes
        FROM chosen b WHERE b.starts <> 'NaN'
    ), read AS (
        INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, lane_id, token, worker_id, job_count, segment, from_snapshot, to_snapshot)
        SELECT c.seq + 1, c.start_xid, c.start_id, (SELECT l.xid FROM last l), (SELECT l.id FROM last l), 0, p_lane, 0, 0, 0, v_segment, c.from_snapshot, c.to_snapshot
        FROM counted WHERE fits
    ), appended AS (
        INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, lane_id, token, worker_id, job_count, segment, from_snapshot, to_snapshot,
                                    direct, event_pos, event_late)
        SELECT v_seq, v_cursor.start_xid, v_cursor.start_id, v_cursor.end_xid, v_cursor.end_id, p_call, p_keyed, (random() * 2147483647)::integer, p_worker, s.n, v_segment,
               coalesce(v_cursor.from_snapshot, '4:4:'), coalesce(v_cursor.to_snapshot, '4:4:'), true, {schema}.event_position(), {schema}.event_late()
        FROM starts s WHERE s.n > 0
        RETURNING ARRAY[lane_id, seq, token, job_count, p_queue, p_priority] AS head)
    SELECT a.head, NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
           clock_timestamp(), NULL::text, NULL::json, NULL::text FROM appended a
    UNION ALL
    (SELECT NULL::bigint[], ({direct} + v_seq)::text::xid8, b.id, CASE WHEN b.moved THEN b.attempt END, nullif(b.max_attempts, 20), nullif(b.crash_count, 0), b.enqueued_at, b.kind,
            b.args, b.attributes
     FROM chosen b WHERE b.starts <> 'NaN' ORDER BY b.starts, b.place);
    GET DIAGNOSTICS v_got = ROW_COUNT;
    IF current_setting('windlass.keyed_at') <> '' THEN
        PERFORM {schema}.put_key_lane(v_lane, current_setting('windlass.keyed_at')::double precision, v_turn, v_lane.folded);
    END IF;
    PERFORM set_config('windlass.keyed', greatest(v_got - 1, 0)::text, true);
    PERFORM {schema}.note_rest(c.open, v_began);
END $$;
