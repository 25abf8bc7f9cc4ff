-- Limits of the keys of a queue: see JobStore::limit_keys. Whoever changes them holds the queue's lock (lock_keys), and then the locks of its lanes without
-- keys, until the transaction ends: so no claim that has not seen the change hands out jobs beside them. Of lanes that come meanwhile none does either: see may_begin. Keep that
-- transaction short.

-- check_key_limit(queue, key, concurrency, serial, weight, rate, period): refuses what cannot work, as KeyLimit::check does.
CREATE OR REPLACE FUNCTION {schema}.check_key_limit(
    p_queue text, p_key text, p_concurrency integer, p_serial boolean, p_weight integer, p_rate integer, p_period interval) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM {schema}.check_queue(p_queue);
    IF octet_length(p_key) > 200 THEN
        RAISE 'a key must be 1 to 200 bytes, got %; hash what is longer', octet_length(p_key) USING ERRCODE = 'WL003';
    END IF;
    IF p_concurrency NOT BETWEEN 1 AND 1000000 THEN
        RAISE 'the limit of concurrency must be 1 to 1000000, got %', p_concurrency USING ERRCODE = 'WL003';
    END IF;
    IF p_serial AND p_concurrency <> 1 THEN
        RAISE 'a serial key has one job at once, so a concurrency of % cannot be: leave out one of both', p_concurrency USING ERRCODE = 'WL003';
    END IF;
    IF p_weight IS NULL OR p_weight NOT BETWEEN 1 AND 1000 THEN
        RAISE 'the weight of a key must be 1 to 1000, got %', coalesce(p_weight::text, 'NULL') USING ERRCODE = 'WL003';
    END IF;
    IF p_rate IS NOT NULL OR p_period IS NOT NULL THEN PERFORM {schema}.check_limits(p_queue, NULL, p_rate, p_period, NULL); END IF;
END $$;

-- limit_keys(queue, concurrency, serial, weight, rate, period): the limit of every key of the queue that is not named; at most `rate` of its jobs in every window of
-- `period`. The queue need not exist yet.
CREATE OR REPLACE FUNCTION {schema}.limit_keys(
    queue text, concurrency integer DEFAULT NULL, serial boolean DEFAULT false, weight integer DEFAULT 1, rate integer DEFAULT NULL, period interval DEFAULT NULL)
    RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_period interval := {schema}.in_seconds($6);
BEGIN
    PERFORM {schema}.read_committed('limit_keys'), {schema}.check_key_limit($1, NULL, $2, coalesce($3, false), $4, $5, v_period);
    IF EXISTS (SELECT 1 FROM {schema}.key_limit k JOIN {schema}.queue q ON q.name = k.queue AND q.keyed WHERE k.queue = $1 AND k.key = ''
                   AND (k.concurrency, k.serial, k.weight, k.rate, k.rate_period) IS NOT DISTINCT FROM ($2, coalesce($3, false), $4, $5, v_period)) THEN
        RETURN; -- as it is: nothing is counted anew, and nobody is woken
    END IF;
    PERFORM {schema}.begin_key_limits($1);
    INSERT INTO {schema}.key_limit AS k (queue, key, concurrency, serial, weight, rate, rate_period) VALUES ($1, '', $2, coalesce($3, false), $4, $5, v_period)
        ON CONFLICT ON CONSTRAINT key_limit_pkey DO UPDATE SET concurrency = $2, serial = coalesce($3, false), weight = $4, rate = $5, rate_period = v_period;
    PERFORM {schema}.key_limits_changed($1), {schema}.acted('queues.limit_keys', $1);
END $$;

-- put_key_limits(queue, keys, concurrency, serial, weights, rates, periods): the limits of single keys; weight NULL: the key has none of its own. The last of a key counts.
CREATE OR REPLACE FUNCTION {schema}.put_key_limits(
    p_queue text, p_keys text[], p_concurrency integer[], p_serial boolean[], p_weights integer[], p_rates integer[] DEFAULT NULL, p_periods interval[] DEFAULT NULL)
    RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    u record;
    v_limited boolean;
