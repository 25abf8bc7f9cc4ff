-- Jobs that wait for a worker that knows their kind. Those of a lane and kind are handed out in the order of the transactions since which they wait; table no_handler has from where on.

-- note_no_handler(): a job waits for a handler from this transaction on, in its lane; claims find it by the row of its lane and kind.
CREATE OR REPLACE FUNCTION {schema}.note_no_handler() RETURNS trigger
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
    NEW.xid := pg_current_xact_id();
    IF (SELECT n.noted FROM {schema}.no_handler n WHERE n.lane_id = NEW.lane_id AND n.kind = NEW.kind ORDER BY n.noted DESC LIMIT 1) IS NULL THEN
        -- Who does the same meanwhile writes a row of its own; both say: look from the beginning.
        INSERT INTO {schema}.no_handler (lane_id, kind, noted, from_xid) VALUES (NEW.lane_id, NEW.kind, NEW.xid, '0') ON CONFLICT DO NOTHING;
    END IF;
    RETURN NEW;
END $$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'no_handler' AND tgrelid = '{schema}.waiting'::regclass) THEN
        CREATE TRIGGER no_handler BEFORE INSERT OR UPDATE OF lane_id, kind, state ON {schema}.waiting FOR EACH ROW
            WHEN (NEW.state = 'no_handler') EXECUTE FUNCTION {schema}.note_no_handler();
    END IF;
END $$;

-- kinds_noted(lane): the kinds that have a row in no_handler.
-- Cost: an index probe per kind, which finds the newest row first.
CREATE OR REPLACE FUNCTION {schema}.kinds_noted(p_lane integer) RETURNS text[]
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    v_kinds text[] := '{}';
    v_kind  text;
BEGIN
    SELECT n.kind INTO v_kind FROM {schema}.no_handler n WHERE n.lane_id = p_lane ORDER BY n.lane_id DESC, n.kind DESC, n.noted DESC LIMIT 1;
    WHILE v_kind IS NOT NULL LOOP
        v_kinds := v_kinds || v_kind;
        SELECT n.kind INTO v_kind FROM {schema}.no_handler n WHERE n.lane_id = p_lane AND n.kind < v_kind ORDER BY n.lane_id DESC, n.kind DESC, n.noted DESC LIMIT 1;
    END LOOP;
    RETURN v_kinds;
END $$;

-- no_handler_places(lane, kinds): for each of these kinds ({}: all) that has a row in no_handler, where its jobs stand: ranges of transactions.
-- Cost: an index probe per kind.
CREATE OR REPLACE FUNCTION {schema}.no_handler_places(p_lane integer, p_kinds text[])
    RETURNS TABLE (kind text, noted xid8, from_xid xid8, late xid8[], lo xid8[], hi xid8[])
    LANGUAGE plpgsql STABLE ROWS 3 SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT n.kind, n.noted, n.from_xid, n.late, n.late || n.from_xid, n.late || '18446744073709551615'::xid8
    FROM unnest(CASE WHEN p_kinds = '{}' THEN {schema}.kinds_noted(p_lane) ELSE p_kinds END) AS k(kind)
    CROSS JOIN LATERAL (
        SELECT n.* FROM {schema}.no_handler n WHERE n.lane_id = p_lane AND n.kind = k.kind ORDER BY n.lane_id DESC, n.kind DESC, n.noted DESC LIMIT 1) AS n;
END $$;

-- waits_for_handler(lane, kinds): whether jobs of these kinds ({}: of any) wait for a worker that knows them.
-- Cost: two index probes per kind.
CREATE OR REPLACE FUNCTION {schema}.waits_for_handler(p_lane integer, p_kinds text[]) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM {schema}.no_handler_places(p_lane, p_kinds) AS p CROSS JOIN LATERAL unnest(p.lo, p.hi) AS r(lo, hi) CROSS JOIN LATERAL (
            SELECT 1 FROM {schema}.waiting h WHERE h.lane_id = p_lane AND h.state = 'no_handler' AND h.kind = p.kind AND h.xid BETWEEN r.lo AND r.hi
            ORDER BY h.xid, h.id LIMIT 1) AS h);
END $$;

