-- Rates of keys. See tables/017_key_rates.sql. All that writes runs under the queue's lock (lock_keys).

-- key_rate(queue, key): at most `count` jobs of the key in each window of `period`; NULLs: it has no rate.
CREATE OR REPLACE FUNCTION {schema}.key_rate(p_queue text, p_key text, OUT count integer, OUT period interval)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    SELECT k.rate, k.rate_period INTO count, period FROM {schema}.key_limit k WHERE p_key <> '' AND k.queue = p_queue AND k.key IN (p_key, '')
        ORDER BY k.key = '' LIMIT 1;
END $$;

-- keys_looked(queue): up to which time what ended was taken out of the counts.
CREATE OR REPLACE FUNCTION {schema}.keys_looked(p_queue text) RETURNS timestamptz
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
    RETURN coalesce((SELECT l.at FROM {schema}.key_looked l WHERE l.queue = p_queue ORDER BY l.n DESC LIMIT 1), '-infinity');
END $$;

-- put_keys_looked(queue, at)
CREATE OR REPLACE FUNCTION {schema}.put_keys_looked(p_queue text, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    v_was tid := (SELECT l.ctid FROM {schema}.key_looked l WHERE l.queue = p_queue ORDER BY l.n DESC LIMIT 1);
BEGIN
    DELETE FROM {schema}.key_looked l WHERE l.ctid = v_was;
    INSERT INTO {schema}.key_looked (queue, at) VALUES (p_queue, p_at);
END $$;

-- note_ended(queue, keys, times): of each key a job is held no more since then, and counts for the period of its rate. Of those that count on: their keys and how
-- many. What ended within a sixty-fourth of the period is one row, which counts as long as its last job.
CREATE OR REPLACE FUNCTION {schema}.note_ended(p_queue text, p_keys text[], p_times timestamptz[], OUT keys text[], OUT jobs integer[])
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    v_now    timestamptz := clock_timestamp();
    v_looked timestamptz := {schema}.keys_looked(p_queue); -- later than now where the clock was set back
BEGIN
    -- Key by key, without a join: of arrays the planner knows no size, and would compare each with each.
    WITH rated AS MATERIALIZED (
        SELECT k.key, k.times, r.period FROM (SELECT u.key, array_agg(u.at) AS times FROM unnest(p_keys, p_times) AS u(key, at) GROUP BY u.key) AS k
        CROSS JOIN LATERAL {schema}.key_rate(p_queue, k.key) r WHERE r.count IS NOT NULL
    ), ended AS MATERIALIZED (
        SELECT r.key, greatest(least(max(u.at), v_now) + r.period, v_looked + interval '1 microsecond') AS free_at, count(*)::integer AS jobs
        FROM rated r CROSS JOIN LATERAL unnest(r.times) AS u(at)
        GROUP BY r.key, r.period, floor(extract(epoch FROM u.at) * 64 / extract(epoch FROM r.period))
        HAVING max(u.at) + r.period > v_now
    ), put AS (
        INSERT INTO {schema}.key_ended (queue, key, free_at, jobs) SELECT p_queue, e.key, e.free_at, e.jobs FROM ended e ORDER BY e.free_at)
    SELECT array_agg(s.key), array_agg(s.jobs) INTO keys, jobs FROM (SELECT e.key, sum(e.jobs)::integer AS jobs FROM ended e GROUP BY e.key) AS s;
END $$;

-- follow_key_clock(queue): where the clock was ahead and is set back. What ended meanwhile counts for a period from now at most, and its keys are in turn again, to be looked
-- at; up to now was looked. At most 10,000 rows, those that would count longest; where there may be more, the time in key_looked stays one to come, and the next call goes on.
CREATE OR REPLACE FUNCTION {schema}.follow_key_clock(p_queue text) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_mergejoin = off
AS $$
DECLARE
    v_now    timestamptz := clock_timestamp();
    v_looked timestamptz := {schema}.keys_looked(p_queue);
    v_longer record;
BEGIN
    -- Key by key, without a join, as in note_ended.
    WITH last AS MATERIALIZED (
        SELECT e.key, array_agg(e.ctid) AS places, array_agg(e.free_at) AS times, array_agg(e.jobs) AS jobs FROM (
            SELECT e.ctid, e.key, e.free_at, e.jobs FROM {schema}.key_ended e
            WHERE e.queue = p_queue AND e.free_at > v_now ORDER BY e.queue DESC, e.free_at DESC LIMIT 10000) AS e GROUP BY e.key
    ), longer AS MATERIALIZED (
        SELECT l.key, u.place, u.jobs, u.free_at AS was, v_now + r.period AS free_at FROM last l CROSS JOIN LATERAL {schema}.key_rate(p_queue, l.key) r
        CROSS JOIN LATERAL unnest(l.places, l.times, l.jobs) AS u(place, free_at, jobs) WHERE u.free_at > v_now + r.period
    ), gone AS (DELETE FROM {schema}.key_ended e WHERE e.ctid = ANY (ARRAY(SELECT l.place FROM longer l))
    ), put AS (
        INSERT INTO {schema}.key_ended (queue, key, free_at, jobs) SELECT p_queue, l.key, l.free_at, sum(l.jobs)::integer FROM longer l GROUP BY l.key, l.free_at)
    SELECT array_agg(DISTINCT l.key) AS keys, max(l.was) AS at, count(*) AS n INTO v_longer FROM longer l;
    IF v_longer.n >= 10000 THEN
        IF v_looked <= v_now + interval '1 second' THEN PERFORM {schema}.put_keys_looked(p_queue, v_longer.at); END IF;
    ELSIF v_looked > v_now THEN
        PERFORM {schema}.put_keys_looked(p_queue, v_now);
    END IF;
    PERFORM {schema}.turn_again(p_queue, coalesce(v_longer.keys, '{}'));
END $$;

-- claimed_to_come(queue): whether what was claimed last of one of its lanes was claimed, or settled, at a time to come: the clock was set back since.
CREATE OR REPLACE FUNCTION {schema}.claimed_to_come(p_queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    v_late timestamptz := clock_timestamp() + interval '1 second';
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM {schema}.lane l CROSS JOIN LATERAL (
            SELECT k.seq, k.claimed_at FROM {schema}.claim k WHERE k.lane_id = l.id AND k.job_count > 0 ORDER BY k.seq DESC LIMIT 1) AS k
        CROSS JOIN LATERAL (
            SELECT max(s.settled_at) AS at FROM (SELECT s.settled_at FROM {schema}.settlement s WHERE s.lane_id = l.id AND s.seq = k.seq LIMIT 20) AS s) AS s
        WHERE l.queue = p_queue AND greatest(k.claimed_at, s.at) > v_late);
END $$;

-- past_counts_no_more(queue): what ended a period ago counts no more, and its keys are in turn again. At most 10,000 rows. Whether there was any.
-- The clock was set back since where was looked up to a time to come. Where nothing was taken out meanwhile claims tell: then what counts longest does so for longer than its
-- period, as it also does where that was shortened.
-- Cost: some index probes where there is nothing; for each key a row.
CREATE OR REPLACE FUNCTION {schema}.past_counts_no_more(p_queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_mergejoin = off
AS $$
DECLARE
    v_from timestamptz := {schema}.keys_looked(p_queue);
    v_now  timestamptz := clock_timestamp();
    v_late timestamptz := v_now + interval '1 second';
    v_back boolean;
    v_past record;
BEGIN
    -- The period as key_rate has it: to ask that costs as much as all else where there is nothing.
    v_back := v_from > v_late OR coalesce((
        SELECT e.free_at > v_late + (SELECT k.rate_period FROM {schema}.key_limit k WHERE k.queue = p_queue AND k.key IN (e.key, '') ORDER BY k.key = '' LIMIT 1)
        FROM {schema}.key_ended e WHERE e.queue = p_queue AND e.free_at > v_late ORDER BY e.queue DESC, e.free_at DESC LIMIT 1), false);
    IF v_back AND v_from <= v_late THEN v_back := {schema}.claimed_to_come(p_queue); END IF;
    IF v_back THEN
        PERFORM {schema}.follow_key_clock(p_queue);
        v_from := least(v_from, v_now);
    END IF;
    -- In order, so that it is found by time: an index by key, too, has both columns, and all that ever ended.
    IF (SELECT 1 FROM {schema}.key_ended e WHERE e.queue = p_queue AND e.free_at > v_from AND e.free_at <= v_now ORDER BY e.queue, e.free_at LIMIT 1) IS NULL THEN
        RETURN v_back;
    END IF;
    WITH past AS MATERIALIZED (
        SELECT e.ctid AS place, e.key, e.jobs, e.free_at FROM {schema}.key_ended e
        WHERE e.queue = p_queue AND e.free_at > v_from AND e.free_at <= v_now ORDER BY e.queue, e.free_at LIMIT 10000
    ), gone AS (DELETE FROM {schema}.key_ended e WHERE e.ctid = ANY (ARRAY(SELECT p.place FROM past p))
    ), counts AS MATERIALIZED (SELECT p.key, sum(p.jobs)::integer AS jobs FROM past p GROUP BY p.key
    ), room AS MATERIALIZED (
        SELECT h.*, k.jobs FROM counts k
        CROSS JOIN LATERAL (SELECT h.*, h.ctid AS place FROM {schema}.key_room h WHERE h.queue = p_queue AND h.key = k.key ORDER BY h.n DESC LIMIT 1) AS h
    ), was AS (DELETE FROM {schema}.key_room h WHERE h.ctid = ANY (ARRAY(SELECT r.place FROM room r))
    ), put AS (
        INSERT INTO {schema}.key_room (queue, key, held, begun, ended) SELECT p_queue, r.key, r.held, r.begun, greatest(r.ended - r.jobs, 0) FROM room r
        WHERE r.held > 0 OR r.begun <> '{}' OR r.ended > r.jobs)
    SELECT (SELECT array_agg(k.key) FROM counts k) AS keys, max(p.free_at) AS until, count(*) AS n INTO v_past FROM past p;
    -- Of the last time there may be more.
    PERFORM {schema}.put_keys_looked(p_queue, CASE WHEN v_past.n < 10000 THEN v_now ELSE v_past.until - interval '1 microsecond' END),
            {schema}.turn_again(p_queue, v_past.keys);
    RETURN true;
END $$;

-- key_due(queue): when the rate of a key that is blocked allows more: the earliest. NULL: none is.
-- Cost: an index probe for each lane.
CREATE OR REPLACE FUNCTION {schema}.key_due(p_queue text) RETURNS timestamptz
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    v_from timestamptz := {schema}.keys_looked(p_queue);
BEGIN
    RETURN (SELECT min(d.due_at) FROM {schema}.lane l CROSS JOIN LATERAL (
                SELECT t.due_at FROM {schema}.key_turn t WHERE t.lane_id = l.id AND t.due_at > v_from
                ORDER BY t.lane_id, t.due_at, t.n DESC LIMIT 1) AS d
            WHERE l.queue = p_queue AND l.id < 0);
END $$;

-- claimed_lately(queue): whether jobs of it were claimed within the last 100 ms: who has its lock now may be a claim, as well.
CREATE OR REPLACE FUNCTION {schema}.claimed_lately(p_queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM {schema}.lane l CROSS JOIN LATERAL (
            SELECT k.claimed_at FROM {schema}.claim k WHERE k.lane_id = l.id ORDER BY k.seq DESC LIMIT 1) AS k
        WHERE l.queue = p_queue AND k.claimed_at BETWEEN clock_timestamp() - interval '100 ms' AND clock_timestamp());
END $$;

-- keys_due(from): the queues in which the rate of a blocked key allows more by now, in any order, and when the next one will. from: what is due before that was seen to,
-- as far as the caller knows; NULL: look at all.
-- Cost: a few index probes for each lane in which a key waits so, and none for other queues with rates of keys. Entries from before `from` that a held snapshot keeps are
-- passed over in the index.
CREATE OR REPLACE FUNCTION {schema}.keys_due(p_from timestamptz, OUT queues text[], OUT next_at timestamptz)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_material = off
AS $$
DECLARE
    v_from timestamptz := coalesce(p_from, '-infinity');
    v_now  timestamptz := clock_timestamp();
BEGIN
    WITH RECURSIVE lanes AS ( -- from one lane to the next
        SELECT (SELECT t.lane_id FROM {schema}.key_turn t WHERE t.due_at > v_from ORDER BY t.lane_id, t.due_at, t.n DESC LIMIT 1) AS id
        UNION ALL
        SELECT (SELECT t.lane_id FROM {schema}.key_turn t WHERE t.lane_id > l.id AND t.due_at > v_from ORDER BY t.lane_id, t.due_at, t.n DESC LIMIT 1)
        FROM lanes l WHERE l.id IS NOT NULL
    ), due AS (
        SELECT x.queue, min(d.due_at) AS at FROM lanes l JOIN {schema}.lane x ON x.id = l.id JOIN {schema}.queue q ON q.name = x.queue AND q.key_rates
        CROSS JOIN LATERAL (SELECT greatest(v_from, (SELECT k.at FROM {schema}.key_looked k WHERE k.queue = x.queue ORDER BY k.n DESC LIMIT 1)) AS since) AS k
        CROSS JOIN LATERAL (
            SELECT t.due_at FROM {schema}.key_turn t WHERE t.lane_id = l.id AND t.due_at > k.since ORDER BY t.lane_id, t.due_at, t.n DESC LIMIT 1) AS d
        GROUP BY x.queue)
    SELECT array_agg(d.queue ORDER BY random()) FILTER (WHERE d.at <= v_now), min(d.at) FILTER (WHERE d.at > v_now) INTO queues, next_at FROM due d;
END $$;

-- promote_keys(from): tells idle workers of queues where the rate of a blocked key allows more by now. When the next one will: NULL: none is blocked so. from: see keys_due.
-- It sees to 100 queues, since it keeps a lock of each until the transaction ends; where there are more, the next one will now.
-- Cost: that of keys_due, and a row for each queue that it sees to.
CREATE OR REPLACE FUNCTION {schema}.promote_keys(p_from timestamptz) RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
DECLARE
    v_queues text[];
    v_queue  text;
    v_due    timestamptz;
    v_next   timestamptz;
BEGIN
    SELECT d.queues, d.next_at INTO v_queues, v_next FROM {schema}.keys_due(p_from) d;
    FOREACH v_queue IN ARRAY coalesce(v_queues[1:100], '{}') LOOP
        IF NOT {schema}.lock_keys(v_queue, false) THEN
            -- A claim is at it; or it is somebody who changes limits in a transaction that stays open, and to look soon is in vain.
            v_due := clock_timestamp() + CASE WHEN {schema}.claimed_lately(v_queue) THEN interval '2 ms' ELSE interval '250 ms' END;
        ELSE
            v_due := {schema}.key_due(v_queue);
            IF v_due <= clock_timestamp() THEN
                IF NOT {schema}.past_counts_no_more(v_queue) THEN PERFORM {schema}.put_keys_looked(v_queue, v_due); END IF; -- there is nothing up to then
                PERFORM {schema}.wake_queue(v_queue);
                v_due := {schema}.key_due(v_queue);
            END IF;
        END IF;
        v_next := least(v_next, v_due);
    END LOOP;
    RETURN CASE WHEN cardinality(v_queues) > 100 THEN clock_timestamp() ELSE v_next END;
END $$;

-- forget_ended(): of keys that nobody asks for nothing is kept after their period. It looks at 100 queues, other ones each time: it keeps a lock of each until the
-- transaction ends.
CREATE OR REPLACE FUNCTION {schema}.forget_ended() RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
DECLARE
    v_queue text;
BEGIN
    FOR v_queue IN SELECT q.name FROM {schema}.queue q WHERE q.key_rates ORDER BY random() LIMIT 100 LOOP
        CONTINUE WHEN NOT {schema}.lock_keys(v_queue, false);
        IF {schema}.past_counts_no_more(v_queue) THEN PERFORM {schema}.wake_queue(v_queue); END IF;
    END LOOP;
END $$;
