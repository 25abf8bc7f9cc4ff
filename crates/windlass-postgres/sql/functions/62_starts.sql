-- Starts of queues that limit how many begin in a time. All of it under the queue's lock (lock_limits).

-- rate_windows(queue): at most counts[i] permissions in every window of lengths[i], the shortest first. A window is longer by the time
-- for which a worker may keep a permission (RateLimit::grace), so that no window of starts has too many.
CREATE OR REPLACE FUNCTION {schema}.rate_windows(q {schema}.queue, OUT counts integer[], OUT lengths interval[])
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_short interval := CASE WHEN q.rate_burst < q.rate THEN q.rate_period * (q.rate_burst::float8 / q.rate) END;
    v_grace interval := least(coalesce(v_short, q.rate_period) / 20, interval '1 second') + interval '1 microsecond';
BEGIN
    counts := ARRAY[q.rate];
    lengths := ARRAY[q.rate_period + v_grace];
    IF v_short IS NOT NULL THEN
        counts := q.rate_burst || counts;
        lengths := (v_short + v_grace) || lengths;
    END IF;
END $$;

-- fitting_starts(runs, rate, most): what as many of the jobs as fit cost, in their order, and what the next costs; NULL: all fit. What costs more than
-- the rate takes all of it.
CREATE OR REPLACE FUNCTION {schema}.fitting_starts(p_runs integer[], p_rate integer, p_most bigint, OUT given bigint, OUT next_cost integer)
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_run integer[];
    v_fit bigint;
BEGIN
    given := 0;
    FOREACH v_run SLICE 1 IN ARRAY p_runs LOOP
        next_cost := greatest(least(v_run[2], p_rate), 1);
        v_fit := least(v_run[1], greatest(p_most - given, 0) / next_cost);
        given := given + v_fit * next_cost;
        IF v_fit < v_run[1] THEN RETURN; END IF;
    END LOOP;
    next_cost := NULL;
END $$;

-- give_starts(queue, worker, runs): permissions for as many of the worker's jobs as may start, in their order (see share), and if not for all, in how
-- many ms the next may.
-- The queue has a clock of its own: it goes on from the newest row by what the server's clock has gone on since, and stands while that
-- goes back. So rows are never from the future; where the server's clock was set back an empty row says so, and the queue's goes
-- on from there.
-- Invariant: in every window the rows that lie in it sum up to its count at most; but for a single job that costs more, and has the window
-- of the burst for itself. Of those that lie in the longest window each begins at the count at which the one before ended (see keep_starts).
-- Whose next job costs more than 1 and more than is free takes a place: until it had that job others who ask get only what is left beside it, so that cheap jobs
-- do not take for ever what comes free. Who is refused for that has the place behind it. A place is kept until a second after the worker was told to
-- ask again.
-- Cost: three index probes, and one or two for each window, whatever the table holds. None begins where rows were removed, so a
-- snapshot that is held for long costs nothing. Only after a limit was lowered does next_ms read what is too much, and where a job costs more than 1, a
-- thousand rows: if that many have to leave and more, the worker asks again when they have.
CREATE OR REPLACE FUNCTION {schema}.give_starts(
    q {schema}.queue, p_worker integer, p_runs integer[], OUT starts integer, OUT next_ms double precision)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
    v_clock timestamptz := clock_timestamp();
    v_now   timestamptz := v_clock;
    w       record;
    v_last  record;
    v_first record;
    v_given record;
    v_since timestamptz; -- of its own place
    v_ahead bigint := 0; -- what those need who are before it
    v_free  bigint := 9223372036854775807;
    v_taken bigint;
    v_most  bigint;
    v_total bigint;
    v_ms    double precision;