-- lock_no_handler(lane, kinds, most): jobs of these kinds ({}: of any) that wait for a worker that knows them, locked; without those that others have locked. Where finding out that there
-- are none was slow (many were cancelled), it notes so: at once, or where it took as long as some thousand of them take, in one of 16 claims, since a busy machine takes as long. Under the lane's lock.
-- Cost: two index probes per kind.
CREATE OR REPLACE FUNCTION {schema}.lock_no_handler(p_lane integer, p_kinds text[], p_most integer) RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    p       record;
    v_began timestamptz;
    v_found bigint[];
    v_ids   bigint[] := '{}';
BEGIN
    FOR p IN SELECT * FROM {schema}.no_handler_places(p_lane, p_kinds) LOOP
        v_began := clock_timestamp();
        v_found := ARRAY(
            SELECT h.id FROM unnest(p.lo, p.hi) AS r(lo, hi) CROSS JOIN LATERAL (
                SELECT h.id FROM {schema}.waiting h WHERE h.lane_id = p_lane AND h.state = 'no_handler' AND h.kind = p.kind AND h.xid BETWEEN r.lo AND r.hi
                ORDER BY h.xid, h.id LIMIT p_most - cardinality(v_ids) FOR UPDATE SKIP LOCKED) AS h
            LIMIT p_most - cardinality(v_ids));
        IF v_found = '{}' AND clock_timestamp() - v_began > (CASE WHEN random() < 0.0625 THEN interval '0.2 ms' ELSE '2 ms' END) THEN PERFORM {schema}.pass_no_handler(p_lane, p.kind); END IF;
        v_ids := v_ids || v_found;
        EXIT WHEN cardinality(v_ids) >= p_most;
    END LOOP;
    RETURN v_ids;
END $$;

-- pass_no_handler(lane, kind): claims look behind those that wait no more, from now on. Under the lane's lock, after they were taken.
-- Cost: a few index probes, and the entries of those that were taken.
CREATE OR REPLACE FUNCTION {schema}.pass_no_handler(p_lane integer, p_kind text) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    p      record;
    v_from xid8;
    v_late xid8[];
BEGIN
    SELECT * INTO p FROM {schema}.no_handler_places(p_lane, ARRAY[p_kind]);
    -- All in one statement: what it does not see is of a transaction that is open in its snapshot, or comes after that.
    SELECT s.from_xid, ARRAY(
               SELECT x FROM pg_snapshot_xip(s.now) AS x WHERE x < s.from_xid
               UNION
               SELECT x FROM unnest(p.late) AS x WHERE (
                   SELECT h.id FROM {schema}.waiting h WHERE h.lane_id = p_lane AND h.state = 'no_handler' AND h.kind = p_kind AND h.xid = x
                   ORDER BY h.xid, h.id LIMIT 1) IS NOT NULL)
        INTO v_from, v_late
        FROM (SELECT n.now, least(pg_snapshot_xmax(n.now), (
                  SELECT h.xid FROM {schema}.waiting h WHERE h.lane_id = p_lane AND h.state = 'no_handler' AND h.kind = p_kind AND h.xid >= p.from_xid
                  ORDER BY h.xid, h.id LIMIT 1)) AS from_xid FROM (SELECT pg_current_snapshot() AS now OFFSET 0) AS n OFFSET 0) AS s;
    IF (v_from, v_late) IS NOT DISTINCT FROM (p.from_xid, p.late) THEN RETURN; END IF;
    DELETE FROM {schema}.no_handler n WHERE n.lane_id = p_lane AND n.kind = p_kind AND n.noted = p.noted;
    INSERT INTO {schema}.no_handler (lane_id, kind, noted, from_xid, late) VALUES (p_lane, p_kind, pg_current_xact_id(), v_from, v_late);
END $$;

-- claim_no_handler(...): hands jobs that wait for a handler straight to a worker that knows their kind, by a direct claim. The
-- log rows get a transaction id of the claim's own, far beyond every snapshot; the cursor stays.
-- Runs under the lane's lock, inside claim. Result as claim. At most 1,000 jobs, of at most p_bytes bytes of args.
-- Cost: two index probes per kind; settings of its own, because those of claim make a sort of few jobs a walk of the
-- whole table.
CREATE OR REPLACE FUNCTION {schema}.claim_no_handler(
    p_worker integer, p_lane integer, p_limit integer, p_bytes bigint, p_kinds text[], p_call bigint, p_queue integer, p_priority smallint)
    RETURNS TABLE (head bigint[], xid xid8, id bigint, attempt smallint, max_attempts smallint,
                   crash_count smallint, enqueued_at timestamptz, kind text, args json, attributes text)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = on SET enable_hashjoin = off
