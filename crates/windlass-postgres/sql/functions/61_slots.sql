-- Slots of queues that limit how many jobs run at once. All of it under the queue's lock (lock_limits).

-- sharer: the shares of all workers. asks: whether the wish counts. A worker that is no more has no slots, though its row may still be there (see end_shares).
SELECT {schema}.keep_view('sharer', $view$
    SELECT s.queue, s.worker_id, CASE WHEN w.id IS NOT NULL AND w.ended_at IS NULL THEN coalesce(s.slots, 0) ELSE 0 END AS slots, s.want, s.wanted, s.since,
           s.want > 0 AND w.ended_at IS NULL AND w.heartbeat_at + w.lease / 2 >= clock_timestamp() AS asks
    FROM {schema}.slot s LEFT JOIN {schema}.worker w ON w.id = s.worker_id$view$);

-- share_slots(worker, queue, limit, running, want): how many of its jobs the worker may run at once from now on, and whether others want some
-- of those.
-- Invariants: the sum of slots never exceeds the limit but for what ran before; nobody gets less than it runs, as far as it had slots for that,
-- or as it says where it had never asked: it ran them before there was a limit.
-- Each worker may have up to a level that is the same for all: what the limit is when those who want less have what they want and the rest
-- is divided. Where that is not even one for each, they take turns: who has had a slot for a second gives it back when somebody
-- waits without any, and who has waited longest gets it.
-- Nobody's wish counts who has been silent for half a lease: a process that hangs holds its slots and nothing else.
-- Cost: a look at the shares of all workers of the queue.
CREATE OR REPLACE FUNCTION {schema}.share_slots(
    p_worker integer, p_queue text, p_limit integer, p_running integer, p_want integer, p_generation integer, OUT slots integer, OUT wanted boolean)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_now    timestamptz := clock_timestamp();
    m        {schema}.slot;
    o        record;  -- what the others have and want
    v_keep   integer; -- what runs
    v_level  integer; -- NULL: there is enough for all
    v_spare  bigint;  -- so many may have one more than the level
    v_above  bigint;  -- so many others have
    v_most   bigint;  -- what it may have
    v_turn   boolean; -- it has had its turn, and somebody waits for his
BEGIN
    SELECT * INTO m FROM {schema}.slot s WHERE s.queue = p_queue AND s.worker_id = p_worker;
    IF m.generation > p_generation THEN -- the worker has long given up waiting for the answer
        slots := 0;
        wanted := false;
        RETURN;
    END IF;
    v_keep := least(p_running, coalesce(m.slots, p_running));
    SELECT p_limit - coalesce(sum(s.slots), 0) AS free, p_limit - coalesce(sum(s.slots) FILTER (WHERE NOT s.asks), 0) AS divisible,
           count(*) FILTER (WHERE s.asks AND s.slots = 0) AS starving,
           count(*) FILTER (WHERE s.asks AND s.slots = 0 AND (s.since, s.worker_id) < (coalesce(m.since, v_now), p_worker)) AS before
        INTO o FROM {schema}.sharer s WHERE s.queue = p_queue AND s.worker_id <> p_worker;
    SELECT l.level, l.spare INTO v_level, v_spare FROM {schema}.fair_level(p_queue, p_worker, p_want, o.divisible) l;
    IF v_level IS NULL THEN
        v_most := greatest(p_want, v_keep);
    ELSE
        SELECT count(*) INTO v_above FROM {schema}.sharer s WHERE s.queue = p_queue AND s.worker_id <> p_worker AND s.asks AND s.slots > v_level;
        v_turn := v_level = 0 AND m.slots > 0 AND o.starving > o.free - m.slots AND {schema}.long_since(m.since, v_now);
        v_most := v_level + CASE WHEN v_turn OR v_above >= v_spare THEN 0
                                 WHEN v_level = 0 AND coalesce(m.slots, 0) = 0 AND v_above + o.before >= v_spare THEN 0
                                 ELSE 1 END;
    END IF;
    v_most := least(v_most, greatest(o.free, 0));
    slots := greatest(least(p_want, v_most), v_keep);
    wanted := slots > v_most;
    IF slots = 0 AND p_want = 0 THEN
        DELETE FROM {schema}.slot s WHERE s.queue = p_queue AND s.worker_id = p_worker;
    ELSIF (m.slots, m.want, m.wanted, m.generation) IS DISTINCT FROM (slots, p_want, wanted, p_generation) THEN -- else not even locked, which would write
        INSERT INTO {schema}.slot AS s (queue, worker_id, slots, want, wanted, since, generation)
            VALUES (p_queue, p_worker, share_slots.slots, p_want, share_slots.wanted, v_now, p_generation)
            ON CONFLICT (queue, worker_id) DO UPDATE SET slots = excluded.slots, want = excluded.want, wanted = excluded.wanted, generation = excluded.generation,
                since = CASE WHEN (s.slots = 0) = (excluded.slots = 0) THEN s.since ELSE v_now END;
    END IF;
    IF slots < m.slots OR p_want < m.want THEN
        PERFORM {schema}.announce_slots(p_queue, p_limit);
    END IF;
    IF slots < p_want AND slots <= v_level THEN
        PERFORM {schema}.ask_for_slots(p_queue, p_worker, v_level, v_spare, slots = 0);
    END IF;
