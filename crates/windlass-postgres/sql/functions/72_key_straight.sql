-- Jobs of keyed queues that go straight from the log to a worker. They run inside claim.
--
-- Where no key of a lane is in turn, all that its log holds may be handed out, and the claim takes that much, there is nothing to choose: the claim is one of the
-- lane without keys, as in a queue without them, and no job is moved. What is kept is whose turn it is next.

-- log_ahead(lane): what a claim of the lane's log reads next: its newest claim, that difference (open: the claim is in the middle of it), what of it comes next as
-- ascending ranges of the log (see after), and whether jobs in them were cancelled. ahead: whether there is something to read, or to step over.
-- Cost: three index probes. Never steps over uncommitted rows.
CREATE OR REPLACE FUNCTION {schema}.log_ahead(
    p_lane integer, OUT seq bigint, OUT start_xid xid8, OUT start_id bigint, OUT from_snapshot pg_snapshot, OUT to_snapshot pg_snapshot, OUT open boolean,
    OUT cancelled boolean, OUT ahead boolean, OUT lo xid8[], OUT lo_id bigint[], OUT hi xid8[])
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
    v_began timestamptz := clock_timestamp();
BEGIN
    SELECT coalesce(k.seq, 0), k.end_xid, k.end_id, k.from_snapshot, k.to_snapshot INTO seq, start_xid, start_id, from_snapshot, to_snapshot FROM (SELECT 1) AS one LEFT JOIN LATERAL (
            SELECT * FROM {schema}.claim k WHERE k.lane_id = p_lane ORDER BY k.seq DESC LIMIT 1) AS k ON true;
    open := start_xid IS NOT NULL;
    IF open THEN
        SELECT d.lo, d.hi INTO lo, hi FROM {schema}.delta(from_snapshot, to_snapshot) d;
        SELECT a.lo, a.lo_id, a.hi INTO lo, lo_id, hi FROM {schema}.after(lo, hi, start_xid, start_id) a;
    ELSE
        from_snapshot := coalesce(to_snapshot, '4:4:');
        to_snapshot := pg_current_snapshot();
        SELECT d.lo, d.hi INTO lo, hi FROM {schema}.delta(from_snapshot, to_snapshot) d;
        lo_id := array_fill(0::bigint, ARRAY[cardinality(lo)]);
    END IF;
    SELECT log_ahead.open OR coalesce(bool_or(r.filled), false) OR clock_timestamp() - v_began > '2 ms', coalesce(bool_or(r.cancelled), false) INTO ahead, cancelled FROM (
        SELECT EXISTS (SELECT 1 FROM {schema}.job j
                       WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi ORDER BY j.xid, j.id LIMIT 1) AS filled,
               EXISTS (SELECT 1 FROM {schema}.cancelled_in_log s
                       WHERE s.lane_id = p_lane AND (s.xid, s.job_id + 0) > (r.lo, r.lo_id) AND s.xid <= r.hi LIMIT 1) AS cancelled
        FROM unnest(log_ahead.lo, log_ahead.lo_id, log_ahead.hi) AS r(lo, lo_id, hi)) AS r;
END $$;

-- note_rest(open, began): what windlass.keyed_rest says after a claim that began then read the log where log_ahead said.
CREATE OR REPLACE FUNCTION {schema}.note_rest(p_open boolean, p_began timestamptz) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('windlass.keyed_rest') = 'none' THEN -- a cursor within a difference, or before much that was rolled back, moves on with route
        PERFORM set_config('windlass.keyed_rest', CASE WHEN p_open OR clock_timestamp() - p_began > '2 ms' THEN 'route' ELSE '' END, true);
    ELSIF p_open AND current_setting('windlass.keyed_rest') = '' THEN
        PERFORM set_config('windlass.keyed_rest', 'more', true);
    END IF;
END $$;

