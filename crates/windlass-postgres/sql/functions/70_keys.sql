-- What is known of the keys of keyed queues. See tables/014_keys.sql and docs/design/postgres-keys.md.

-- key_of(attributes): the key of a job; '' without. As index waiting_key has it; no SET, so that it is part of the query that names it.
CREATE OR REPLACE FUNCTION {schema}.key_of(p_attributes text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT coalesce(nullif(p_attributes, '')::json ->> 'key', '') $$;

-- read_key(attributes): the same, three times as quick where the attributes are as our programs write them: the key first, without escapes, and not again.
CREATE OR REPLACE FUNCTION {schema}.read_key(p_attributes text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN p_attributes ^@ '{"key":"' AND strpos(p_attributes, chr(92)) = 0 AND p_attributes NOT LIKE '__%"key"%' THEN split_part(p_attributes, '"', 4)
                ELSE coalesce(nullif(p_attributes, '')::json ->> 'key', '') END
$$;

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

-- lock_keyed(id): the lock of the lane of a job that waits for its key's turn, until the transaction ends; claims hold it. Whether the job does wait so. The
-- transaction holds no lock more than before where it does not.
CREATE OR REPLACE FUNCTION {schema}.lock_keyed(p_id bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_lane integer := (SELECT h.lane_id FROM {schema}.waiting h WHERE h.id = p_id AND h.state || '' = 'keyed');
BEGIN
    IF v_lane IS NULL THEN RETURN false; END IF;
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.lane'), v_lane);
    IF NOT EXISTS (SELECT 1 FROM {schema}.waiting h WHERE h.id = p_id AND h.state || '' = 'keyed' AND h.lane_id + 0 = v_lane) THEN
        RAISE 'it was handed out' USING ERRCODE = 'WL098'; -- the lock goes with what this block did
    END IF;
    RETURN true;
EXCEPTION WHEN SQLSTATE 'WL098' THEN RETURN false;
END $$;

-- keyed_lane(queue, priority): the keyed lane; makes it. Under the queue's lock.
CREATE OR REPLACE FUNCTION {schema}.keyed_lane(p_queue text, p_priority integer) RETURNS integer
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_lane integer;
BEGIN
    SELECT l.id INTO v_lane FROM {schema}.lane l WHERE l.queue = p_queue AND l.priority = p_priority AND l.id < 0
        AND (l.idle_since IS NULL OR l.idle_since > clock_timestamp() - interval '1 day') ORDER BY l.id LIMIT 1;
    IF NOT FOUND THEN
        v_lane := -nextval('{schema}.keyed_lane_seq');
        INSERT INTO {schema}.lane (id, queue, priority) OVERRIDING SYSTEM VALUE VALUES (v_lane, p_queue, p_priority);
        -- Nothing was settled there yet: so no segment can have gone with it.
        INSERT INTO {schema}.key_lane (lane_id, tag, turn, folded) VALUES (v_lane, 0, 0, pg_current_snapshot());
    END IF;
    RETURN v_lane;
END $$;

-- key_lane_of(lane): how far it is.
CREATE OR REPLACE FUNCTION {schema}.key_lane_of(p_lane integer) RETURNS {schema}.key_lane
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    RETURN (SELECT k FROM {schema}.key_lane k WHERE k.lane_id = p_lane ORDER BY k.n DESC LIMIT 1);
END $$;

-- put_key_lane(was, tag, turn, folded): how far it is now.
CREATE OR REPLACE FUNCTION {schema}.put_key_lane(p_was {schema}.key_lane, p_tag double precision, p_turn bigint, p_folded pg_snapshot) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    INSERT INTO {schema}.key_lane (lane_id, tag, turn, folded) VALUES (p_was.lane_id, p_tag, p_turn, p_folded);
    DELETE FROM {schema}.key_lane k WHERE k.lane_id = p_was.lane_id AND k.n = p_was.n;
END $$;

-- give_turns(lane, keys, lows): of each key a job with this id, or more, is there now: so it is in turn. A key that comes (back) begins at the lane's present time.
-- Rows are replaced by their place: nobody else replaces them, and joins by their keys are quadratic when the planner thinks that there are few.
-- Cost: a probe for each key, and a row for those that had no turn.
CREATE OR REPLACE FUNCTION {schema}.give_turns(p_lane integer, p_keys text[], p_lows bigint[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_tag double precision := ({schema}.key_lane_of(p_lane)).tag;
BEGIN
    WITH known AS MATERIALIZED (
        SELECT k.key, k.low, k.nth, t.place, t.tag, t.finish, t.low_id
        FROM unnest(p_keys, p_lows) WITH ORDINALITY AS k(key, low, nth)
        LEFT JOIN LATERAL (SELECT t.*, t.ctid AS place FROM {schema}.key_turn t WHERE t.lane_id = p_lane AND t.key = k.key ORDER BY t.n DESC LIMIT 1) AS t ON true
        WHERE t.n IS NULL OR t.tag IS NULL OR t.low_id > k.low
    ), was AS (DELETE FROM {schema}.key_turn t WHERE t.ctid = ANY (ARRAY(SELECT k.place FROM known k)))
    INSERT INTO {schema}.key_turn (lane_id, key, tag, finish, low_id, blocked)
        SELECT p_lane, k.key, coalesce(k.tag, greatest(v_tag, k.finish)), coalesce(k.finish, 0), least(k.low, k.low_id), false FROM known k ORDER BY k.nth;
END $$;

-- turn_again(queue, keys): keys that were blocked are in turn, in every lane of the queue; NULL: all of them. Under the queue's lock.
CREATE OR REPLACE FUNCTION {schema}.turn_again(p_queue text, p_keys text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_lane integer;
    v_tag  double precision;
BEGIN
    FOR v_lane IN SELECT l.id FROM {schema}.lane l WHERE l.queue = p_queue AND l.id < 0 LOOP
        v_tag := ({schema}.key_lane_of(v_lane)).tag;
        WITH known AS MATERIALIZED (
            SELECT t.* FROM (
                SELECT unnest(p_keys) AS key
                UNION
                SELECT b.key FROM {schema}.key_turn b WHERE p_keys IS NULL AND b.lane_id = v_lane AND b.blocked) AS k
            CROSS JOIN LATERAL (SELECT t.*, t.ctid AS place FROM {schema}.key_turn t WHERE t.lane_id = v_lane AND t.key = k.key ORDER BY t.n DESC LIMIT 1) AS t
            WHERE t.blocked
        ), was AS (DELETE FROM {schema}.key_turn t WHERE t.ctid = ANY (ARRAY(SELECT k.place FROM known k)))
        INSERT INTO {schema}.key_turn (lane_id, key, tag, finish, low_id, blocked)
            SELECT v_lane, k.key, greatest(v_tag, k.finish), k.finish, k.low_id, false FROM known k ORDER BY k.n;
    END LOOP;
END $$;

-- keys_are_limited(queue): whether some key of it has a concurrency or a rate, or is serial.
CREATE OR REPLACE FUNCTION {schema}.keys_are_limited(p_queue text) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM {schema}.key_limit k WHERE k.queue = p_queue AND (k.serial OR k.concurrency IS NOT NULL OR k.rate IS NOT NULL));
END $$;

-- keys_are_serial(queue): whether some key of it is serial: then the order of jobs matters.
CREATE OR REPLACE FUNCTION {schema}.keys_are_serial(p_queue text) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM {schema}.key_limit k WHERE k.queue = p_queue AND k.serial);
END $$;

-- key_is_serial(queue, key)
CREATE OR REPLACE FUNCTION {schema}.key_is_serial(p_queue text, p_key text) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN p_key <> '' AND coalesce((SELECT k.serial FROM {schema}.key_limit k WHERE k.queue = p_queue AND k.key IN (p_key, '')
                                     ORDER BY k.key = '' LIMIT 1), false);
END $$;

-- keys_let_go(lane): whether jobs of it wait for their key's turn, and something ended in the queue that no claim has seen yet, or the rate of a key allows more by now: perhaps
-- they may go.
-- Cost: a few index probes for each keyed lane of the queue.
CREATE OR REPLACE FUNCTION {schema}.keys_let_go(p_lane integer) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
    SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_lane integer;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM {schema}.waiting h WHERE h.lane_id = p_lane AND h.state = 'keyed') THEN RETURN false; END IF;
    IF {schema}.key_due((SELECT l.queue FROM {schema}.lane l WHERE l.id = p_lane)) <= clock_timestamp() THEN RETURN true; END IF;
    FOR v_lane IN SELECT o.id FROM {schema}.lane l JOIN {schema}.lane o ON o.queue = l.queue WHERE l.id = p_lane AND o.id < 0 LOOP
        IF EXISTS (SELECT 1 FROM {schema}.key_signal s WHERE s.lane_id = v_lane) OR EXISTS (
               SELECT 1 FROM {schema}.delta(({schema}.key_lane_of(v_lane)).folded, pg_current_snapshot()) d CROSS JOIN LATERAL unnest(d.lo, d.hi) AS r(lo, hi)
               CROSS JOIN LATERAL (SELECT 1 FROM {schema}.settlement s WHERE s.lane_id = v_lane AND s.lane_id < 0 AND s.event_xid >= r.lo AND s.event_xid <= r.hi LIMIT 1) AS s)
        THEN RETURN true; END IF;
    END LOOP;
    RETURN false;
END $$;

-- key_ready(lane): whether a key of the lane is in turn.
CREATE OR REPLACE FUNCTION {schema}.key_ready(c {schema}.key_lane) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
    SET enable_bitmapscan = off SET enable_sort = off
AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM {schema}.key_turn t WHERE t.lane_id = c.lane_id AND t.tag IS NOT NULL AND (t.tag, t.n) > (c.tag, c.turn));
END $$;
