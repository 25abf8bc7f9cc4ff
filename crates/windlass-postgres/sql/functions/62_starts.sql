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

-- give_starts(queue, most): how many jobs of the queue the caller may start, and if fewer than `most`, in how many ms there will be at
-- least one.
-- The queue has a clock of its own: it goes on from the newest row by what the server's clock has gone on since, and stands while that
-- goes back. So rows are never from the future; where the server's clock was set back an empty row says so, and the queue's goes
-- on from there.
-- Invariant: in every window the rows that lie in it sum up to its count at most.
-- Cost: two index probes, and one or two for each window, whatever the table holds. None begins where rows were removed, so a
-- snapshot that is held for long costs nothing. Only after a limit was lowered does next_ms read what is too much.
CREATE OR REPLACE FUNCTION {schema}.give_starts(q {schema}.queue, p_most integer, OUT starts integer, OUT next_ms double precision)
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
    v_free  bigint := p_most;
    v_total bigint;
    v_ms    double precision;
BEGIN
    starts := 0;
    IF p_most <= 0 THEN RETURN; END IF;
    SELECT * INTO w FROM {schema}.rate_windows(q);
    SELECT t.at, t.clock, t.started INTO v_last FROM {schema}.started t
        WHERE t.queue = q.name AND t.at > v_clock - w.lengths[cardinality(w.lengths)] ORDER BY t.at DESC LIMIT 1;
    v_total := coalesce(v_last.started, 0);
    IF v_last.clock > v_clock THEN
        v_now := v_last.at + interval '1 microsecond';
        INSERT INTO {schema}.started (queue, at, clock, expires_at, before, started)
            VALUES (q.name, v_now, v_clock, v_now + w.lengths[cardinality(w.lengths)], v_total, v_total);
    ELSIF v_last.at IS NOT NULL THEN
        v_now := greatest(v_last.at + (v_clock - v_last.clock), v_last.at + interval '1 microsecond');
    END IF;
    FOR i IN 1..cardinality(w.counts) LOOP
        SELECT t.before INTO v_first FROM {schema}.started t
            WHERE t.queue = q.name AND t.at > v_now - w.lengths[i] ORDER BY t.at LIMIT 1;
        v_free := least(v_free, w.counts[i] - (v_total - coalesce(v_first.before, v_total)));
    END LOOP;
    IF v_free > 0 THEN
        starts := v_free;
        IF v_last.clock > v_clock THEN v_now := v_now + interval '1 microsecond'; END IF;
        INSERT INTO {schema}.started (queue, at, clock, expires_at, before, started)
            VALUES (q.name, v_now, v_clock, v_now + w.lengths[cardinality(w.lengths)], v_total, v_total + v_free);
        v_total := v_total + v_free;
    END IF;
    IF starts < p_most THEN
        FOR i IN 1..cardinality(w.counts) LOOP
            -- Once this row has left the window, at least one start is free.
            SELECT extract(epoch FROM t.at + w.lengths[i] - v_now) * 1000 INTO v_ms FROM {schema}.started t
                WHERE t.queue = q.name AND t.at > v_now - w.lengths[i] AND t.started > v_total - w.counts[i] ORDER BY t.at LIMIT 1;
            CONTINUE WHEN NOT FOUND;
            SELECT t.before INTO v_first FROM {schema}.started t
                WHERE t.queue = q.name AND t.at > v_now - w.lengths[i] ORDER BY t.at LIMIT 1;
            next_ms := greatest(next_ms, CASE WHEN v_total - v_first.before >= w.counts[i] THEN v_ms ELSE 0 END);
        END LOOP;
    END IF;
END $$;

-- forget_shares(most): rows that no window reaches back to, and shares of workers that are no more: a restored dump may have some. Returns how
-- many.
CREATE OR REPLACE FUNCTION {schema}.forget_shares(p_most integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_sort = off
AS $$
DECLARE
    v_places tid[] := ARRAY(
        SELECT t.ctid FROM {schema}.started t WHERE t.expires_at < clock_timestamp() ORDER BY t.expires_at LIMIT p_most FOR UPDATE SKIP LOCKED);
BEGIN
    DELETE FROM {schema}.started t WHERE t.ctid = ANY (v_places);
    -- One worker in a call: it locks its queues in order.
    PERFORM {schema}.end_shares(o.worker_id) FROM (
        SELECT s.worker_id FROM {schema}.slot s
        WHERE NOT EXISTS (SELECT 1 FROM {schema}.worker w WHERE w.id = s.worker_id AND w.ended_at IS NULL) LIMIT 1) AS o;
    RETURN CASE WHEN FOUND THEN p_most ELSE cardinality(v_places) END;
END $$;