BEGIN
    PERFORM {schema}.read_committed('limit_key'), {schema}.check_queue(p_queue);
    p_periods := ARRAY(SELECT {schema}.in_seconds(x.period) FROM unnest(p_periods) WITH ORDINALITY AS x(period, n) ORDER BY x.n);
    FOR u IN SELECT * FROM unnest(p_keys, p_concurrency, p_serial, p_weights, p_rates, p_periods) AS x(key, concurrency, serial, weight, rate, period) LOOP
        IF u.key IS NULL OR u.key = '' THEN
            RAISE 'a key must be 1 to 200 bytes, got %', coalesce(octet_length(u.key)::text, 'NULL') USING ERRCODE = 'WL003';
        END IF;
        PERFORM {schema}.check_key_limit(p_queue, u.key, u.concurrency, coalesce(u.serial, false), coalesce(u.weight, 1), u.rate, u.period);
    END LOOP;
    -- As they are: nothing is counted anew, and nobody is woken; and who takes away what a queue does not have does not begin limits.
    IF NOT EXISTS (SELECT 1 FROM unnest(p_keys, p_concurrency, p_serial, p_weights, p_rates, p_periods) AS x(key, concurrency, serial, weight, rate, period)
            LEFT JOIN {schema}.key_limit k ON k.queue = p_queue AND k.key = x.key
            WHERE CASE WHEN x.weight IS NULL THEN k.key IS NOT NULL ELSE k.key IS NULL
                OR (k.concurrency, k.serial, k.weight, k.rate, k.rate_period) IS DISTINCT FROM (x.concurrency, coalesce(x.serial, false), x.weight, x.rate, x.period) END) THEN
        RETURN;
    END IF;
    v_limited := {schema}.begin_key_limits(p_queue);
    INSERT INTO {schema}.key_limit (queue, key) VALUES (p_queue, '') ON CONFLICT DO NOTHING;
    DELETE FROM {schema}.key_limit k WHERE k.queue = p_queue AND k.key = ANY (p_keys);
    INSERT INTO {schema}.key_limit (queue, key, concurrency, serial, weight, rate, rate_period)
        SELECT p_queue, l.key, l.concurrency, coalesce(l.serial, false), l.weight, l.rate, l.period FROM (
            SELECT DISTINCT ON (x.key) x.* FROM unnest(p_keys, p_concurrency, p_serial, p_weights, p_rates, p_periods)
                WITH ORDINALITY AS x(key, concurrency, serial, weight, rate, period, n)
            ORDER BY x.key, x.n DESC) AS l
        WHERE l.weight IS NOT NULL;
    PERFORM {schema}.key_limits_changed(p_queue, CASE WHEN v_limited THEN p_keys END);
    PERFORM {schema}.acted(CASE WHEN x.weight IS NULL THEN 'queues.unlimit_key' ELSE 'queues.limit_key' END, p_queue || ' ' || x.key)
        FROM unnest(p_keys, p_weights) AS x(key, weight);
END $$;

-- limit_key(queue, key, concurrency, serial, weight, rate, period): the limit of one key.
CREATE OR REPLACE FUNCTION {schema}.limit_key(
    queue text, key text, concurrency integer DEFAULT NULL, serial boolean DEFAULT false, weight integer DEFAULT 1, rate integer DEFAULT NULL, period interval DEFAULT NULL)
    RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF $5 IS NULL THEN PERFORM {schema}.check_key_limit($1, $2, $3, $4, $5, $6, $7); END IF;
    PERFORM {schema}.put_key_limits($1, ARRAY[$2], ARRAY[$3], ARRAY[$4], ARRAY[$5], ARRAY[$6], ARRAY[$7]);
END $$;

-- unlimit_key(queue, key): for the key holds what does for those that are not named. Whether it had a limit of its own.
CREATE OR REPLACE FUNCTION {schema}.unlimit_key(queue text, key text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM {schema}.key_limit k WHERE k.queue = $1 AND k.key = $2 AND $2 <> '') THEN RETURN false; END IF;
    PERFORM {schema}.put_key_limits($1, ARRAY[$2], ARRAY[NULL::integer], ARRAY[NULL::boolean], ARRAY[NULL::integer]);
    RETURN true;
END $$;

