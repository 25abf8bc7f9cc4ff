-- settle(worker, lanes, seqs, tokens, counts, entries, lows, highs, outcomes): records what became of jobs, all in
-- the caller's transaction.
--   lanes, seqs, tokens, counts: an entry for each completion. count: how many jobs its ranges name; NULL: the rest.
--   entries, lows, highs: the ranges of job ids, and the entry (from 1, ascending) that each belongs to.
--   outcomes: jobs that did not simply complete, see write_outcomes.
-- Result: one status for each entry, completions first: 0 accepted, 1 already settled, 2 refused.
-- Invariants: fenced; a settlement is appended only for a claim of this worker with this token; a job is
-- settled once, whatever is repeated. Append only on the hot tables.
-- Cost: linear in the entries and the ranges, some index probes for each, whatever was settled before. Two cores,
-- PostgreSQL 15: a whole claim 0.4 ms, 1,000 one-job claims in one call 45 ms, 2,000 retries 370 ms (1,170 when the
-- entries were parsed for each table). 500 calls for one job each of one claim 0.44 s (3.7 s when each looked at all
-- before it), 5,000 calls 3.6 s. A claim is looked up behind OFFSET 0: by its lane and number, never among all claims of
-- its worker, as a plan that was made while the tables were empty would. Keep tests/plans_settle.rs green.
CREATE OR REPLACE FUNCTION {schema}.settle(
    p_worker integer, p_lanes integer[], p_seqs bigint[], p_tokens integer[], p_counts integer[],
    p_entries integer[], p_lows bigint[], p_highs bigint[], p_outcomes json DEFAULT NULL) RETURNS smallint[]
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_segment  smallint;
    v_outcomes smallint[] := '{}';
    v_ranges   smallint[] := '{}';
    v_rests    smallint[];
BEGIN
    PERFORM {schema}.fence(p_worker);
    -- Its worker forgets what it is told is settled: a crash of the server must not, whatever the setting is.
    IF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'local', true); END IF;
    -- A repeated call waits for the one before it, which a lost connection may have left at work.
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.settle'), p_worker);
    v_segment := {schema}.current_segment(); -- after the locks: never older than the claim's
    -- The rest of a claim last, so that it leaves out what the others name.
    IF p_outcomes IS NOT NULL THEN
        v_outcomes := {schema}.settle_outcomes(p_worker, p_outcomes, v_segment);
    END IF;
    IF cardinality(p_entries) > 0 THEN
        v_ranges := {schema}.settle_ranges(p_worker, p_lanes, p_seqs, p_tokens, p_counts, p_entries, p_lows, p_highs, v_segment);
    END IF;
    WITH entry AS MATERIALIZED (
        SELECT e.n, e.lane, e.seq, e.count, greatest(c.job_count - s.settled, 0) AS remaining,
               CASE WHEN e.count IS NOT NULL THEN coalesce(v_ranges[e.n], 1)
                    WHEN c.seq IS NULL THEN 2
                    WHEN c.job_count = 0 OR s.whole OR row_number() OVER (PARTITION BY e.lane, e.seq, e.token, e.count IS NULL ORDER BY e.n) > 1 THEN 1
                    WHEN s.settled < c.job_count THEN 0
                    -- As many as it had; but a job that two settlements name counts twice.
                    WHEN EXISTS (SELECT 1 FROM {schema}.unsettled_jobs(e.lane, e.seq)) THEN 0
                    ELSE 1 END AS status
        FROM unnest(p_lanes, p_seqs, p_tokens, p_counts) WITH ORDINALITY AS e(lane, seq, token, count, n)
        LEFT JOIN LATERAL (SELECT * FROM {schema}.claim k WHERE k.lane_id = e.lane AND k.seq = e.seq OFFSET 0) AS c
            ON c.token = e.token AND c.worker_id = p_worker
        LEFT JOIN LATERAL (
            SELECT coalesce(sum(t.job_count), 0) AS settled, coalesce(bool_or(t.high_id IS NULL), false) AS whole
            FROM {schema}.settlement t WHERE e.count IS NULL AND t.lane_id = e.lane AND t.seq = e.seq) AS s ON true
    ), written AS (
        INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed)
        SELECT seq, lane, p_worker, remaining, v_segment, true FROM entry WHERE status = 0 AND count IS NULL
    )
    SELECT array_agg(status ORDER BY n) INTO v_rests FROM entry;
    RETURN coalesce(v_rests, '{}') || v_outcomes;
END $$;

