-- Jobs of quiet keys behind a backlog of others. They run inside claim, under the locks of the queue and of both lanes.
--
-- Where few keys fill what comes next in a lane's log, jobs of other keys that stand behind would wait until all before them is read. So claims look ahead for them, and take
-- them out of the log as an edit does: an entry in cancelled_in_log, and a row in waiting. It is about what comes first, not about what is handed out: what is not found, or
-- comes late, is read in its turn.

-- lookahead_of(lane): how far claims have looked ahead.
CREATE OR REPLACE FUNCTION {schema}.lookahead_of(p_lane integer) RETURNS {schema}.key_lookahead
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    RETURN (SELECT k FROM {schema}.key_lookahead k WHERE k.lane_id = p_lane ORDER BY k.n DESC LIMIT 1);
END $$;

-- put_lookahead(was, lane, from, to, end, keys)
CREATE OR REPLACE FUNCTION {schema}.put_lookahead(
    p_was {schema}.key_lookahead, p_lane integer, p_from pg_snapshot, p_to pg_snapshot, p_xid xid8, p_id bigint, p_keys text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    INSERT INTO {schema}.key_lookahead (lane_id, from_snapshot, to_snapshot, end_xid, end_id, keys) VALUES (p_lane, p_from, p_to, p_xid, p_id, p_keys);
    DELETE FROM {schema}.key_lookahead k WHERE k.lane_id = p_lane AND k.n = p_was.n;
END $$;

-- look_ahead(lane, keyed, page), after a claim that left something in the log: takes jobs of quiet keys out of the lane's log into the keyed lane, where few keys fill
-- what comes next: each a twentieth of the next page / 8 or more, together nine tenths. Reads page * 12 jobs at most and takes page / 4. Whether it has seen all that
-- there is: then of every other key all jobs are in turn or were handed out. It gives up where what it meets is not quiet: more than a fifth of what it read. Not where
-- order matters. Which keys they are is asked only where nothing ahead was looked at yet.
-- Cost: 0.7 us for each job that it reads (35 ms for 48,000), 15 for each that it takes. What took less than 1 ms to read may be read again.
CREATE OR REPLACE FUNCTION {schema}.look_ahead(p_lane integer, p_keyed integer, p_page integer) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    c        record;                          -- where the lane is read next
    v_was    {schema}.key_lookahead := {schema}.lookahead_of(p_lane);
    v_sample integer := greatest(p_page / 8, 4);
    v_read   integer := p_page * 12;
    v_most   integer := greatest(p_page / 4, 1);
    v_loud   text[];                          -- the keys that fill the log
    v_starts text[];                          -- how the attributes of their jobs begin
    v_share  bigint;
    v_from   pg_snapshot;
    v_to     pg_snapshot;
    v_now    pg_snapshot := pg_current_snapshot();
    v_current boolean;                        -- v_to is now
    v_began  timestamptz;
    v_xid    xid8;
    v_id     bigint;
    v_lo     xid8[];
    v_lo_id  bigint[];
    v_hi     xid8[];
    r        record;
BEGIN
    SELECT * INTO c FROM {schema}.log_ahead(p_lane);
    IF NOT c.open THEN RETURN false; END IF;
    -- On from where the last one ended, unless the lane is read beyond; or from where it is read.
    v_from := v_was.from_snapshot; v_to := v_was.to_snapshot; v_xid := v_was.end_xid; v_id := v_was.end_id;
    IF v_was.lane_id IS NULL OR (CASE WHEN v_xid IS NULL THEN pg_snapshot_xmax(c.from_snapshot) >= pg_snapshot_xmax(v_to)
                                      ELSE {schema}.consumed(c.from_snapshot, c.to_snapshot, c.start_xid, c.start_id, v_xid, v_id) END) THEN
        WITH next AS MATERIALIZED (
            SELECT {schema}.read_key(j.attributes) AS key FROM unnest(c.lo, c.lo_id, c.hi) AS r(lo, lo_id, hi)
            CROSS JOIN LATERAL (
                SELECT j.attributes FROM {schema}.job j WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                ORDER BY j.xid, j.id LIMIT v_sample) AS j
            LIMIT v_sample
        ), named AS (SELECT n.key, count(*) AS jobs FROM next n GROUP BY n.key)
        SELECT array_agg(n.key), sum(n.jobs) INTO v_loud, v_share FROM named n WHERE n.jobs * 20 >= v_sample;
        IF v_share IS NULL OR v_share * 10 < v_sample * 9 THEN
            IF v_was.keys IS NOT NULL THEN PERFORM {schema}.end_lookahead(p_lane); END IF; -- it is not of one key any more
            RETURN false;
        END IF;
        v_from := c.from_snapshot; v_to := c.to_snapshot; v_lo := c.lo; v_lo_id := c.lo_id; v_hi := c.hi;
        v_current := false;
    ELSIF v_was.keys IS NULL THEN
        RETURN false;
    ELSE
        v_loud := v_was.keys;
        v_current := v_xid IS NULL;
        IF v_current THEN
            v_from := v_to; v_to := v_now;
        END IF;
        SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(v_from, v_to) d;
        SELECT a.lo, a.lo_id, a.hi INTO v_lo, v_lo_id, v_hi FROM {schema}.after(v_lo, v_hi, v_xid, v_id) a;
    END IF;
    v_starts := ARRAY(SELECT '{"key":' || to_json(k)::text FROM unnest(v_loud) AS k);

    FOR pass IN 1..2 LOOP
        v_began := clock_timestamp();
        -- Where it ends: the last job that it reads; NULL: what comes last.
        SELECT j.xid, j.id INTO v_xid, v_id FROM unnest(v_lo, v_lo_id, v_hi) AS r(lo, lo_id, hi)
            CROSS JOIN LATERAL (
                SELECT j.xid, j.id FROM {schema}.job j WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                ORDER BY j.xid, j.id LIMIT v_read) AS j
            OFFSET v_read - 1 LIMIT 1;
        WITH quiet AS MATERIALIZED (
            SELECT j.* FROM unnest(v_lo, v_lo_id, v_hi) AS r(lo, lo_id, hi)
            CROSS JOIN LATERAL (
                SELECT j.xid, j.id FROM {schema}.job j
                WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi
                  AND (j.xid, j.id) <= (coalesce(v_xid, '{direct}'), coalesce(v_id, 0))
                  AND CASE WHEN j.attributes ^@ ANY (v_starts) THEN false ELSE {schema}.read_key(j.attributes) <> ALL (v_loud) END
                ORDER BY j.xid, j.id LIMIT v_most + 1) AS j
            LIMIT v_most + 1
        ), last AS MATERIALIZED (SELECT q.xid, q.id FROM quiet q WHERE (SELECT count(*) FROM quiet) > v_most OFFSET v_most - 1 LIMIT 1
        ), verdict AS MATERIALIZED (
            SELECT coalesce(l.xid, v_xid) AS xid, CASE WHEN l.xid IS NULL THEN v_id ELSE l.id END AS id, l.xid IS NOT NULL AND v_most * 5 > (
                       SELECT count(*) FROM (
                           SELECT 1 FROM unnest(v_lo, v_lo_id, v_hi) AS r(lo, lo_id, hi)
                           CROSS JOIN LATERAL (
                               SELECT 1 FROM {schema}.job j WHERE j.lane_id = p_lane AND (j.xid, j.id) > (r.lo, r.lo_id) AND j.xid <= r.hi AND (j.xid, j.id) <= (l.xid, l.id)
                               ORDER BY j.xid, j.id LIMIT v_most * 5) AS j
                           LIMIT v_most * 5) AS x) AS loud
            FROM (SELECT 1) AS one LEFT JOIN last l ON true
        ), taken AS MATERIALIZED (
            SELECT j.* FROM quiet q CROSS JOIN verdict v CROSS JOIN LATERAL (
                SELECT j.* FROM {schema}.job j WHERE j.lane_id = p_lane AND j.xid = q.xid AND j.id = q.id OFFSET 0) AS j
            WHERE NOT v.loud AND (v.xid IS NULL OR (q.xid, q.id) <= (v.xid, v.id))
              AND NOT {schema}.consumed(c.from_snapshot, c.to_snapshot, c.start_xid, c.start_id, q.xid, q.id)
              AND (SELECT true FROM {schema}.cancelled_in_log s WHERE s.job_id = q.id AND s.lane_id + 0 = p_lane LIMIT 1) IS NULL
        ), stepped_over AS (INSERT INTO {schema}.cancelled_in_log (job_id, lane_id, xid) SELECT t.id, p_lane, t.xid FROM taken t
        ), put AS (
            INSERT INTO {schema}.waiting (id, available_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, moved, state, kind, args, attributes)
            SELECT t.id, CASE WHEN t.moved THEN {schema}.startable_since(t.xid, t.enqueued_at) ELSE t.enqueued_at END, t.enqueued_at, p_keyed, t.attempt, t.max_attempts, t.crash_count, true, 'keyed', t.kind, t.args, t.attributes FROM taken t
        ), named AS MATERIALIZED (
            SELECT t.key, min(t.id) AS low, min(t.nth) AS nth FROM (SELECT {schema}.read_key(t.attributes) AS key, t.id, row_number() OVER () AS nth FROM taken t) AS t
            GROUP BY t.key)
        SELECT v.*, ARRAY(SELECT n.key FROM named n ORDER BY n.nth) AS keys, ARRAY(SELECT n.low FROM named n ORDER BY n.nth) AS lows INTO r FROM verdict v;
        IF NOT v_current OR r.xid IS NOT NULL OR r.keys <> '{}' OR v_was.keys IS DISTINCT FROM v_loud OR clock_timestamp() - v_began > '1 ms' THEN
            PERFORM {schema}.put_lookahead(v_was, p_lane, v_from, v_to, r.xid, r.id, CASE WHEN NOT r.loud THEN v_loud END);
        END IF;
        IF r.keys <> '{}' THEN PERFORM {schema}.give_turns(p_keyed, r.keys, r.lows); END IF;
        IF r.loud OR r.xid IS NOT NULL THEN RETURN false; END IF;
        IF v_current THEN RETURN true; END IF;
        v_was := {schema}.lookahead_of(p_lane);
        v_current := true;
        v_from := v_to; v_to := v_now;
        SELECT d.lo, d.hi INTO v_lo, v_hi FROM {schema}.delta(v_from, v_to) d;
        v_lo_id := array_fill(0::bigint, ARRAY[cardinality(v_lo)]);
    END LOOP;
    RETURN false;
END $$;

-- end_lookahead(lane): the lane was read beyond, or to its end. What comes next is looked at anew.
CREATE OR REPLACE FUNCTION {schema}.end_lookahead(p_lane integer) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_was {schema}.key_lookahead := {schema}.lookahead_of(p_lane);
BEGIN
    IF v_was.keys IS NOT NULL THEN
        PERFORM {schema}.put_lookahead(v_was, p_lane, v_was.from_snapshot, v_was.to_snapshot, NULL, NULL, NULL);
    END IF;
END $$;
