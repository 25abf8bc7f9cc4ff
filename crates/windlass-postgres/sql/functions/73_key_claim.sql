-- Claims of what waits for its key's turn. They run inside claim.
--
-- Order: each key that has something has a turn at a virtual time, which its jobs advance by 1 / weight each; the lowest go first. A key that comes (back)
-- begins at the present virtual time (start-time fair queueing). Of a key the lowest id goes first.

-- claim_keyed(...): claims of one keyed lane. Result as claim; the settings windlass.keyed, keyed_bytes and keyed_more say how many jobs, of how many bytes, and
-- whether there is more.
-- Cost (the settings leave the planner the indexes that are in order): for each key that has its turn a few probes and a row, and for each job a row that moves.
CREATE OR REPLACE FUNCTION {schema}.claim_keyed(
    p_worker integer, p_lane integer, p_limit integer, p_bytes bigint, p_kinds text[], p_call bigint, p_queue integer, p_priority smallint, p_name text)
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
    c {schema}.key_lane;
    d {schema}.key_limit; -- of keys that are not named
    v_named   boolean := EXISTS (SELECT 1 FROM {schema}.key_limit k WHERE k.queue = p_name AND k.key > '');
    v_segment smallint := {schema}.current_segment();
    v_seq     bigint;
    v_cursor  record;
    v_left    integer := p_limit;
    v_bytes   bigint := p_bytes;
    v_got     integer;
