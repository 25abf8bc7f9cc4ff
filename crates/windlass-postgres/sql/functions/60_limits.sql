-- Limits of queues: setting them, and the share of them that a worker gets.
-- Whoever gives or takes shares of a queue holds its lock until the transaction ends (lock_limits); of several queues, in the order
-- of the locks' keys, so that two calls cannot wait for one another. A worker's lock (fence) comes before.

-- lock_limits(queues)
CREATE OR REPLACE FUNCTION {schema}.lock_limits(p_queues text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_key integer;
BEGIN
    FOR v_key IN SELECT DISTINCT hashtext(q) AS k FROM unnest(p_queues) AS q ORDER BY k LOOP
        PERFORM pg_advisory_xact_lock(hashtext({name} || '.limit'), v_key);
    END LOOP;
END $$;

-- lock_limits_to_change(queue): the same for who changes its limits, which may be in a transaction that stays open: shares of the queue wait for that lock, and hold those of
-- other queues meanwhile. So who has this second one is not waited for (see lock_some).
CREATE OR REPLACE FUNCTION {schema}.lock_limits_to_change(p_queue text) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.limiting'), hashtext(p_queue));
    PERFORM {schema}.lock_limits(ARRAY[p_queue]);
END $$;

-- try_limits(queue): the same of one queue, where nobody else has it. Whether it has it now.
CREATE OR REPLACE FUNCTION {schema}.try_limits(p_queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN pg_try_advisory_xact_lock(hashtext({name} || '.limit'), hashtext(p_queue));
END $$;

-- request(workers): each of them sends its heartbeat and asks for its share at once; NULL: all do.
CREATE OR REPLACE FUNCTION {schema}.request(p_workers integer[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('windlass.wakeup', true) IS NOT DISTINCT FROM 'off' THEN RETURN; END IF;
    IF p_workers IS NULL THEN
        PERFORM pg_notify({name}, '!');
    ELSE
        PERFORM pg_notify({name}, '!' || w) FROM unnest(p_workers) AS w;
    END IF;
END $$;

-- limit_queue(queue, concurrency, rate, period, burst): limits how many of its jobs run: at most `concurrency` at once, and at most `rate`
-- starts in every window of `period`, at most `burst` of them at once. These take the place of all limits before. The queue need not
-- exist yet. Others get their shares of the queue when the transaction ends, so keep it short; those of other queues they get.
-- Writes and tells nothing where they are so already.
CREATE OR REPLACE FUNCTION {schema}.limit_queue(
    queue text, concurrency integer DEFAULT NULL, rate integer DEFAULT NULL, period interval DEFAULT NULL, burst integer DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_period interval := {schema}.in_seconds($4);
    q        {schema}.queue; -- as it was
    n        {schema}.queue;
BEGIN
    PERFORM {schema}.read_committed('limit_queue'), {schema}.check_limits($1, $2, $3, v_period, $5), {schema}.lock_limits_to_change($1);
    SELECT * INTO q FROM {schema}.queue x WHERE x.name = $1;
    IF FOUND AND (q.concurrency, q.rate, q.rate_period, q.rate_burst) IS NOT DISTINCT FROM ($2, $3, v_period, $5) THEN RETURN; END IF;
    INSERT INTO {schema}.queue AS x (name, concurrency, rate, rate_period, rate_burst) VALUES ($1, $2, $3, v_period, $5)
        ON CONFLICT (name) DO UPDATE SET concurrency = $2, rate = $3, rate_period = v_period, rate_burst = $5 RETURNING * INTO n;
    IF $2 IS NULL THEN
        UPDATE {schema}.slot s SET slots = NULL WHERE s.queue = $1 AND s.slots IS NOT NULL;
    ELSIF q.concurrency IS NULL THEN -- nobody has said yet how many it runs
        DELETE FROM {schema}.slot s WHERE s.queue = $1;
    END IF;
    IF $3 IS NULL THEN DELETE FROM {schema}.started t WHERE t.queue = $1;
    ELSIF q.rate IS NOT NULL THEN PERFORM {schema}.keep_starts(q, n); END IF;
    PERFORM {schema}.request(NULL), {schema}.acted('queues.limit', $1);
END $$;

-- in_seconds(period): without days and months, which are not of one length. What is far beyond the bounds of a period stays as it is, for the refusal.
CREATE OR REPLACE FUNCTION {schema}.in_seconds(p_period interval) RETURNS interval
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN abs(extract(epoch FROM p_period)) <= 1e9 THEN extract(epoch FROM p_period) * interval '1 second' ELSE p_period END
$$;

-- check_limits(...): refuses what cannot work, as QueueLimits::check does.
CREATE OR REPLACE FUNCTION {schema}.check_limits(p_queue text, p_concurrency integer, p_rate integer, p_period interval, p_burst integer) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_ms numeric := p_burst * extract(epoch FROM p_period)::numeric * 1000 / nullif(p_rate, 0);
BEGIN
    PERFORM {schema}.check_queue(p_queue);
    IF p_concurrency IS NULL AND p_rate IS NULL THEN
        RAISE 'a limit needs a concurrency, or a rate with its period; unlimit_queue takes limits away' USING ERRCODE = 'WL003';
    END IF;
    IF p_concurrency NOT BETWEEN 1 AND 1000000 THEN
        RAISE 'the limit of concurrency must be 1 to 1000000, got %', p_concurrency USING ERRCODE = 'WL003';
    END IF;
    IF p_rate NOT BETWEEN 1 AND 1000000000 THEN
        RAISE 'the count of a rate must be 1 to 1000000000, got %', p_rate USING ERRCODE = 'WL003';
    END IF;
    IF (p_rate IS NULL) <> (p_period IS NULL) OR p_rate IS NULL AND p_burst IS NOT NULL THEN
        RAISE 'a rate needs a count and a period, got rate %, period %, burst %',
            coalesce(p_rate::text, 'NULL'), coalesce(p_period::text, 'NULL'), coalesce(p_burst::text, 'NULL') USING ERRCODE = 'WL003';
    END IF;
    IF p_period NOT BETWEEN interval '100 ms' AND 31622400 * interval '1 second' THEN
        RAISE 'the period of a rate must be 100 ms to 366 days, got %', p_period USING ERRCODE = 'WL003';
    END IF;
    IF p_burst NOT BETWEEN 1 AND p_rate THEN
        RAISE 'the burst of a rate must be 1 to %, got %', p_rate, p_burst USING ERRCODE = 'WL003';
    END IF;
    IF v_ms < 100 THEN
        RAISE 'a burst of % at % per % is one every % ms, and the shortest window is 100 ms: use a burst of at least %',
            p_burst, p_rate, p_period, round(v_ms, 3), ceil(0.1 * p_rate / extract(epoch FROM p_period)::numeric) USING ERRCODE = 'WL003';
    END IF;
END $$;

-- unlimit_queue(queue): takes the limits away. Whether there were any.
CREATE OR REPLACE FUNCTION {schema}.unlimit_queue(queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM {schema}.read_committed('unlimit_queue'), {schema}.lock_limits_to_change($1);
    UPDATE {schema}.queue q SET concurrency = NULL, rate = NULL, rate_period = NULL, rate_burst = NULL
        WHERE q.name = $1 AND (q.concurrency IS NOT NULL OR q.rate IS NOT NULL);
    IF NOT FOUND THEN RETURN false; END IF;
    DELETE FROM {schema}.slot s WHERE s.queue = $1;
    DELETE FROM {schema}.started t WHERE t.queue = $1;
    PERFORM {schema}.request(NULL), {schema}.acted('queues.limit', $1);
    RETURN true;
END $$;

-- limited_queues(worker): those of the worker's queues that have limits.
-- Cost: an index probe for each of its queues, of an index that is empty where no queue has limits.
CREATE OR REPLACE FUNCTION {schema}.limited_queues(p_worker integer) RETURNS text[]
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    SELECT coalesce(array_agg(q.name), '{}') FROM {schema}.worker w CROSS JOIN LATERAL unnest(w.queues) AS u(queue)
    JOIN {schema}.queue q ON q.name = u.queue AND (q.concurrency IS NOT NULL OR q.rate IS NOT NULL)
    WHERE w.id = p_worker
$$;

-- without_share(worker, queues): the numbers of those that have limits and of which the worker has no share.
CREATE OR REPLACE FUNCTION {schema}.without_share(p_worker integer, p_queues text[]) RETURNS bigint[]
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    RETURN ARRAY(
        SELECT u.n FROM unnest(p_queues) WITH ORDINALITY AS u(queue, n)
        JOIN {schema}.queue q ON q.name = u.queue AND q.paused_at IS NULL AND (q.concurrency IS NOT NULL OR q.rate IS NOT NULL)
        WHERE NOT EXISTS (SELECT 1 FROM {schema}.slot s WHERE s.queue = u.queue AND s.worker_id = p_worker AND s.slots IS DISTINCT FROM 0));
END $$;

-- lock_some(queues): the same of those whose limits nobody is changing, perhaps in a transaction that stays open. For each queue whether it has it now.
CREATE OR REPLACE FUNCTION {schema}.lock_some(p_queues text[]) RETURNS boolean[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    q     record;
    v_had boolean[] := array_fill(true, ARRAY[coalesce(cardinality(p_queues), 0)]);
BEGIN
    FOR q IN SELECT u.name, u.n FROM unnest(p_queues) WITH ORDINALITY AS u(name, n) ORDER BY hashtext(u.name) LOOP
        IF pg_try_advisory_xact_lock_shared(hashtext({name} || '.limiting'), hashtext(q.name)) THEN
            PERFORM {schema}.lock_limits(ARRAY[q.name]);
        ELSE
            v_had[q.n] := false;
        END IF;
    END LOOP;
    RETURN v_had;
END $$;

-- share(worker, queues, running, slots, starts, generation, costs): the worker's share of each queue, in order; see JobStore::share. For each queue its limits (period in microseconds), then the
-- share. p_generation: how many calls of the worker failed before; what they sent and comes now changes nothing. slots, starts: NULL where nothing limits that. next_start_ms: NULL where it got all the starts that it asked for.
-- p_costs: for each queue what the jobs cost that it could start, as runs of jobs and their cost: '{{3,1},{1,5}}' are three that cost 1 each and then one that costs 5. NULL:
-- as many as p_starts says, which cost 1 each.
-- paused: nothing of the queue may start, and what was claimed and not started goes back: there are slots for what runs, and no starts. Who does not know that
-- column asks again in a second, or as one who got no slot.
-- Of a queue whose limits somebody is changing (see lock_some) it says nothing: its row is all NULL, and nothing was changed there, so that the worker asks again.
-- Cost: some 10 index probes for each queue, and a look at the shares of the queue's workers. Writes nothing when nothing changes.
CREATE OR REPLACE FUNCTION {schema}.share(p_worker integer, p_queues text[], p_running integer[], p_slots integer[], p_starts integer[],
    p_generation integer DEFAULT 0, p_costs text[] DEFAULT NULL)
    RETURNS TABLE (concurrency integer, rate integer, period_us bigint, burst integer, slots integer, wanted boolean, starts integer,
                   next_start_ms double precision, paused boolean)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_variable
DECLARE
    q      {schema}.queue;
    v_had  boolean[];
    v_want integer;
BEGIN
    PERFORM {schema}.read_committed('share'), {schema}.fence(p_worker);
    v_had := {schema}.lock_some(p_queues);
    FOR i IN 1..coalesce(cardinality(p_queues), 0) LOOP
        SELECT * INTO q FROM {schema}.queue x WHERE x.name = p_queues[i];
        concurrency := q.concurrency;
        rate := q.rate;
        period_us := (extract(epoch FROM q.rate_period) * 1000000)::bigint;
        burst := q.rate_burst;
        slots := NULL;
        wanted := false;
        starts := NULL;
        next_start_ms := NULL;
        paused := q.paused_at IS NOT NULL AND (q.concurrency IS NOT NULL OR q.rate IS NOT NULL);
        IF NOT v_had[i] THEN
            concurrency := NULL;
            rate := NULL;
            period_us := NULL;
            burst := NULL;
            wanted := NULL;
            paused := NULL;
            RETURN NEXT;
            CONTINUE;
        END IF;
        v_want := CASE WHEN paused THEN least(p_slots[i], p_running[i]) ELSE p_slots[i] END;
        IF q.concurrency IS NOT NULL THEN
            SELECT s.slots, s.wanted INTO slots, wanted FROM {schema}.share_slots(p_worker, q.name, q.concurrency, p_running[i], v_want, p_generation) s;
        ELSIF q.rate IS NOT NULL AND v_want > 0 THEN
            INSERT INTO {schema}.slot (queue, worker_id, want) VALUES (q.name, p_worker, 1) ON CONFLICT DO NOTHING;
        ELSIF q.rate IS NOT NULL THEN
            DELETE FROM {schema}.slot s WHERE s.queue = q.name AND s.worker_id = p_worker;
        END IF;
        IF q.rate IS NOT NULL AND paused THEN
            SELECT g.starts INTO starts FROM {schema}.give_starts(q, p_worker, '{}') g;
            next_start_ms := CASE WHEN q.concurrency IS NULL THEN 1000 END;
        ELSIF q.rate IS NOT NULL THEN
            SELECT g.starts, g.next_ms INTO starts, next_start_ms FROM {schema}.give_starts(q, p_worker, coalesce(
                p_costs[i]::integer[], CASE WHEN p_starts[i] > 0 THEN ARRAY[[p_starts[i], 1]] ELSE '{}' END)) g;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