END $$;

-- long_since(since, now): whether somebody has had a slot for a second. After the clock was set back nobody knows.
CREATE OR REPLACE FUNCTION {schema}.long_since(p_since timestamptz, p_now timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT p_now NOT BETWEEN p_since AND p_since + interval '1 second' $$;

-- fair_level(queue, worker, want, slots): divides so many slots among all who ask, this worker included: each gets what it wants up to the
-- level, and `spare` of those who want more get one more. NULL: there is enough for all.
CREATE OR REPLACE FUNCTION {schema}.fair_level(p_queue text, p_worker integer, p_want integer, p_slots bigint, OUT level integer, OUT spare bigint)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    SELECT d.rest / d.wanting, d.rest % d.wanting INTO level, spare FROM (
        SELECT w.want, greatest(p_slots - coalesce(sum(w.want) OVER modest, 0), 0)::bigint AS rest, count(*) OVER rest AS wanting
        FROM (
            SELECT s.want, s.worker_id FROM {schema}.sharer s WHERE s.queue = p_queue AND s.asks AND s.worker_id <> p_worker
            UNION ALL SELECT p_want, p_worker WHERE p_want > 0) AS w
        WINDOW modest AS (ORDER BY w.want, w.worker_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
               rest AS (ORDER BY w.want, w.worker_id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)) AS d
    WHERE d.want * d.wanting > d.rest ORDER BY d.wanting DESC LIMIT 1;
END $$;

-- announce_slots(queue, limit): tells as many workers as slots are free that they may have some, those with the fewest first, then those
-- who have waited longest.
CREATE OR REPLACE FUNCTION {schema}.announce_slots(p_queue text, p_limit integer) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_free bigint := (SELECT p_limit - coalesce(sum(s.slots), 0) FROM {schema}.sharer s WHERE s.queue = p_queue);
BEGIN
    IF v_free <= 0 THEN RETURN; END IF;
    PERFORM {schema}.request(ARRAY(
        SELECT s.worker_id FROM {schema}.sharer s WHERE s.queue = p_queue AND s.asks AND s.want > s.slots ORDER BY s.slots, s.since, s.worker_id LIMIT v_free));
END $$;

-- ask_for_slots(queue, worker, level, spare, starving): tells workers that have more than their share, once each until it asks again, that
-- this one waits. Of those with one more than the level `spare` may have it. Where they take turns, those who have had theirs.
CREATE OR REPLACE FUNCTION {schema}.ask_for_slots(p_queue text, p_worker integer, p_level integer, p_spare bigint, p_starving boolean) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_holders integer[] := ARRAY(
        SELECT h.worker_id FROM (
            SELECT s.*, row_number() OVER (ORDER BY s.slots, s.since DESC) AS nth FROM {schema}.sharer s
            WHERE s.queue = p_queue AND s.slots > p_level AND s.worker_id <> p_worker) AS h
        WHERE NOT h.wanted AND (h.slots > p_level + 1 OR h.nth > p_spare
                                OR p_level = 0 AND p_starving AND {schema}.long_since(h.since, clock_timestamp()))
        ORDER BY h.slots DESC, h.since LIMIT 16);
BEGIN
    IF v_holders = '{}' THEN RETURN; END IF;
    UPDATE {schema}.slot s SET wanted = true WHERE s.queue = p_queue AND s.worker_id = ANY (v_holders);
    PERFORM {schema}.request(v_holders);
END $$;

-- end_shares(worker): the worker is no more. Its shares go, and others are told. Of queues that somebody else has locked for long, as who changes limits in a transaction that
-- stays open, they are left for forget_shares: in all it waits for 100 ms, so that rescue waits for no user.
-- Cost: one index probe where it had none.
CREATE OR REPLACE FUNCTION {schema}.end_shares(p_worker integer) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET lock_timeout = '100ms'
AS $$
DECLARE
    v_queue text;
    v_waits boolean := true; -- until it has once waited in vain
BEGIN
    FOR v_queue IN SELECT s.queue FROM {schema}.slot s WHERE s.worker_id = p_worker ORDER BY hashtext(s.queue) LOOP
        IF NOT {schema}.try_limits(v_queue) THEN
            CONTINUE WHEN NOT v_waits;
            BEGIN
                PERFORM {schema}.lock_limits(ARRAY[v_queue]);
            EXCEPTION WHEN lock_not_available THEN
                v_waits := false;
                CONTINUE;
            END;
        END IF;
        DELETE FROM {schema}.slot s WHERE s.queue = v_queue AND s.worker_id = p_worker;
        PERFORM {schema}.announce_slots(q.name, q.concurrency) FROM {schema}.queue q WHERE q.name = v_queue AND q.concurrency IS NOT NULL;
    END LOOP;
END $$;