-- claim_straight(...): claims of the log of a lane without keys, where no key of its keyed lane is in turn and no key of the queue has more than a weight. Result as
-- claim, in the order of turns; the setting windlass.keyed says how many jobs, windlass.keyed_rest what is left in the log: nothing, more (which comes next), or route:
-- it hands out nothing where the log holds more than it may (p_part: then what comes first), and where the args are too large.
-- Under the locks of the queue and of both lanes.
-- Cost: 4 to 6 us for each job, and a row for each key whose last job ends after the lane's present time.
CREATE OR REPLACE FUNCTION {schema}.claim_straight(
    p_worker integer, p_lane integer, p_keyed integer, p_limit integer, p_bytes bigint, p_part boolean, p_call bigint, p_queue integer, p_priority smallint, p_name text)
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
    c       record;
    k       {schema}.key_lane := {schema}.key_lane_of(p_keyed);
    d       smallint := coalesce((SELECT l.weight FROM {schema}.key_limit l WHERE l.queue = p_name AND l.key = ''), 1);
    v_named boolean := EXISTS (SELECT 1 FROM {schema}.key_limit l WHERE l.queue = p_name AND l.key > '');
    v_turn  bigint := nextval('{schema}.key_turn_seq'); -- turns that are given from here on come after it
    v_began timestamptz;
    v_late  boolean;
    v_got   integer;