AS $$
#variable_conflict use_column
DECLARE
    c         record;
    v_kind    text;
    v_ids     bigint[];
    v_xid     xid8;
    v_segment smallint;
    v_taken   text[]; -- kinds
BEGIN
    v_ids := {schema}.lock_no_handler(p_lane, p_kinds, least(p_limit, 1000));
    IF v_ids = '{}' THEN RETURN; END IF;
    SELECT array_agg(s.id ORDER BY s.id), array_agg(DISTINCT s.kind) INTO v_ids, v_taken FROM (
        SELECT h.id, h.kind, sum(octet_length(h.args::text)) OVER w AS bytes, row_number() OVER w AS nth
        FROM {schema}.waiting h WHERE h.id = ANY (v_ids) WINDOW w AS (ORDER BY h.id ROWS UNBOUNDED PRECEDING)) AS s
        WHERE s.bytes <= p_bytes OR s.nth = 1;
    SELECT k.seq, k.start_xid, k.start_id, k.end_xid, k.end_id, k.from_snapshot, k.to_snapshot INTO c
        FROM {schema}.claim k WHERE k.lane_id = p_lane ORDER BY k.seq DESC LIMIT 1;
    v_segment := {schema}.current_segment();
    v_xid := ({direct} + coalesce(c.seq, 0) + 1)::text::xid8;
    RETURN QUERY
    WITH taken AS (DELETE FROM {schema}.waiting h WHERE h.id = ANY (v_ids) RETURNING h.*
    ), logged AS (
        INSERT INTO {schema}.job (xid, id, enqueued_at, lane_id, segment, attempt, max_attempts, crash_count, moved, kind, args, attributes)
        SELECT v_xid, t.id, t.enqueued_at, p_lane, v_segment, t.attempt, t.max_attempts, t.crash_count, true, t.kind, t.args, t.attributes
        FROM taken t ORDER BY t.id
    ), appended AS (
        INSERT INTO {schema}.claim (seq, start_xid, start_id, end_xid, end_id, worker_call, lane_id, token, worker_id, job_count,
                                    segment, from_snapshot, to_snapshot, direct, event_pos, event_late)
        VALUES (coalesce(c.seq, 0) + 1, c.start_xid, c.start_id, c.end_xid, c.end_id, p_call, p_lane,
                (random() * 2147483647)::integer, p_worker, cardinality(v_ids), v_segment,
                coalesce(c.from_snapshot, '4:4:'), coalesce(c.to_snapshot, '4:4:'), true, {schema}.event_position(), {schema}.event_late())
        RETURNING ARRAY[lane_id, seq, token, job_count, p_queue, p_priority] AS head)
    SELECT a.head, NULL::xid8, NULL::bigint, NULL::smallint, NULL::smallint, NULL::smallint,
           clock_timestamp(), NULL::text, NULL::json, NULL::text FROM appended a
    UNION ALL
    SELECT NULL::bigint[], v_xid, t.id, t.attempt, t.max_attempts, t.crash_count, t.enqueued_at, t.kind, t.args, t.attributes
    FROM taken t;
    FOREACH v_kind IN ARRAY v_taken LOOP PERFORM {schema}.pass_no_handler(p_lane, v_kind); END LOOP;
END $$;

-- forget_no_handler(most): rows of lanes that are not there any more, one look at all of them; a lane goes only when no job of it is stored. Returns how many.
CREATE OR REPLACE FUNCTION {schema}.forget_no_handler(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_count bigint;
BEGIN
    DELETE FROM {schema}.no_handler n WHERE n.ctid = ANY (ARRAY(
        SELECT o.ctid FROM {schema}.no_handler o WHERE NOT EXISTS (SELECT 1 FROM {schema}.lane l WHERE l.id = o.lane_id) LIMIT p_most));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;
