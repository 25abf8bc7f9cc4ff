-- How fast keyed lanes go. Asked inside claim.

-- keys_are_quick(lane, keyed): whether of a claim of one of these lanes jobs were done at 10,000 a second or more, in the last second. Then what comes last in the log
-- has its turn about as soon where claims hand out what comes first as where they look for it.
-- Cost: some probes for each of the last claims, where there are any.
CREATE OR REPLACE FUNCTION {schema}.keys_are_quick(p_lane integer, p_keyed integer) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
    SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    v_since timestamptz := clock_timestamp() - interval '1 second';
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM unnest(ARRAY[p_lane, p_keyed]) AS u(lane)
        CROSS JOIN LATERAL (
            SELECT k.seq, k.claimed_at, k.job_count FROM {schema}.claim k WHERE k.lane_id = u.lane ORDER BY k.seq DESC LIMIT 4) AS k
        CROSS JOIN LATERAL (
            SELECT sum(s.job_count) AS jobs, max(s.settled_at) AS at FROM (
                SELECT s.job_count, s.settled_at FROM {schema}.settlement s WHERE s.lane_id = u.lane AND s.seq = k.seq LIMIT 20) AS s) AS s
        WHERE k.claimed_at > v_since AND k.job_count > 0 AND s.jobs >= extract(epoch FROM s.at - k.claimed_at) * 10000);
END $$;

-- key_idle_for(lane, time): whether keys of it are in turn, and nothing of its queue and priority was claimed for so long. What lies in the future is from before the clock
-- was set back: it counts as long ago.
CREATE OR REPLACE FUNCTION {schema}.key_idle_for(p_lane integer, p_time interval) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
    SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    v_now    timestamptz := clock_timestamp();
    v_before timestamptz := v_now - p_time;
BEGIN
    IF (SELECT k.claimed_at FROM {schema}.claim k WHERE k.lane_id = p_lane AND k.job_count > 0 ORDER BY k.seq DESC LIMIT 1) BETWEEN v_before AND v_now
       OR EXISTS (SELECT 1 FROM {schema}.lane k JOIN {schema}.lane o ON o.queue = k.queue AND o.priority = k.priority AND o.id > 0 CROSS JOIN LATERAL (
              SELECT c.claimed_at, c.job_count FROM {schema}.claim c WHERE c.lane_id = o.id ORDER BY c.seq DESC LIMIT 1) AS c
          WHERE k.id = p_lane AND c.job_count > 0 AND c.claimed_at BETWEEN v_before AND v_now)
       OR NOT {schema}.key_ready({schema}.key_lane_of(p_lane)) THEN
        RETURN false;
    END IF;
    RETURN (SELECT h.available_at FROM {schema}.waiting h WHERE h.lane_id = p_lane AND h.state = 'keyed'
            ORDER BY h.lane_id, h.state, h.available_at, h.id + 0 LIMIT 1) NOT BETWEEN v_before AND v_now;
END $$;
