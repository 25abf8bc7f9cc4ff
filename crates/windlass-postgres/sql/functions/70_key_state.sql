-- What is known of the keys of keyed lanes. See tables/013_keys.sql and docs/design/postgres-keys.md.

-- key_of(attributes): the key of a job; '' without. As indexes job_key and job_arrival have it; no SET, so that it is part of the query
-- that names it.
CREATE OR REPLACE FUNCTION {schema}.key_of(p_attributes text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT coalesce(nullif(p_attributes, '')::json ->> 'key', '') $$;

-- key_noticed(...): whether the lane's cursor has noticed this row.
CREATE OR REPLACE FUNCTION {schema}.key_noticed(
    p_from pg_snapshot, p_to pg_snapshot, p_end_xid xid8, p_end_key text, p_xid xid8, p_key text)
    RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT pg_catalog.pg_visible_in_snapshot(p_xid, p_from)
        OR pg_catalog.pg_visible_in_snapshot(p_xid, p_to)
           AND (p_end_xid IS NULL OR (p_xid, p_key) <= (p_end_xid, p_end_key))
$$;

-- key_cursor_of(lane): how far it is.
CREATE OR REPLACE FUNCTION {schema}.key_cursor_of(p_lane integer) RETURNS {schema}.key_cursor
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    c {schema}.key_cursor;
BEGIN
    SELECT * INTO c FROM {schema}.key_cursor k WHERE k.lane_id = p_lane ORDER BY k.n DESC LIMIT 1;
    IF NOT FOUND THEN c := ROW(p_lane, 0::bigint, '4:4:'::pg_snapshot, '4:4:'::pg_snapshot, NULL::xid8, NULL::text, 0::double precision, 0::bigint, '4:4:'::pg_snapshot); END IF;
    RETURN c;
END $$;

-- key_unclaimed(lane, xid, id, key): whether nobody has claimed this row of a keyed lane.
-- Cost: four probes.
CREATE OR REPLACE FUNCTION {schema}.key_unclaimed(p_lane integer, p_xid xid8, p_id bigint, p_key text) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    c {schema}.key_cursor;
BEGIN
    IF p_xid >= '{direct}' THEN RETURN false; END IF;
    IF p_id > coalesce((SELECT v.last_id FROM {schema}.key_visit v WHERE v.lane_id = p_lane AND v.key = p_key ORDER BY v.n DESC LIMIT 1), 0)
       OR EXISTS (SELECT 1 FROM {schema}.key_late l WHERE l.lane_id = p_lane AND l.key = p_key AND l.xid = p_xid AND l.id <= p_id AND l.high >= p_id) THEN
        RETURN true;
    END IF;
    SELECT * INTO c FROM {schema}.key_cursor k WHERE k.lane_id = p_lane ORDER BY k.n DESC LIMIT 1;
    RETURN NOT coalesce({schema}.key_noticed(c.from_snapshot, c.to_snapshot, c.end_xid, c.end_key, p_xid, p_key), false);
END $$;

-- unclaimed_keyed(lane, most): rows of a keyed lane that nobody has claimed, at most so many; those that are stepped over too.
-- Cost: two probes for each key that has rows in the log, and one for each row.
CREATE OR REPLACE FUNCTION {schema}.unclaimed_keyed(p_lane integer, p_most integer) RETURNS SETOF {schema}.job
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
AS $$
    WITH RECURSIVE named(key) AS (
        (SELECT {schema}.key_of(j.attributes) FROM {schema}.job j
         WHERE j.lane_id = p_lane AND j.lane_id < 0 AND j.xid < '{direct}' ORDER BY {schema}.key_of(j.attributes) LIMIT 1)
        UNION ALL
        SELECT (SELECT {schema}.key_of(j.attributes) FROM {schema}.job j
                WHERE j.lane_id = p_lane AND j.lane_id < 0 AND j.xid < '{direct}' AND {schema}.key_of(j.attributes) > k.key
                ORDER BY {schema}.key_of(j.attributes) LIMIT 1)
        FROM named k WHERE k.key IS NOT NULL
    ), visited AS (
        SELECT k.key, coalesce((SELECT v.last_id FROM {schema}.key_visit v WHERE v.lane_id = p_lane AND v.key = k.key
                                ORDER BY v.n DESC LIMIT 1), 0) AS last_id
        FROM named k WHERE k.key IS NOT NULL)
    SELECT r.* FROM visited v CROSS JOIN LATERAL (
        SELECT j.* FROM {schema}.job j
        WHERE j.lane_id = p_lane AND j.lane_id < 0 AND j.xid < '{direct}' AND {schema}.key_of(j.attributes) = v.key AND j.id > v.last_id
        UNION ALL
        SELECT j.* FROM {schema}.key_late l JOIN {schema}.job j
            ON j.lane_id = p_lane AND j.lane_id < 0 AND j.xid < '{direct}' AND j.xid = l.xid AND {schema}.key_of(j.attributes) = v.key AND j.id BETWEEN l.id AND l.high
        WHERE l.lane_id = p_lane AND l.key = v.key) AS r
    LIMIT p_most
$$;

-- key_ready(lane): whether a claim of a keyed lane has something to look at: a turn, rows that were not noticed, or, where keys have
-- a concurrency, settlements.
-- Cost: a few probes.
CREATE OR REPLACE FUNCTION {schema}.key_ready(p_lane integer, p_queue text) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    c {schema}.key_cursor := {schema}.key_cursor_of(p_lane);
    v_lo xid8[];
    v_hi xid8[];
BEGIN
    IF c.end_xid IS NOT NULL OR EXISTS (
           SELECT 1 FROM {schema}.key_visit v WHERE v.lane_id = p_lane AND v.tag IS NOT NULL AND (v.tag, v.n) > (c.tag, c.turn)
             AND v.n = (SELECT x.n FROM {schema}.key_visit x WHERE x.lane_id = p_lane AND x.key = v.key ORDER BY x.n DESC LIMIT 1)) THEN
        RETURN true;
    END IF;
    SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(c.to_snapshot, pg_current_snapshot()) d;
    IF EXISTS (SELECT 1 FROM unnest(v_lo, v_hi) AS r(lo, hi) CROSS JOIN LATERAL (
                   SELECT 1 FROM {schema}.job j WHERE j.lane_id = p_lane AND j.xid >= r.lo AND j.xid <= r.hi LIMIT 1) AS j) THEN
        RETURN true;
    END IF;
    IF NOT {schema}.keys_have_slots(p_queue) THEN RETURN false; END IF;
    SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(c.folded, pg_current_snapshot()) d;
    RETURN EXISTS (SELECT 1 FROM unnest(v_lo, v_hi) AS r(lo, hi) CROSS JOIN LATERAL (
                       SELECT 1 FROM {schema}.settlement s WHERE s.lane_id = p_lane AND s.lane_id < 0 AND s.event_xid >= r.lo AND s.event_xid <= r.hi
                       LIMIT 1) AS j)
        OR EXISTS (SELECT 1 FROM {schema}.key_signal s WHERE s.lane_id = p_lane)
        OR EXISTS (SELECT 1 FROM {schema}.key_before b WHERE b.queue = p_queue AND NOT EXISTS (SELECT 1 FROM {schema}.unsettled_jobs(b.lane_id, b.seq)));
END $$;

-- keys_have_slots(queue): whether some key of it has a concurrency, or is serial.
CREATE OR REPLACE FUNCTION {schema}.keys_have_slots(p_queue text) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM {schema}.key_limit k WHERE k.queue = p_queue AND (k.serial OR k.concurrency IS NOT NULL));
END $$;

-- lock_keys(queue, wait): the queue's lock, which everything that writes the state of its keys holds until the transaction ends. After a lane's
-- lock it is only tried.
CREATE OR REPLACE FUNCTION {schema}.lock_keys(p_queue text, p_wait boolean) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT p_wait THEN RETURN pg_try_advisory_xact_lock(hashtext({name} || '.keys'), hashtext(p_queue)); END IF;
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.keys'), hashtext(p_queue));
    RETURN true;
END $$;

-- keyed_lane(queue, priority): the keyed lane; makes it. Under the queue's lock.
CREATE OR REPLACE FUNCTION {schema}.keyed_lane(p_queue text, p_priority integer) RETURNS integer
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_lane integer;
BEGIN
    SELECT l.id INTO v_lane FROM {schema}.lane l WHERE l.queue = p_queue AND l.priority = p_priority AND l.id < 0 ORDER BY l.id LIMIT 1;
    IF NOT FOUND THEN
        v_lane := -nextval('{schema}.keyed_lane_seq');
        INSERT INTO {schema}.lane (id, queue, priority) OVERRIDING SYSTEM VALUE VALUES (v_lane, p_queue, p_priority);
    END IF;
    RETURN v_lane;
END $$;