-- settle_ranges(...): the completions that name ranges of jobs. What an earlier call (a lost reply, complete_in in
-- a user's transaction) has settled is left out. Returns the statuses; of entries without ranges 1.
-- Cost: two probes for each range, and one index entry for each single job within it that was settled before.
CREATE OR REPLACE FUNCTION {schema}.settle_ranges(
    p_worker integer, p_lanes integer[], p_seqs bigint[], p_tokens integer[], p_counts integer[],
    p_entries integer[], p_lows bigint[], p_highs bigint[], p_segment smallint) RETURNS smallint[]
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_all     smallint[] := array_fill(1::smallint, ARRAY[cardinality(p_lanes)]);
    v_entries integer[];
    v_status  smallint[];
BEGIN
    WITH part AS MATERIALIZED (
        -- covered: it is settled, as one job or within a range of several. clear: none touches it, and no job within it went
        -- elsewhere (such as cancelled ones, which the claim stepped over and the caller may not have counted).
        -- done: how many jobs within it completed by themselves, in a user's transaction; the caller counts these.
        SELECT r.n, r.low, r.high, p_lanes[r.n] AS lane, p_seqs[r.n] AS seq, p_tokens[r.n] AS token, s.done,
               s.done IS NOT NULL AND coalesce(w.low_id > r.high, true) AS clear,
               coalesce(w.low_id <= r.low AND w.high_id >= r.high, false) OR (r.low = r.high AND coalesce(s.done > 0, false)) AS covered,
               coalesce(r.low <= max(r.high) OVER earlier, false) AS doubled
        FROM unnest(p_entries, p_lows, p_highs) AS r(n, low, high)
        LEFT JOIN LATERAL (
            SELECT t.low_id, t.high_id FROM {schema}.settlement t
            WHERE t.lane_id = p_lanes[r.n] AND t.seq = p_seqs[r.n] AND t.high_id >= r.low AND t.low_id < t.high_id
            ORDER BY t.high_id LIMIT 1) AS w ON true
        CROSS JOIN LATERAL (
            SELECT CASE WHEN coalesce(bool_and(t.completed), true) THEN count(DISTINCT t.high_id) END AS done FROM {schema}.settlement t
            WHERE t.lane_id = p_lanes[r.n] AND t.seq = p_seqs[r.n] AND t.high_id BETWEEN r.low AND r.high AND t.low_id = t.high_id) AS s
        WINDOW earlier AS (PARTITION BY p_lanes[r.n], p_seqs[r.n] ORDER BY r.low, r.high, r.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ), entry AS MATERIALIZED (
        SELECT p.*, row_number() OVER in_order AS nth, p_counts[p.n] - sum(p.done) OVER entry AS remaining,
               bool_and(p.clear AND NOT p.doubled) OVER entry AS plain, bool_and(p.covered) OVER entry AS repeated
        FROM part p WINDOW in_order AS (PARTITION BY p.n ORDER BY p.covered, p.low), entry AS (PARTITION BY p.n)
    ), judged AS MATERIALIZED (
        SELECT e.*, CASE WHEN c.seq IS NULL THEN 2
                         WHEN c.job_count = 0 OR e.repeated OR EXISTS (
                             SELECT 1 FROM {schema}.settlement t WHERE t.lane_id = e.lane AND t.seq = e.seq AND t.high_id IS NULL) THEN 1
                         WHEN NOT e.plain THEN NULL -- job by job, below
                         WHEN e.remaining <= 0 THEN 1
                         ELSE 0 END AS status
        FROM entry e
        LEFT JOIN LATERAL (SELECT * FROM {schema}.claim k WHERE k.lane_id = e.lane AND k.seq = e.seq OFFSET 0) AS c
            ON c.token = e.token AND c.worker_id = p_worker
    ), written AS (
        INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed, low_id, high_id)
        SELECT seq, lane, p_worker, CASE WHEN nth = 1 THEN remaining ELSE 0 END, p_segment, true, low, high
        FROM judged WHERE status = 0 AND NOT covered
    )
    SELECT array_agg(j.n ORDER BY j.n), array_agg(j.status ORDER BY j.n) INTO v_entries, v_status FROM judged j WHERE j.nth = 1;
    FOR i IN 1..cardinality(v_entries) LOOP
        v_all[v_entries[i]] := v_status[i];
        CONTINUE WHEN v_status[i] IS NOT NULL;
        WITH named AS (
            SELECT array_agg(j.id) AS ids FROM {schema}.unsettled_jobs(p_lanes[v_entries[i]], p_seqs[v_entries[i]]) j
            WHERE EXISTS (SELECT 1 FROM unnest(p_entries, p_lows, p_highs) AS r(n, low, high)
                          WHERE r.n = v_entries[i] AND j.id BETWEEN r.low AND r.high)
        )
        INSERT INTO {schema}.settlement (seq, lane_id, worker_id, job_count, segment, completed, low_id, high_id)
            SELECT p_seqs[v_entries[i]], p_lanes[v_entries[i]], p_worker, s.high - s.low + 1, p_segment, true, s.low, s.high
            FROM named, {schema}.stretches(named.ids) s;
        v_all[v_entries[i]] := CASE WHEN FOUND THEN 0 ELSE 1 END;
    END LOOP;
    RETURN v_all;
END $$;