BEGIN
    SELECT * INTO d FROM {schema}.key_limit k WHERE k.queue = p_name AND k.key = '';
    FOR pass IN 1..8 LOOP
        EXIT WHEN v_left <= 0 OR v_bytes <= 0;
        c := {schema}.key_lane_of(p_lane);
        EXIT WHEN NOT {schema}.key_ready(c);
        SELECT k.seq, k.start_xid, k.start_id, k.end_xid, k.end_id, k.from_snapshot, k.to_snapshot INTO v_cursor
            FROM {schema}.claim k WHERE k.lane_id = p_lane ORDER BY k.seq DESC LIMIT 1;
        v_seq := coalesce(v_cursor.seq, 0) + 1;
        PERFORM set_config('windlass.keyed_at', '', true);
        RETURN QUERY
        WITH turn AS MATERIALIZED (
            SELECT row_number() OVER (ORDER BY t.tag, t.n) AS ord, t.key, t.n, t.tag, t.low_id, m.serial, coalesce(h.begun, '{}') AS begun, coalesce(h.held, 0) AS held, coalesce(h.ended, 0) AS ended, m.rate, h.place AS room_place, t.place AS turn_place,
                   CASE WHEN t.key = '' THEN 1 ELSE coalesce(m.weight, 1) END::integer AS weight,
                   (m.most IS NOT NULL OR m.rate IS NOT NULL) AND t.key <> '' AS limited,
                   CASE WHEN t.key = '' THEN 2147483647
                        ELSE greatest(least(m.most - coalesce(h.held, 0), m.rate - coalesce(h.held, 0) - coalesce(h.ended, 0), 2147483647), 0) END::integer AS room,
                   m.serial AND coalesce(h.begun, '{}') <> '{}' AS again -- one that was begun goes first
            FROM (SELECT t.*, t.ctid AS place FROM {schema}.key_turn t WHERE t.lane_id = p_lane AND t.tag IS NOT NULL AND (t.tag, t.n) > (c.tag, c.turn)
                  ORDER BY t.tag, t.n LIMIT v_left) AS t
            LEFT JOIN LATERAL (SELECT * FROM {schema}.key_limit k WHERE v_named AND k.queue = p_name AND k.key = t.key AND t.key <> '') AS k ON true
            CROSS JOIN LATERAL (
                SELECT CASE WHEN k.key IS NULL THEN d.weight ELSE k.weight END AS weight,
                       t.key <> '' AND coalesce(CASE WHEN k.key IS NULL THEN d.serial ELSE k.serial END, false) AS serial,
                       CASE WHEN k.key IS NULL THEN CASE WHEN d.serial THEN 1 ELSE d.concurrency END
                            WHEN k.serial THEN 1 ELSE k.concurrency END AS most,
                       CASE WHEN t.key = '' THEN NULL WHEN k.key IS NULL THEN d.rate ELSE k.rate END AS rate) AS m
            LEFT JOIN LATERAL (SELECT h.*, h.ctid AS place FROM {schema}.key_room h WHERE (m.most IS NOT NULL OR m.rate IS NOT NULL) AND h.queue = p_name AND h.key = t.key
                               ORDER BY h.n DESC LIMIT 1) AS h ON true
        ), share AS ( -- one more than it takes is looked at: whether it has more
            SELECT s.*, CASE WHEN s.take > 0 THEN s.take + 1 ELSE 0 END AS look FROM (
                SELECT t.*, coalesce(least(t.room, ceil(t.weight::double precision * v_left / sum(t.weight) FILTER (WHERE t.room > 0) OVER ())::integer), 0) AS take
                FROM turn t) AS s
        ), candidate AS MATERIALIZED ( -- each key's jobs by their ids, as the index has them; nth: of its key, at: of all
            SELECT t.ord, t.key, t.limited, t.tag, t.weight, t.take, row_number() OVER () AS at, coalesce(j.nth, 1) AS nth, j.stands, j.id, j.attempt, j.max_attempts, j.crash_count,
                   j.enqueued_at, j.kind, j.args, j.attributes
            FROM share t LEFT JOIN LATERAL (SELECT row_number() OVER () AS nth, j.* FROM (
                (SELECT h.ctid AS stands, h.id, h.attempt, h.max_attempts, h.crash_count, h.enqueued_at, h.kind, h.args, h.attributes FROM {schema}.waiting h
                 WHERE NOT t.again AND h.state = 'keyed' AND h.lane_id = p_lane AND {schema}.key_of(h.attributes) = t.key AND h.id >= t.low_id
                 ORDER BY h.lane_id, {schema}.key_of(h.attributes), h.id LIMIT t.look)
                UNION ALL
                (SELECT h.ctid AS stands, h.id, h.attempt, h.max_attempts, h.crash_count, h.enqueued_at, h.kind, h.args, h.attributes
                 FROM (SELECT unnest(t.begun) AS id ORDER BY 1) AS b JOIN {schema}.waiting h ON h.id = b.id AND h.state || '' = 'keyed' AND h.lane_id + 0 = p_lane
                 WHERE t.again LIMIT t.look)
                LIMIT t.look) AS j) AS j ON true
        ), marked AS MATERIALIZED ( -- without what is wide: it is sorted
            SELECT x.ord, x.at, x.id, x.place, x.id IS NOT NULL AND x.nth <= x.take AND x.place <= v_left AND (x.bytes <= v_bytes OR x.place = 1) AS chosen FROM (
                SELECT y.ord, y.at, y.id, y.nth, y.take, row_number() OVER w AS place, sum(y.bytes) OVER w AS bytes
                FROM (SELECT c.at, c.ord, c.nth, c.take, c.tag, c.weight, c.id, octet_length(c.args::text) AS bytes FROM candidate c) AS y
                WINDOW w AS (ORDER BY (y.id IS NULL OR y.nth > y.take), y.tag + (y.nth - 1) / y.weight::double precision, y.ord, y.nth
                             ROWS UNBOUNDED PRECEDING)) AS x
        ), summed AS MATERIALIZED ( -- by the turns, which are numbered from 1, each of them: grouped, and found by its number; a join without an index to go by is quadratic
            SELECT array_agg(g.seen ORDER BY g.ord) AS seen, array_agg(g.taken ORDER BY g.ord) AS taken, array_agg(g.last ORDER BY g.ord) AS last FROM (
                SELECT m.ord, count(m.id) AS seen, count(*) FILTER (WHERE m.chosen)::integer AS taken, max(m.id) FILTER (WHERE m.chosen) AS last
                FROM marked m GROUP BY m.ord) AS g
        ), result AS MATERIALIZED (
            SELECT t.*, (SELECT s.seen FROM summed s)[t.ord] AS seen, (SELECT s.taken FROM summed s)[t.ord] AS taken, (SELECT s.last FROM summed s)[t.ord] AS last FROM turn t
        ), stop AS MATERIALIZED (SELECT min(r.ord) AS ord FROM result r WHERE r.seen > 0 AND r.taken = 0
        ), served AS MATERIALIZED (SELECT r.* FROM result r, stop s WHERE s.ord IS NULL OR r.ord < s.ord
        ), now AS MATERIALIZED (
            SELECT s.tag, s.n, set_config('windlass.keyed_at', s.tag || ' ' || s.n, true) FROM served s ORDER BY s.ord DESC LIMIT 1
        ), was AS (DELETE FROM {schema}.key_turn t WHERE t.ctid = ANY (ARRAY(SELECT s.turn_place FROM served s))
        ), turned AS (
            INSERT INTO {schema}.key_turn (lane_id, low_id, tag, finish, blocked, due_at, key)
            SELECT p_lane, CASE WHEN s.again OR s.last IS NULL THEN s.low_id ELSE s.last + 1 END, x.tag, s.tag + s.taken / s.weight::double precision,
                   b.blocked, CASE WHEN b.blocked AND s.ended > 0 AND s.held + s.taken + s.ended >= s.rate THEN (
                       SELECT e.free_at FROM {schema}.key_ended e WHERE e.queue = p_name AND e.key = s.key AND e.free_at > {schema}.keys_looked(p_name) -- only dead rows are before
                       ORDER BY e.queue, e.key, e.free_at LIMIT 1) END, s.key
            FROM served s, now, LATERAL (
                SELECT CASE WHEN s.seen > s.taken AND s.room > s.taken AND NOT (s.serial AND s.taken > 0)
                            THEN greatest(s.tag + s.taken / s.weight::double precision, now.tag) END AS tag) AS x,
                LATERAL (SELECT x.tag IS NULL AND (s.seen > s.taken OR s.room = 0 OR s.again) AS blocked) AS b
            ORDER BY s.ord
        ), unroomed AS (
            DELETE FROM {schema}.key_room h WHERE h.ctid = ANY (ARRAY(SELECT s.room_place FROM served s WHERE s.limited AND s.taken > 0))
        ), roomed AS (
            INSERT INTO {schema}.key_room (queue, key, held, ended, begun)
            SELECT p_name, s.key, s.held + s.taken, s.ended, CASE WHEN s.serial THEN ARRAY(SELECT unnest(s.begun) UNION SELECT s.last) ELSE '{}' END
            FROM served s WHERE s.limited AND s.taken > 0
        ), places AS MATERIALIZED ( -- of the candidates, which are numbered likewise; 0: it is not handed out
            SELECT array_agg(CASE WHEN m.chosen AND (s.ord IS NULL OR m.ord < s.ord) THEN m.place ELSE 0 END ORDER BY m.at) AS of FROM marked m, stop s
        ), chosen AS MATERIALIZED (
            SELECT c.*, (SELECT p.of FROM places p)[c.at] AS place FROM candidate c
            WHERE (SELECT p.of FROM places p)[c.at] > 0
        ), held AS (
            INSERT INTO {schema}.key_held (lane_id, seq, id, key) SELECT p_lane, v_seq, c.id, c.key FROM chosen c WHERE c.limited
        ), gone AS (
            DELETE FROM {schema}.waiting h WHERE h.ctid = ANY (ARRAY(SELECT m.stands FROM chosen m))
        ), logged AS (
            INSERT INTO {schema}.job (xid, id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
            SELECT ({direct} + v_seq)::text::xid8, m.id, m.enqueued_at, p_lane, v_segment, m.attempt, m.max_attempts, m.crash_count, true,
                   m.kind, m.args, m.attributes
            FROM chosen m
        ), counted AS MATERIALIZED (
            SELECT count(*) AS n, set_config('windlass.bytes', coalesce(sum(octet_length(m.args::text)), 0)::text, true) AS bytes FROM chosen m
        ), appended AS (
            INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, lane_id, token, worker_id, job_count, segment, from_snapshot, to_snapshot,
                                        direct, event_pos, event_late)
            SELECT v_seq, v_cursor.start_xid, v_cursor.start_id, v_cursor.end_xid, v_cursor.end_id, p_call, p_lane, (random() * 2147483647)::integer, p_worker, k.n, v_segment,
                   coalesce(v_cursor.from_snapshot, '4:4:'), coalesce(v_cursor.to_snapshot, '4:4:'), true, {schema}.event_position(), {schema}.event_late()
            FROM counted k WHERE k.n > 0 AND k.bytes IS NOT NULL
            RETURNING ARRAY[lane_id, seq, token, job_count, p_queue, p_priority] AS head)
        SELECT a.head, NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
               clock_timestamp(), NULL::text, NULL::json, NULL::text FROM appended a
        UNION ALL
        (SELECT NULL::bigint[], ({direct} + v_seq)::text::xid8, m.id, m.attempt, nullif(m.max_attempts, 20), nullif(m.crash_count, 0),
                m.enqueued_at, m.kind, m.args, m.attributes
         FROM chosen m ORDER BY m.place);
        GET DIAGNOSTICS v_got = ROW_COUNT;
        v_left := v_left - greatest(v_got - 1, 0);
        v_bytes := v_bytes - coalesce(nullif(current_setting('windlass.bytes', true), '')::bigint, 0);
        EXIT WHEN current_setting('windlass.keyed_at') = '';
        PERFORM {schema}.put_key_lane(c, split_part(current_setting('windlass.keyed_at'), ' ', 1)::double precision,
                                      split_part(current_setting('windlass.keyed_at'), ' ', 2)::bigint, c.folded);
        EXIT WHEN v_got > 1 AND v_bytes < p_bytes / 2;
    END LOOP;
    PERFORM set_config('windlass.bytes', '', true), set_config('windlass.keyed', (p_limit - v_left)::text, true),
            set_config('windlass.keyed_bytes', (p_bytes - v_bytes)::text, true),
            set_config('windlass.keyed_more', (v_left > 0 AND {schema}.key_ready({schema}.key_lane_of(p_lane)))::text, true);
END $$;