BEGIN
    starts := 0;
    IF p_runs = '{}' THEN
        PERFORM {schema}.place_start(q.name, p_worker, NULL, NULL, NULL);
        RETURN;
    END IF;
    SELECT * INTO w FROM {schema}.rate_windows(q);
    SELECT t.at, t.clock, t.started INTO v_last FROM {schema}.started t
        WHERE t.queue = q.name AND t.at > v_clock - w.lengths[cardinality(w.lengths)] ORDER BY t.at DESC LIMIT 1;
    v_total := coalesce(v_last.started, 0);
    IF v_last.clock > v_clock THEN
        v_now := v_last.at + interval '1 microsecond';
        INSERT INTO {schema}.started (queue, at, clock, expires_at, before, started)
            VALUES (q.name, v_now, v_clock, v_clock + w.lengths[cardinality(w.lengths)], v_total, v_total);
        -- By the server's clock what is there now leaves the longest window then, however far that was ahead. Rows of an earlier step back are shortened already.
        UPDATE {schema}.started t SET expires_at = v_clock + w.lengths[cardinality(w.lengths)]
            WHERE t.queue = q.name AND t.at > v_last.at - (v_last.clock - v_clock) AND t.expires_at > v_clock + w.lengths[cardinality(w.lengths)];
    ELSIF v_last.at IS NOT NULL THEN
        v_now := greatest(v_last.at + (v_clock - v_last.clock), v_last.at + interval '1 microsecond');
    END IF;
    SELECT min(s.waits_since) FILTER (WHERE s.worker_id = p_worker), coalesce(sum(s.waits_for) FILTER (WHERE s.worker_id <> p_worker), 0)
        INTO v_since, v_ahead FROM {schema}.slot s
        WHERE s.queue = q.name AND s.waits_since <= v_clock AND s.waits_until > v_clock;
    IF v_since IS NOT NULL AND v_ahead > 0 THEN
        SELECT coalesce(sum(s.waits_for), 0) INTO v_ahead FROM {schema}.slot s
            WHERE s.queue = q.name AND s.waits_until > v_clock AND (s.waits_since, s.worker_id) < (v_since, p_worker);
    END IF;
    FOR i IN 1..cardinality(w.counts) LOOP
        SELECT t.before INTO v_first FROM {schema}.started t
            WHERE t.queue = q.name AND t.at > v_now - w.lengths[i] ORDER BY t.at LIMIT 1;
        v_taken := v_ahead + v_total - coalesce(v_first.before, v_total);
        -- One that is empty has room for one job of any cost.
        v_free := least(v_free, CASE WHEN v_taken = 0 THEN greatest(w.counts[i], least(p_runs[1][2], q.rate)) ELSE w.counts[i] - v_taken END);
    END LOOP;
    SELECT * INTO v_given FROM {schema}.fitting_starts(p_runs, q.rate, v_free);
    IF v_given.given > 0 THEN
        starts := v_given.given;
        IF v_last.clock > v_clock THEN v_now := v_now + interval '1 microsecond'; END IF;
        INSERT INTO {schema}.started (queue, at, clock, expires_at, before, started)
            VALUES (q.name, v_now, v_clock, v_clock + w.lengths[cardinality(w.lengths)], v_total, v_total + starts);
        v_total := v_total + starts;
    END IF;
    IF v_given.next_cost IS NOT NULL THEN
        -- Who waits only for others asks again soon.
        next_ms := CASE WHEN v_ahead > 0 THEN 20 ELSE 0 END;
        FOR i IN 1..cardinality(w.counts) LOOP
            v_most := greatest(w.counts[i] - v_ahead - v_given.next_cost, 0);
            -- Once this row has left the window, there is room for the next; or it is worth to look again.
            IF v_ahead = 0 AND v_given.next_cost = 1 THEN
                SELECT extract(epoch FROM t.at + w.lengths[i] - v_now) * 1000 INTO v_ms FROM {schema}.started t
                    WHERE t.queue = q.name AND t.at > v_now - w.lengths[i] AND t.started > v_total - v_most - 1 ORDER BY t.at LIMIT 1;
            ELSE
                SELECT extract(epoch FROM coalesce(min(t.at) FILTER (WHERE t.started > v_total - v_most - 1), max(t.at)) + w.lengths[i] - v_now) * 1000
                    INTO v_ms FROM (SELECT x.at, x.started FROM {schema}.started x
                        WHERE x.queue = q.name AND x.at > v_now - w.lengths[i] ORDER BY x.at LIMIT 1000) AS t;
            END IF;
            CONTINUE WHEN v_ms IS NULL;
            SELECT t.before INTO v_first FROM {schema}.started t
                WHERE t.queue = q.name AND t.at > v_now - w.lengths[i] ORDER BY t.at LIMIT 1;
            next_ms := greatest(next_ms, CASE WHEN v_total - v_first.before > v_most THEN v_ms ELSE 0 END);
        END LOOP;
    END IF;
    IF v_given.next_cost > 1 OR v_given.next_cost = 1 AND starts = 0 AND v_ahead > 0 THEN
        PERFORM {schema}.place_start(q.name, p_worker, CASE WHEN starts = 0 AND v_since IS NOT NULL THEN v_since ELSE v_clock END,
            v_clock + next_ms * interval '1 millisecond' + interval '1 second', v_given.next_cost);
    ELSE
        PERFORM {schema}.place_start(q.name, p_worker, NULL, NULL, NULL);
    END IF;
