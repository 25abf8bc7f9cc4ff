-- Which keyed queues are read by a claim of many. It runs inside claim.

-- keyed_to_claim(lanes, priorities, queues, limits, keyed, without, kinds): the lanes of a claim; of these keyed queues, but for those in `without`, the ones that the claim reads. To read one
-- takes the locks of its keys and of all its lanes. So of many only those that seem to have work are read, and as many of them as take some 100 locks in all; each time
-- others go first. locks: how many they take. more: there may be others.
-- Cost: 8 us a lane, and some 100 us for each of them that has something in its log, or that waits for its key's turn, until there are enough.
CREATE OR REPLACE FUNCTION {schema}.keyed_to_claim(
    p_lanes integer[], p_priorities smallint[], p_queues bigint[], p_limits integer[], p_keyed bigint[], p_without bigint[], p_kinds text[],
    OUT keyed bigint[], OUT locks integer, OUT more boolean)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    v_lanes      integer[];
    v_priorities smallint[];
    v_queues     bigint[];
    q            record;
BEGIN
    keyed := '{}';
    locks := 0;
    more := false;
    SELECT array_agg(l.id ORDER BY l.nth), array_agg(l.priority ORDER BY l.nth), array_agg(l.queue ORDER BY l.nth) INTO v_lanes, v_priorities, v_queues
        FROM unnest(p_lanes, p_priorities, p_queues) WITH ORDINALITY AS l(id, priority, queue, nth)
        JOIN (SELECT unnest(p_keyed) EXCEPT SELECT unnest(p_without)) AS k(queue) ON k.queue = l.queue;
    FOR q IN
        SELECT w.queue, w.lanes, a.count FROM (
            SELECT u.queue, array_agg(DISTINCT u.lane) AS lanes
            FROM {schema}.lanes_with_work(v_lanes, v_priorities, v_queues, p_limits) AS w CROSS JOIN LATERAL unnest(w.lanes, w.queues) AS u(lane, queue) GROUP BY u.queue) AS w
        JOIN (SELECT u AS queue, count(*) AS count FROM unnest(v_queues) AS u GROUP BY u) AS a ON a.queue = w.queue
        ORDER BY random()
    LOOP
        IF locks >= 100 THEN
            more := true;
            RETURN;
        END IF;
        -- Keys that may not go on are no work: else a worker of many queues that wait would claim again and again.
        CONTINUE WHEN NOT EXISTS (
            SELECT 1 FROM unnest(q.lanes) AS l
            WHERE (SELECT a.ahead FROM {schema}.log_ahead(l) a) OR {schema}.waits_for_handler(l, p_kinds)
               OR l < 0 AND ({schema}.key_ready({schema}.key_lane_of(l)) OR {schema}.keys_let_go(l)));
        keyed := keyed || q.queue;
        locks := locks + 1 + q.count;
    END LOOP;
END $$;