-- unlimit_keys(queue): the queue knows no keys any more. What waits in its keyed lanes goes back into the log, by
-- empty_keyed_lanes or, by and by, with claims. Whether it had any.
CREATE OR REPLACE FUNCTION {schema}.unlimit_keys(queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM {schema}.read_committed('unlimit_keys'), {schema}.check_queue($1), {schema}.lock_keys($1, true);
    UPDATE {schema}.queue q SET keyed = false, key_rates = false WHERE q.name = $1 AND q.keyed;
    IF NOT FOUND THEN RETURN false; END IF;
    DELETE FROM {schema}.key_limit k WHERE k.queue = $1;
    DELETE FROM {schema}.key_room h WHERE h.queue = $1;
    DELETE FROM {schema}.key_ended e WHERE e.queue = $1;
    DELETE FROM {schema}.key_looked x WHERE x.queue = $1;
    DELETE FROM {schema}.key_held h USING {schema}.lane l WHERE l.queue = $1 AND h.lane_id = l.id;
    DELETE FROM {schema}.key_turn t USING {schema}.lane l WHERE l.queue = $1 AND t.lane_id = l.id;
    DELETE FROM {schema}.key_signal s USING {schema}.lane l WHERE l.queue = $1 AND s.lane_id = l.id;
    DELETE FROM {schema}.key_lookahead a USING {schema}.lane l WHERE l.queue = $1 AND a.lane_id = l.id;
    PERFORM pg_notify({name}, $1) WHERE current_setting('windlass.wakeup', true) IS DISTINCT FROM 'off';
    PERFORM {schema}.acted('queues.unlimit_keys', $1);
    RETURN true;
END $$;

-- empty_keyed_lanes(queue): 4,000 of those, at most, of each lane. Whether there may be more. Whoever takes the limits away calls it until there are none.
CREATE OR REPLACE FUNCTION {schema}.empty_keyed_lanes(p_queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_lane integer;
    v_more boolean := false;
BEGIN
    PERFORM {schema}.read_committed('empty_keyed_lanes'), {schema}.lock_keys(p_queue, true);
    IF EXISTS (SELECT 1 FROM {schema}.queue q WHERE q.name = p_queue AND q.keyed) THEN RETURN false; END IF;
    FOR v_lane IN SELECT l.id FROM {schema}.lane l WHERE l.queue = p_queue AND l.id < 0 ORDER BY l.id LOOP
        PERFORM pg_advisory_xact_lock(hashtext({name} || '.lane'), v_lane);
        v_more := {schema}.unroute(v_lane) OR v_more;
    END LOOP;
    RETURN v_more;
END $$;

-- begin_key_limits(queue): before limits change: the queue's lock, and what was settled until now is noted under the limits of until now. Whether it had such. What is counted is not to
-- lose its segment meanwhile.
CREATE OR REPLACE FUNCTION {schema}.begin_key_limits(p_queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtext({name} || '.rotate'), 0);
    PERFORM {schema}.lock_keys(p_queue, true);
    IF EXISTS (SELECT 1 FROM {schema}.queue q WHERE q.name = p_queue AND q.keyed) AND {schema}.keys_are_limited(p_queue) THEN
        PERFORM {schema}.make_room(p_queue);
        RETURN true;
    END IF;
    RETURN false;
END $$;

-- may_begin(queue): whether jobs of a lane of which nothing was claimed yet may be handed out without limits of keys. A lane that is newer than the look of who limits the keys is not
-- locked by them; so nothing is handed out of it while somebody has the queue's lock. Who gets that lock later sees the lane, and waits for its lock, which the claim has. Who claims from
-- the lane later was seen by that look, or sees the limits. Lock and unlock are one expression, as in wake.
CREATE OR REPLACE FUNCTION {schema}.may_begin(p_queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    IF NOT (pg_try_advisory_lock_shared(hashtext({name} || '.keys'), hashtext(p_queue))
            AND pg_advisory_unlock_shared(hashtext({name} || '.keys'), hashtext(p_queue))) THEN
        RETURN false;
    END IF;
    RETURN NOT EXISTS (SELECT 1 FROM {schema}.queue q WHERE q.name = p_queue AND q.keyed); -- a new statement: it sees what ended meanwhile
END $$;

-- key_limits_changed(queue, keys): what follows from new limits of these keys; NULL: of all. With its lanes locked no claim that has not seen the change hands out jobs beside them.
CREATE OR REPLACE FUNCTION {schema}.key_limits_changed(p_queue text, p_keys text[] DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_rates boolean;
BEGIN
    INSERT INTO {schema}.queue AS q (name, keyed) VALUES (p_queue, true) ON CONFLICT (name) DO UPDATE SET keyed = true WHERE NOT q.keyed;
    IF FOUND THEN -- what waits in its keyed lanes since it had limits before
        PERFORM pg_advisory_xact_lock(hashtext({name} || '.lane'), x.id) FROM (
            SELECT x.id FROM {schema}.lane x WHERE x.queue = p_queue ORDER BY x.id) AS x;
        PERFORM {schema}.give_turns(l.id, k.keys, k.lows) FROM {schema}.lane l CROSS JOIN LATERAL (
            SELECT array_agg(w.key) AS keys, array_agg(w.low) AS lows FROM (
                SELECT {schema}.key_of(h.attributes) AS key, min(h.id) AS low FROM {schema}.waiting h WHERE h.lane_id = l.id AND h.state = 'keyed' GROUP BY 1) AS w) AS k
            WHERE l.queue = p_queue AND l.id < 0 AND k.keys IS NOT NULL;
    END IF;
    v_rates := EXISTS (SELECT 1 FROM {schema}.key_limit k WHERE k.queue = p_queue AND k.rate IS NOT NULL);
    UPDATE {schema}.queue q SET key_rates = v_rates WHERE q.name = p_queue AND q.key_rates <> v_rates;
    PERFORM {schema}.count_held(p_queue, p_keys);
    IF NOT v_rates THEN DELETE FROM {schema}.key_looked x WHERE x.queue = p_queue; END IF;
    PERFORM pg_notify({name}, p_queue) WHERE current_setting('windlass.wakeup', true) IS DISTINCT FROM 'off';
END $$;

-- key_limits(queue): the limits of its keys; key '': of those that are not named. No rows: the queue knows no keys.
CREATE OR REPLACE FUNCTION {schema}.key_limits(queue text)
    RETURNS TABLE (key text, concurrency integer, serial boolean, weight integer, rate integer, period interval)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT k.key, k.concurrency, k.serial, k.weight::integer, k.rate, k.rate_period FROM {schema}.key_limit k WHERE k.queue = $1 ORDER BY k.key
$$;