END $$;

-- keep_starts(was, is): where a queue's longest window grew, what lies in it counts there, as far as it is still known. It is kept until that window has
-- passed, and made one count: where nothing lay in the window of before give_starts began a new one.
-- Cost: two index probes for each row that lies there.
CREATE OR REPLACE FUNCTION {schema}.keep_starts(p_was {schema}.queue, p_is {schema}.queue) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_length interval := (SELECT max(l) FROM {schema}.rate_windows(p_is) w CROSS JOIN LATERAL unnest(w.lengths) AS l);
    v_clock  timestamptz := clock_timestamp();
    v_from   timestamptz := v_clock - v_length; -- the queue's own clock is never behind
BEGIN
    IF v_length <= (SELECT max(l) FROM {schema}.rate_windows(p_was) w CROSS JOIN LATERAL unnest(w.lengths) AS l) THEN RETURN; END IF;
    UPDATE {schema}.started t SET before = c.until - c.count, started = c.until, expires_at = least(t.clock, v_clock) + v_length FROM (
        SELECT x.at, x.started - x.before AS count, (sum(x.started - x.before) OVER (ORDER BY x.at))::bigint AS until
        FROM {schema}.started x WHERE x.queue = p_is.name AND x.at > v_from) AS c
    WHERE t.queue = p_is.name AND t.at = c.at;
END $$;

-- place_start(queue, worker, since, until, cost): the worker's place among those who wait for starts; NULL: it has none. Writes nothing where that hardly
-- changes.
CREATE OR REPLACE FUNCTION {schema}.place_start(p_queue text, p_worker integer, p_since timestamptz, p_until timestamptz, p_cost integer) RETURNS void
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
    UPDATE {schema}.slot s SET waits_since = p_since, waits_until = p_until, waits_for = p_cost
    WHERE s.queue = p_queue AND s.worker_id = p_worker
      AND ((s.waits_since, s.waits_for) IS DISTINCT FROM (p_since, p_cost)
           OR s.waits_until NOT BETWEEN p_until - interval '0.5 s' AND p_until + interval '0.5 s')
$$;

-- forget_shares(most): rows that no window reaches back to, and shares of workers that are no more: those that end_shares left, and a restored dump may have some. Of queues
-- that somebody else has locked they are left for the next round. Returns how many; p_most: there are more.
CREATE OR REPLACE FUNCTION {schema}.forget_shares(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_sort = off
AS $$
DECLARE
    v_places tid[] := ARRAY(
        SELECT t.ctid FROM {schema}.started t WHERE t.expires_at < (SELECT clock_timestamp()) ORDER BY t.expires_at LIMIT p_most FOR UPDATE SKIP LOCKED);
    -- As many locks as a transaction may well have; others each time, since some may be locked for long.
    v_queues text[] := ARRAY(
        SELECT s.queue FROM {schema}.slot s
        WHERE NOT EXISTS (SELECT 1 FROM {schema}.worker w WHERE w.id = s.worker_id AND w.ended_at IS NULL) GROUP BY s.queue ORDER BY random() LIMIT 100);
    v_queue  text;
    v_gone   boolean := false;
BEGIN
    DELETE FROM {schema}.started t WHERE t.ctid = ANY (v_places);
    FOREACH v_queue IN ARRAY v_queues LOOP
        CONTINUE WHEN NOT {schema}.try_limits(v_queue);
        DELETE FROM {schema}.slot s WHERE s.queue = v_queue
            AND NOT EXISTS (SELECT 1 FROM {schema}.worker w WHERE w.id = s.worker_id AND w.ended_at IS NULL);
        v_gone := true;
        PERFORM {schema}.announce_slots(q.name, q.concurrency) FROM {schema}.queue q WHERE q.name = v_queue AND q.concurrency IS NOT NULL;
    END LOOP;
    RETURN CASE WHEN v_gone AND cardinality(v_queues) = 100 THEN p_most ELSE cardinality(v_places) END;
END $$;
