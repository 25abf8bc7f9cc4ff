-- Jobs that completed with a result, by the batch: for the log they are completions, and beside each settlement stands
-- one row with many results.

-- settle_with_results(worker, ..., outcomes, xids, of, last, jobs, results): settle(), and keeps what the jobs of its first
-- entries returned, all of them or none.
--   xids: for each range of these entries, which come first, the transaction of its jobs in the log.
--   of, last, jobs, results: rows of table result; of: the entry (from 1) whose ranges name the jobs.
-- Result: as of settle(). NULL: nothing was written, because one of these jobs is not there, or something else has settled it or is about to:
-- each of them must be looked at by itself, as settle() does with its outcomes.
-- Cost: as settle(), three probes more for each range of these entries, and one index entry for each job. With results of 20
-- bytes a drain costs the server some 1.2 us more for each job than without (10^6 jobs, two cores, PostgreSQL 15).
CREATE OR REPLACE FUNCTION {schema}.settle_with_results(
    p_worker integer, p_lanes integer[], p_seqs bigint[], p_tokens integer[], p_counts integer[],
    p_entries integer[], p_lows bigint[], p_highs bigint[], p_outcomes json,
    p_xids bigint[], p_of integer[], p_last bigint[], p_jobs text[], p_results json[]) RETURNS smallint[]
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_status smallint[];
BEGIN
    PERFORM {schema}.fence(p_worker);
    PERFORM pg_advisory_xact_lock(hashtext({name} || '.settle'), p_worker);
    -- Until the end nobody completes one of its jobs in a transaction of their own.
    IF NOT pg_try_advisory_xact_lock(hashtext({name} || '.complete'), p_worker) THEN RETURN NULL; END IF;
    IF EXISTS (
        SELECT 1 FROM unnest(p_entries[:cardinality(p_xids)], p_lows, p_highs, p_xids) AS r(n, low, high, xid)
        WHERE r.n IS NOT NULL AND (
            EXISTS (SELECT 1 FROM {schema}.settlement t WHERE t.lane_id = p_lanes[r.n] AND t.seq = p_seqs[r.n]
                    AND t.high_id BETWEEN r.low AND r.high)
            OR EXISTS (SELECT 1 FROM {schema}.settlement t WHERE t.lane_id = p_lanes[r.n] AND t.seq = p_seqs[r.n] AND t.high_id IS NULL)
            OR EXISTS (SELECT 1 FROM (
                    SELECT t.low_id FROM {schema}.settlement t WHERE t.lane_id = p_lanes[r.n] AND t.seq = p_seqs[r.n]
                    AND t.high_id > r.high AND t.low_id < t.high_id ORDER BY t.high_id LIMIT 1) AS w WHERE w.low_id <= r.high)
            OR r.high - r.low + 1 > (
                SELECT count(*) FROM {schema}.job j WHERE j.lane_id = p_lanes[r.n] AND j.xid = r.xid::text::xid8
                  AND j.id BETWEEN r.low AND r.high))) THEN
        RETURN NULL;
    END IF;
    v_status := {schema}.settle(p_worker, p_lanes, p_seqs, p_tokens, p_counts, p_entries, p_lows, p_highs, p_outcomes);
    INSERT INTO {schema}.result (seq, job_id, lane_id, segment, jobs, results)
        SELECT p_seqs[r.entry], r.last, p_lanes[r.entry], {schema}.current_segment(), r.jobs::bigint[], r.results
        FROM unnest(p_of, p_last, p_jobs, p_results) AS r(entry, last, jobs, results)
        WHERE v_status[r.entry] = 0;
    RETURN v_status;
END $$;

-- result(id): what a completed job returned; NULL when it returned nothing, has not completed or is unknown.
-- Cost: as job_record.
CREATE OR REPLACE FUNCTION {schema}.result(id bigint) RETURNS json
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT r.result FROM {schema}.job_record($1) r
$$;