BEGIN
    SELECT * INTO c FROM {schema}.log_ahead(p_lane);
    PERFORM set_config('windlass.keyed', '0', true), set_config('windlass.keyed_rest', 'route', true);
    IF c.open AND NOT p_part THEN RETURN; END IF;
    v_began := clock_timestamp();
    v_late := pg_current_xact_id_if_assigned() IS NOT NULL;
    RETURN QUERY
    WITH batch AS MATERIALIZED (
        SELECT row_number() OVER () AS place, {schema}.read_key(j.attributes) AS key, j.* FROM (
            SELECT j.* FROM unnest(c.lo, c.lo_id, c.hi) AS r(lo, lo_id, hi)
            CROSS JOIN LATERAL (
                SELECT j.xid, j.id, CASE WHEN j.moved THEN j.attempt END AS attempt, j.max_attempts, j.crash_count, j.enqueued_at, j.kind, j.args, j.attributes FROM {schema}.job j
                WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                ORDER BY j.xid, j.id LIMIT p_limit + 1) AS j
            LIMIT p_limit + 1) AS j
    ), counted AS MATERIALIZED (
        SELECT f.*, set_config('windlass.keyed_rest', CASE WHEN f.n = 0 THEN 'none' WHEN NOT f.fits THEN 'route' WHEN f.more THEN 'more' ELSE '' END, true),
               set_config('windlass.keyed_bytes', f.bytes::text, true) FROM (
            SELECT least(x.n, p_limit) AS n, x.n > p_limit AS more, x.bytes, x.n > 0 AND x.bytes <= p_bytes AND (x.n <= p_limit OR p_part) AS fits FROM (
                -- What they are, not stored, is added up only where it matters, as in claim.
                SELECT s.n, CASE WHEN s.stored * 100 <= p_bytes OR s.stored > p_bytes THEN s.stored ELSE (SELECT sum(octet_length(b.args::text)) FROM batch b) END AS bytes
                FROM (SELECT count(*) AS n, coalesce(sum(pg_column_size(b.args)), 0) AS stored FROM batch b) AS s) AS x OFFSET 0) AS f
    ), last AS (SELECT b.xid, b.id FROM batch b WHERE b.place = p_limit AND (SELECT c.more FROM counted c)
    ), gone AS MATERIALIZED ( -- they count as the claim's, and are settled with it. By the primary key: + 0 hides the index of all that the lane has
        DELETE FROM {schema}.cancelled_in_log s WHERE c.cancelled AND s.lane_id + 0 = p_lane AND s.job_id = ANY (ARRAY(
            SELECT b.id FROM batch b WHERE c.cancelled AND b.place <= p_limit AND (SELECT c.fits FROM counted c)))
        RETURNING s.job_id
    ), settled AS (
        INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed, low_id, high_id)
        SELECT c.seq + 1, p_lane, p_worker, 1, {schema}.current_segment(), false, g.job_id, g.job_id FROM gone g
    ), page AS MATERIALIZED ( -- of the first job of each key: what is known of it (gone: where). One sort by key serves all windows
        SELECT s.place, s.nth, s.jobs, s.gone, s.begins, s.weight, s.begins + (s.nth - 1) / s.weight AS starts, s.key FROM (
            SELECT b.*, t.gone, greatest(k.tag, max(t.finish) OVER w) AS begins, count(*) OVER w AS jobs,
                   CASE WHEN b.key = '' THEN 1 ELSE coalesce(max(l.weight) OVER w, d) END::double precision AS weight
            FROM (SELECT b.place, row_number() OVER (PARTITION BY b.key ORDER BY b.place) AS nth, b.key FROM batch b
                  WHERE b.place <= p_limit AND (SELECT c.fits FROM counted c) AND (NOT c.cancelled OR b.id <> ALL (ARRAY(SELECT g.job_id FROM gone g)))) AS b
            LEFT JOIN LATERAL (
                SELECT t.finish, t.ctid AS gone FROM {schema}.key_turn t WHERE b.nth = 1 AND t.lane_id = p_keyed AND t.key = b.key ORDER BY t.n DESC LIMIT 1) AS t ON true
            LEFT JOIN LATERAL (SELECT l.weight FROM {schema}.key_limit l WHERE v_named AND b.nth = 1 AND l.queue = p_name AND l.key = b.key) AS l ON true
            WINDOW w AS (PARTITION BY b.key)) AS s
    ), starts AS MATERIALIZED ( -- by place; NULL: it is gone
        SELECT array_agg(x.starts ORDER BY x.place) AS of FROM (
            SELECT p.place, p.starts FROM page p
            UNION ALL
            SELECT b.place, NULL FROM batch b WHERE c.cancelled AND b.id = ANY (ARRAY(SELECT g.job_id FROM gone g))) AS x
    ), now AS MATERIALIZED (
        SELECT max(p.starts) AS tag, set_config('windlass.keyed_at', coalesce(max(p.starts)::text, ''), true) FROM page p
    ), was AS (DELETE FROM {schema}.key_turn t WHERE t.ctid = ANY (ARRAY(SELECT p.gone FROM page p WHERE p.gone IS NOT NULL))
    ), turned AS (
        INSERT INTO {schema}.key_turn (lane_id, low_id, finish, blocked, key)
        SELECT p_keyed, 9223372036854775807, p.begins + p.jobs / p.weight, false, p.key FROM page p, now n WHERE p.nth = 1 AND p.begins + p.jobs / p.weight > n.tag
    ), appended AS (
        INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, lane_id, token, worker_id,
                                    job_count, segment, from_snapshot, to_snapshot, event_pos, event_late)
        SELECT c.seq + 1, c.start_xid, c.start_id, (SELECT l.xid FROM last l), (SELECT l.id FROM last l), p_call, p_lane,
               (random() * 2147483647)::integer, p_worker, n, {schema}.current_segment(), c.from_snapshot, c.to_snapshot,
               CASE WHEN v_late THEN {schema}.event_position() ELSE pg_current_xact_id() END, CASE WHEN v_late THEN {schema}.event_late() END
        FROM counted WHERE fits
        RETURNING ARRAY[lane_id, seq, token, job_count, p_queue, p_priority] AS head)
    SELECT a.head, NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
           v_began, NULL::text, NULL::json, NULL::text FROM appended a
    UNION ALL
    (SELECT NULL::bigint[], b.xid, b.id, b.attempt, nullif(b.max_attempts, 20), nullif(b.crash_count, 0), b.enqueued_at, b.kind, b.args, b.attributes
     FROM batch b WHERE b.place <= p_limit AND (SELECT c.fits FROM counted c) AND (NOT c.cancelled OR (SELECT s.of FROM starts s)[b.place] IS NOT NULL)
     ORDER BY (SELECT s.of FROM starts s)[b.place], b.place);
    GET DIAGNOSTICS v_got = ROW_COUNT;
    IF v_got > 1 THEN
        PERFORM {schema}.put_key_lane(k, current_setting('windlass.keyed_at')::double precision, v_turn, k.folded),
                set_config('windlass.keyed', (v_got - 1)::text, true);
    END IF;
    PERFORM {schema}.note_rest(c.open, v_began);
END $$;
